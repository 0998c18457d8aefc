//! A simulated cluster: it takes one event after the other from its agenda.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tenure_api::{Member, Principal};
use tenure_replica::{
    Input, Moment, Notice, Operation, RaftRole, ReplicaConfig, Request, RequestId,
    election::listeners::ListenerInput,
    watch::{WatchInput, WatchStream},
};

use crate::{
    cluster::{
        clients::SimClient,
        event::WorldEvent,
        faults::FaultKind,
        member::{MemberNumber, MembershipState, SimMember, id, listed},
        net::MemberNetwork,
        progress::record_moment,
        trace_events::TracedState,
        truth::Truth,
    },
    engine::{Agenda, Dice, RunCounts, SimClock, Trace, TraceEvent, ms, us},
    faults::{FaultHost, FaultScript},
    invariants::{Invariants, leases_end, one_answer::OpenRequest, written_once},
};

/// Separates the randomness of faults from all other.
const FATE: u64 = 0xfa7e;

/// The shortest pause that a member must notice.
const PAUSE_MIN: Duration = ms(100);

pub struct World {
    pub agenda: Agenda<WorldEvent>,
    pub dice: Dice,
    pub net: MemberNetwork,
    pub members: BTreeMap<MemberNumber, SimMember>,
    pub clients: Vec<Option<Box<dyn SimClient>>>,
    /// Which client listens on a watch stream, at which member.
    pub streams: BTreeMap<WatchStream, (usize, MemberNumber)>,
    pub faults: Vec<FaultKind>,
    /// The kinds that are left in this round, and the number of rounds so far.
    pub(super) deck: Vec<FaultKind>,
    pub(super) decks_dealt: u64,
    /// The randomness of faults, so that a fault left out does not change the others.
    pub fate: Dice,
    /// Replaces random faults.
    pub script: Option<FaultScript>,
    /// Members whose state differs from what it should be.
    pub rotten: BTreeSet<MemberNumber>,
    /// Whether faults may still be injected.
    pub rough: bool,
    /// The most inputs that a member gets in one call.
    pub inputs_max: usize,
    /// Whether members that start again may be newer than before.
    pub mixed: bool,
    /// How often a member of such a cluster is upgraded when it starts again, per mille.
    pub upgrades: u64,
    /// Multiplies the pauses of clients.
    pub leisure: u32,
    /// The principal of clients that do not name one.
    pub by: Principal,
    /// Whether clients start nothing new.
    pub resting: bool,
    pub truth: Truth,
    pub invariants: Invariants,
    pub counts: RunCounts,
    pub trace: Trace,
    /// The notices of members, for scenarios that wait for them.
    pub notices: Vec<(Moment, MemberNumber, Notice)>,
    pub snapshot_failures: u64,
    /// The largest one-way distance between two members.
    pub farthest: Duration,
    next_value: u64,
    messages: u64,
    pub(super) traced_elections: TracedState,
    next_stream: WatchStream,
}

impl World {
    /// A cluster of `members` members, none of which runs yet.
    pub fn new(seed: u64, members: u64) -> World {
        World::with(seed, members, |_| {})
    }

    pub fn with(seed: u64, members: u64, adjust: impl Fn(&mut ReplicaConfig)) -> World {
        let mut dice = Dice::new(seed);
        let founders: Vec<Member> = (1..=members).map(listed).collect();
        let make = |number: MemberNumber| {
            let mut config = ReplicaConfig::new(id(number), founders.clone());
            config.name = format!("m{number}");
            config.seed = seed;
            config.snapshot_entries = 40;
            config.snapshot_bytes_min = 4000;
            config.tail_bytes_max = 3000;
            config.audit_interval = ms(400);
            config.watch.stream_bytes_max = 600;
            config.watch.catch_up_changes_max = 7;
            config.watch.catch_up_bytes_max = 300;
            config.watch.answer_bytes_max = 150;
            config.watch.progress_interval = ms(700);
            adjust(&mut config);
            let ppm = dice.below(401) as i64 - 200;
            let clock = SimClock::new(ppm, Duration::ZERO);
            (number, SimMember::new(config, clock, MembershipState::In))
        };
        let members = (1..=members).map(make).collect();
        World {
            agenda: Agenda::default(),
            dice,
            net: MemberNetwork::default(),
            members,
            clients: vec![],
            streams: BTreeMap::new(),
            faults: vec![],
            deck: vec![],
            decks_dealt: 0,
            fate: Dice::new(seed ^ FATE),
            script: None,
            rotten: BTreeSet::new(),
            rough: false,
            inputs_max: usize::MAX,
            mixed: false,
            upgrades: 300,
            leisure: 1,
            by: Principal::Anonymous,
            resting: false,
            truth: Truth::new(founders),
            invariants: Invariants::default(),
            counts: RunCounts::default(),
            trace: Trace::from_environment(),
            notices: vec![],
            snapshot_failures: 0,
            farthest: Duration::ZERO,
            next_value: 0,
            messages: 0,
            traced_elections: TracedState::default(),
            next_stream: 0,
        }
    }

