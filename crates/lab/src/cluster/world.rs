//! The executor: one agenda, one event after the other.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tenure_api::Member as Roll;
use tenure_replica::{
    Config, Input, Moment, Notice, Request, RequestId, Role,
    queue::listeners::LineInput,
    watch::{WatchInput, WatchStream},
};

use crate::{
    cluster::{
        canary::Canary,
        clients::Client,
        faults::Fault,
        happening::Happening,
        member::{Member, Number, Standing, id},
        net::Net,
        so_far::note_moment,
        story::Shown,
        truth::Truth,
    },
    engine::{Agenda, Clock, Counts, Dice, Event, Trace, ms, us},
    faults::Script,
    invariants::{Invariants, leases_end, one_answer::Open, written_once},
};

/// Sets the chance of faults apart from all other chance.
const FATE: u64 = 0xfa7e;

pub struct World {
    pub agenda: Agenda<Happening>,
    pub dice: Dice,
    pub net: Net,
    pub members: BTreeMap<Number, Member>,
    pub clients: Vec<Option<Box<dyn Client>>>,
    /// Which client listens on a watch stream, at which member.
    pub streams: BTreeMap<WatchStream, (usize, Number)>,
    pub faults: Vec<Fault>,
    /// Those of them that have not had their turn in this round, and how many rounds there were.
    pub(super) deck: Vec<Fault>,
    pub(super) decks_dealt: u64,
    /// Where faults get their chance, so that leaving one out does not change the others.
    pub fate: Dice,
    /// What to do instead of what chance says.
    pub script: Option<Script>,
    /// Members whose memory is not what it should be.
    pub rotten: BTreeSet<Number>,
    /// Faults may still strike.
    pub rough: bool,
    /// Clients think for so many times as long as they might.
    pub leisure: u32,
    /// Clients start nothing new.
    pub resting: bool,
    pub truth: Truth,
    pub invariants: Invariants,
    pub counts: Counts,
    pub trace: Trace,
    pub canary: Option<Canary>,
    /// What members had to say, for scenarios that wait for it.
    pub notices: Vec<(Moment, Number, Notice)>,
    pub snapshot_failures: u64,
    next_value: u64,
    messages: u64,
    pub(super) lines_shown: Shown,
    next_stream: WatchStream,
}

impl World {
    /// A cluster of so many members, none of which runs yet.
    pub fn new(seed: u64, members: u64) -> World {
        World::with(seed, members, |_| {})
    }

    pub fn with(seed: u64, members: u64, adjust: impl Fn(&mut Config)) -> World {
        let mut dice = Dice::new(seed);
        let roll: Vec<Roll> = (1..=members).map(roll).collect();
        let make = |number: Number| {
            let mut config = Config::new(id(number), roll.clone());
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
            (number, member(config, Clock::new(ppm, Duration::ZERO), Standing::In))
        };
        let members = (1..=members).map(make).collect();
        World {
            agenda: Agenda::default(),
            dice,
            net: Net::default(),
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
            leisure: 1,
            resting: false,
            truth: Truth::new(roll),
            invariants: Invariants::default(),
            counts: Counts::default(),
            trace: Trace::from_environment(),
            canary: None,
            notices: vec![],
            snapshot_failures: 0,
            next_value: 0,
            messages: 0,
            lines_shown: Shown::default(),
            next_stream: 0,
        }
    }

    pub fn now(&self) -> Moment {
        self.agenda.now()
    }

    /// Those that belong to the cluster.
    pub fn numbers(&self) -> Vec<Number> {
        let belongs = |member: &Member| member.standing == Standing::In;
        self.members.iter().filter(|(_, member)| belongs(member)).map(|(n, _)| *n).collect()
    }

    /// The number of somebody who shall be added.
    pub fn candidate(&mut self) -> Number {
        let number = self.members.keys().next_back().map_or(1, |last| last + 1);
        let mut config = self.members[&1].config.clone();
        config.me = id(number);
        config.members = vec![];
        config.name = format!("m{number}");
        let ppm = self.dice.below(401) as i64 - 200;
        let clock = Clock::new(ppm, Duration::ZERO);
        self.members.insert(number, member(config, clock, Standing::Asked));
        number
    }

    /// Whoever has been agreed on is started, sooner or later.
    pub(super) fn welcome(&mut self) {
        let waiting = |member: &Member| member.standing == Standing::Asked;
        let asked: Vec<_> =
            self.members.iter().filter(|(_, m)| waiting(m)).map(|(n, _)| *n).collect();
        for number in asked {
            if self.truth.state().members.contains_key(&id(number)) {
                self.member_mut(number).standing = Standing::In;
                let delay = self.dice.duration(us(500), ms(900));
                self.agenda.after(delay, Happening::Start(number));
            }
        }
    }

    pub(crate) fn tell_event(&mut self, event: impl FnOnce() -> Event) {
        self.trace.event(self.agenda.now(), event);
    }

    /// The number of the next message.
    pub(crate) fn next_message(&mut self) -> u64 {
        self.messages += 1;
        self.messages
    }