    pub fn now(&self) -> Moment {
        self.agenda.now()
    }

    /// The members that belong to the cluster.
    pub fn numbers(&self) -> Vec<MemberNumber> {
        let belongs = |member: &SimMember| member.membership == MembershipState::In;
        self.members.iter().filter(|(_, member)| belongs(member)).map(|(n, _)| *n).collect()
    }

    /// The number of a member that is about to be added.
    pub fn new_member(&mut self) -> MemberNumber {
        let number = self.members.keys().next_back().map_or(1, |last| last + 1);
        let mut config = self.members[&1].config.clone();
        config.me = id(number);
        config.members = vec![];
        config.name = format!("m{number}");
        let ppm = self.dice.below(401) as i64 - 200;
        let clock = SimClock::new(ppm, Duration::ZERO);
        self.members.insert(number, SimMember::new(config, clock, MembershipState::Asked));
        number
    }

    /// Schedules the start of members whose addition was agreed on.
    pub(super) fn start_added_members(&mut self) {
        let waiting = |member: &SimMember| member.membership == MembershipState::Asked;
        let asked: Vec<_> =
            self.members.iter().filter(|(_, m)| waiting(m)).map(|(n, _)| *n).collect();
        for number in asked {
            if self.truth.state().members.contains_key(&id(number)) {
                self.member_mut(number).membership = MembershipState::In;
                let delay = self.dice.duration(us(500), ms(900));
                self.agenda.after(delay, WorldEvent::Start(number));
            }
        }
    }

    pub(crate) fn trace_event(&mut self, event: impl FnOnce() -> TraceEvent) {
        self.trace.event(self.agenda.now(), event);
    }

    /// The number of the next message.
    pub(crate) fn next_message(&mut self) -> u64 {
        self.messages += 1;
        self.messages
    }

    /// Runs for this long.
    pub fn run(&mut self, duration: Duration) {
        let until = self.now() + duration;
        while self.step(until) {}
        self.agenda.pass(until);
    }

    /// Runs until `done` is true. Returns how long that took; none if it took longer than `limit`.
    pub fn run_until(
        &mut self,
        limit: Duration,
        mut done: impl FnMut(&mut World) -> bool,
    ) -> Option<Duration> {
        let start = self.now();
        while !done(self) {
            if !self.step(start + limit) {
                self.agenda.pass(start + limit);
                return None;
            }
        }
        Some(self.now().since(start))
    }

    /// Handles the next event; false if there is none until `until`.
    fn step(&mut self, until: Moment) -> bool {
        let Some(what) = self.agenda.next(until) else { return false };
        record_moment(self.now());
        if self.invariants.leases_survive.is_due(self.now()) {
            let is_renewable = self.is_renewable();
            self.invariants.leases_survive.look(self.now(), is_renewable);
        }
        self.trace.number(self.now().since_start().as_micros() as u64);
        match what {
            WorldEvent::Call { member, life, ticket } => self.call(member, life, ticket),
            WorldEvent::Arrive { to, life, input } => self.arrive(to, life, *input),
            WorldEvent::Flushed { member, life } => self.flushed(member, life),
            WorldEvent::SnapshotWritten { member, life, snapshot, good } => {
                self.snapshot_written(member, life, &snapshot, good);
            }
            WorldEvent::SnapshotCame { from, to, message, chunks } => {
                self.snapshot_came(from, to, *message, chunks)
            }
            WorldEvent::Start(member) => self.start(member),
            WorldEvent::Crash { member, life } => {
                if self.members[&member].life == life {
                    self.crash(member);
                }
            }
            WorldEvent::Resume { member, life } => self.resume(member, life),
            WorldEvent::Connect(caller, called) => self.connect(caller, called),
            WorldEvent::Connection { ends, life, id, event } => {
                self.on_connection_event(ends, life, id, event)
            }
            WorldEvent::EndUnseen { ends, life, id, event, given_up } => {
                self.end_unseen(ends, life, (id, event), given_up);
            }
            WorldEvent::Dismiss(member, removed) => self.dismiss(member, removed),
            WorldEvent::ClientTurn(client) => self.with_client(client, |client, me, world| {
                client.turn(me, world);
            }),
            WorldEvent::Nemesis => self.nemesis(),
            WorldEvent::Inject(step) => self.inject_step(*step),
            WorldEvent::Undo(undo) => self.undo(undo),
        }
        true
    }

    pub fn add_client(&mut self, client: impl SimClient + 'static) {
        let delay = self.dice.duration(us(10), ms(30));
        self.add_client_after(delay, client);
    }