    /// Lets so much time pass.
    pub fn run(&mut self, duration: Duration) {
        let until = self.now() + duration;
        while self.step(until) {}
        self.agenda.pass(until);
    }

    /// Lets time pass until something is true; how long that took, or none if it took too long.
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

    /// The next event; false if there is none in time.
    fn step(&mut self, until: Moment) -> bool {
        let Some(what) = self.agenda.next(until) else { return false };
        note_moment(self.now());
        self.trace.number(self.now().since_start().as_micros() as u64);
        match what {
            Happening::Call { member, life, ticket } => self.call(member, life, ticket),
            Happening::Arrive { to, life, input } => self.arrive(to, life, *input),
            Happening::Flushed { member, life } => self.flushed(member, life),
            Happening::SnapshotWritten { member, life, frozen, good } => {
                self.snapshot_written(member, life, &frozen, good);
            }
            Happening::SnapshotCame { from, to, message, chunks } => {
                self.snapshot_came(from, to, *message, chunks)
            }
            Happening::Start(member) => self.start(member),
            Happening::Crash { member, life } => {
                if self.members[&member].life == life {
                    self.crash(member);
                }
            }
            Happening::Resume { member, life } => self.resume(member, life),
            Happening::Connect(a, b) => self.connect(a, b),
            Happening::Dismiss(member, removed) => self.dismiss(member, removed),
            Happening::Client(client) => self.with_client(client, |client, me, world| {
                client.turn(me, world);
            }),
            Happening::Nemesis => self.nemesis(),
            Happening::Blow(step) => self.blow(*step),
            Happening::Undo(undo) => self.undo(undo),
        }
        true
    }

    pub fn add_client(&mut self, client: impl Client + 'static) {
        let delay = self.dice.duration(us(10), ms(30));
        self.add_client_after(delay, client);
    }

    pub fn add_client_after(&mut self, delay: Duration, client: impl Client + 'static) {
        self.agenda.after(delay, Happening::Client(self.clients.len()));
        self.clients.push(Some(Box::new(client)));
    }

    /// A client is taken out while it acts, so that it can use the world.
    pub fn with_client(
        &mut self,
        number: usize,
        act: impl FnOnce(&mut dyn Client, usize, &mut World),
    ) {
        let Some(mut client) = self.clients.get_mut(number).and_then(Option::take) else { return };
        act(&mut *client, number, self);
        self.clients[number] = Some(client);
    }

    /// Sends a request to a member; none if nobody listens there.
    pub fn ask(&mut self, client: usize, member: Number, request: Request) -> Option<RequestId> {
        self.members[&member].process.as_ref()?;
        let open = Open {
            member,
            client,
            request: request.clone(),
            sent: self.now(),
            floor: self.invariants.linearizable.horizon,
        };
        let id = self.invariants.one_answer.ask(open);
        let request = self.maybe_stale(request);
        self.tell_ask(client, member, id, &request);
        self.arrive(member, self.members[&member].life, Input::Request(id, request));
        Some(id)
    }

    pub fn open_stream(&mut self, client: usize, member: Number) -> Option<WatchStream> {
        self.members[&member].process.as_ref()?;
        self.next_stream += 1;
        self.streams.insert(self.next_stream, (client, member));
        Some(self.next_stream)
    }

    pub fn listen(&mut self, member: Number, input: LineInput) {
        self.arrive(member, self.members[&member].life, Input::Line(input));
    }

    pub fn watch(&mut self, member: Number, input: WatchInput) {
        self.arrive(member, self.members[&member].life, Input::Watch(input));
    }

    /// A value that nobody else writes.
    pub fn fresh_value(&mut self) -> String {
        self.next_value += 1;
        format!("{}{}", written_once::ONCE, self.next_value)
    }

    /// A member whose process runs, by chance.
    pub fn some_member(&mut self) -> Option<Number> {
        let up: Vec<_> =
            self.members.iter().filter(|(_, m)| m.process.is_some()).map(|(n, _)| *n).collect();
        self.dice.pick(&up).copied()
    }

    /// The member that leads in the highest term, if any.
    pub fn leader(&self) -> Option<Number> {
        self.members
            .iter()
            .filter_map(|(number, member)| {
                let status = member.process.as_ref()?.replica.status();
                (status.role == Role::Leader).then_some((status.term, *number))
            })
            .max()
            .map(|(_, number)| number)
    }

    /// Leases of dead holders must be gone by now, give or take what the cluster may have lost.
    pub fn judge_leases_end(&mut self, lost: Duration) {
        leases_end::judge(self.agenda.now(), lost, &self.truth, &mut self.counts);
    }
}

fn member(config: Config, clock: Clock, standing: Standing) -> Member {
    let (disk, slow) = (Default::default(), Duration::ZERO);
    let shown = Shown::default();
    Member { config, disk, process: None, life: 0, clock, slow, standing, shown, timer: None }
}

fn roll(number: Number) -> Roll {
    Roll {
        id: id(number),
        name: String::new(),
        peer_urls: vec![peer_url(number)],
        client_urls: vec![],
        is_learner: false,
    }
}

pub fn peer_url(number: Number) -> String {
    format!("http://m{number}:2380")
}