    pub fn add_client_after(&mut self, delay: Duration, client: impl SimClient + 'static) {
        self.agenda.after(delay, WorldEvent::ClientTurn(self.clients.len()));
        self.clients.push(Some(Box::new(client)));
    }

    /// A client is taken out while it acts, so that it can use the world.
    pub fn with_client(
        &mut self,
        number: usize,
        act: impl FnOnce(&mut dyn SimClient, usize, &mut World),
    ) {
        let Some(mut client) = self.clients.get_mut(number).and_then(Option::take) else { return };
        act(&mut *client, number, self);
        self.clients[number] = Some(client);
    }

    /// Sends a request to a member; none if its process does not run.
    pub fn send_request(
        &mut self,
        client: usize,
        member: MemberNumber,
        op: Operation,
    ) -> Option<RequestId> {
        self.send_request_by(client, member, self.by.clone(), op)
    }

    /// The same, by this principal.
    pub fn send_request_by(
        &mut self,
        client: usize,
        member: MemberNumber,
        by: Principal,
        op: Operation,
    ) -> Option<RequestId> {
        self.members[&member].process.as_ref()?;
        let open = OpenRequest {
            member,
            client,
            by: by.clone(),
            request: op.clone(),
            sent: self.now(),
            floor: self.invariants.linearizable.horizon,
        };
        let id = self.invariants.one_answer.open(open);
        let op = self.maybe_stale(op);
        self.trace_ask(client, member, id, &op);
        self.arrive(member, self.members[&member].life, Input::Request(id, Request { by, op }));
        Some(id)
    }

    pub fn open_stream(&mut self, client: usize, member: MemberNumber) -> Option<WatchStream> {
        self.members[&member].process.as_ref()?;
        self.next_stream += 1;
        self.streams.insert(self.next_stream, (client, member));
        Some(self.next_stream)
    }

    pub fn listen(&mut self, member: MemberNumber, input: ListenerInput) {
        self.listen_by(member, self.by.clone(), input);
    }

    /// The same, for a principal.
    pub fn listen_by(&mut self, member: MemberNumber, by: Principal, input: ListenerInput) {
        self.arrive(member, self.members[&member].life, Input::Election(by, input));
    }

    pub fn watch(&mut self, member: MemberNumber, input: WatchInput) {
        self.arrive(member, self.members[&member].life, Input::Watch(input));
    }

    /// A value that is written only once.
    pub fn fresh_value(&mut self) -> String {
        self.next_value += 1;
        format!("{}{}", written_once::ONCE, self.next_value)
    }

    /// A random member whose process runs.
    pub fn some_member(&mut self) -> Option<MemberNumber> {
        let up: Vec<_> =
            self.members.iter().filter(|(_, m)| m.process.is_some()).map(|(n, _)| *n).collect();
        self.dice.pick(&up).copied()
    }

    /// The raft leader of the highest term, if there is one.
    pub fn leader(&self) -> Option<MemberNumber> {
        self.members
            .iter()
            .filter_map(|(number, member)| {
                let status = member.process.as_ref()?.replica.status();
                (status.role == RaftRole::Leader).then_some((status.term, *number))
            })
            .max()
            .map(|(_, number)| number)
    }

    /// Whether a renewal could be committed, if disks and connections are as good as can be.
    fn is_renewable(&self) -> bool {
        let voters = self.truth.state().members.values().filter(|one| !one.is_learner).count();
        let runs = |number: &MemberNumber| {
            let process = self.members[number].process.as_ref();
            process.is_some_and(|process| process.pauses == 0)
        };
        let running: Vec<_> = self.members.keys().copied().filter(runs).collect();
        let leads = |number: &&MemberNumber| {
            let process = self.members[number].process.as_ref();
            process.is_some_and(|process| process.replica.status().role == RaftRole::Leader)
        };
        let links = &self.net.links;
        let reaches = |leader: MemberNumber| {
            let is_reached = |other: &&MemberNumber| {
                !links.is_cut(leader, **other) && !links.is_cut(**other, leader)
            };
            running.iter().filter(is_reached).count()
        };
        running.iter().filter(leads).any(|leader| 2 * reaches(*leader) > voters)
    }

    /// The time within which every outage that prevents renewals is noticed.
    pub(super) fn outage_noticed_within(&self) -> Duration {
        let heartbeat = self.members.values().map(|member| member.config.heartbeat).max();
        let silence = PAUSE_MIN.max(2 * heartbeat.unwrap_or_default());
        3 * silence + 2 * self.farthest + ms(100)
    }

    /// Checks that unrenewed leases have ended, within `lost` of their due time.
    pub fn check_leases_end(&mut self, lost: Duration) {
        leases_end::check(self.agenda.now(), lost, &self.truth, &mut self.counts);
    }
}
