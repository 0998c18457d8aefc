//! Scenarios: all members start, then come the faults, and after their end everything must work.

use std::time::Duration;

use bytes::Bytes;
use tenure_api::{Failure, Put, op::PutLease};
use tenure_replica::{
    Consistency, Operation, PipelineLimits, Read, Reply,
    command::{COMMAND_VERSION, Command},
};

use crate::{
    cluster::{
        World,
        clients::{
            AdminClient, CandidateClient, LeaseClient, MembershipClient, MoveLeaderClient,
            ProbeClient, RegisterClient, StockClient, UserClient, WatchClient, root,
        },
        faults::FaultKind,
        member::{MemberNumber, MembershipState, id},
    },
    engine::{Dice, Trace, ms, us},
    faults::FaultScript,
    invariants::{agreement, heals},
    recipes::program_mix::ProgramMix,
};

#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    /// What it shows, for `tenure lab list`.
    pub about: &'static str,
    pub members: u64,
    pub faults: &'static [FaultKind],
    pub rough_for: Duration,
    pub registers: usize,
    pub holders: usize,
    pub watchers: usize,
    pub movers: usize,
    pub operators: usize,
    /// Clients that change users and roles, and ask as users. All others are root then.
    pub users: usize,
    /// Candidates of each of two elections, one of them with an administrator.
    pub candidates: usize,
    /// Programs that use the shipped recipes.
    pub programs: Option<ProgramMix>,
    /// Multiplies the pauses of clients.
    pub leisure: u32,
    /// In the middle, the cluster is lost and restored from a backup.
    pub restored: bool,
    /// Members begin with different versions.
    pub mixed: bool,
    /// How far apart the members are, and how slow their disks, for the whole run.
    pub distance: Option<Distance>,
}

/// What is constant in a run: drawn once for each direction between two members, and for each disk.
#[derive(Clone, Copy, Debug)]
pub struct Distance {
    /// The least and the most time that a message takes.
    pub one_way: (Duration, Duration),
    /// The least and the most added time of a flush.
    pub flush: (Duration, Duration),
    /// Heartbeat and election timeout, if they are set to match.
    pub timing: Option<(Duration, Duration)>,
}

/// After the end of all faults the cluster serves within this time, or within this many election timeouts and some
/// round trips.
const SERVES_AFTER: Duration = ms(3000);
/// Entries of other clients that a write may have to wait for: the drawn settings may allow one entry under way at a
/// time, with one batch in it.
const ENTRIES_AHEAD_MAX: u32 = 10;
const SERVES_AFTER_TIMEOUTS: u32 = 6;
/// Longer than any TTL of a client, with what restarts and leader changes may add.
const LEASES_END_AFTER: Duration = ms(9000);

/// What one member has committed, all near members have within this time, without faults.
const SETTLES_AFTER: Duration = ms(100);

/// Prints the command that repeats a failed run.
pub struct Replay {
    scenario: Option<&'static str>,
    seed: u64,
}

impl Replay {
    /// For a test that is not a scenario: the test itself repeats the run.
    pub fn of_test(seed: u64) -> Replay {
        Replay { scenario: None, seed }
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let thread = std::thread::current();
        let (scenario, test) = match self.scenario {
            Some(name) => (format!("TENURE_SCENARIO={name} "), "chance::replay"),
            None => (String::new(), thread.name().unwrap_or_default()),
        };
        eprintln!(
            "replay with: {scenario}TENURE_SEED={} TENURE_TRACE=1 cargo nextest run -p \
             tenure-lab --test cluster {test} --no-capture",
            self.seed
        );
    }
}

impl Scenario {
    pub fn run(&self, seed: u64) -> World {
        let _replay = Replay { scenario: Some(self.name), seed };
        let mut world = self.world(seed);
        self.play(&mut world);
        world
    }

    /// Plays the scenario, with a fault script if there is one, and traces it.
    ///
    /// # Errors
    /// If the script names an unknown member.
    pub fn play_traced(
        &self,
        seed: u64,
        script: Option<&FaultScript>,
        trace: Trace,
    ) -> Result<World, String> {
        let mut world = self.world(seed);
        world.trace = trace;
        script.map_or(Ok(()), |script| world.follow(script, self.operators > 0))?;
        self.play(&mut world);
        Ok(world)
    }

    /// A cluster whose limits are random, too.
    pub fn world(&self, seed: u64) -> World {
        let mut dice = Dice::new(seed ^ 0xfeed);
        let entries = *dice.pick(&[6, 60, 200, 800]).expect("there are four");
        let audit = ms(*dice.pick(&[400, 2000, 10_000]).expect("there are three"));
        // A log that is shorter than what is written in a round trip leaves a distant member nothing but snapshots.
        let tail_min = if self.distance.is_some() { 30_000 } else { 0 };
        let tail = *dice.pick(&[300, 3000, 1 << 20]).expect("there are three");
        let stream = *dice.pick(&[200, 600, 1 << 20]).expect("there are three");
        let timing = self.distance.and_then(|distance| distance.timing);
        let election_timeout = ms(*dice.pick(&[250, 500, 500, 1000]).expect("there are four"));
        let heartbeats = *dice.pick(&[4, 10, 20]).expect("there are three");
        let pipeline = PipelineLimits {
            follow_after: us(*dice.pick(&[0, 2000, 20_000]).expect("there are three")),
            entries_max: *dice.pick(&[1, 3, 64]).expect("there are three"),
            entry_weight_max: *dice.pick(&[1, 10, 2048]).expect("there are three"),
            read_round_heartbeats: *dice.pick(&[1, 4, 20]).expect("there are three"),
        };
        let inputs_max = *dice.pick(&[1, 5, 1000]).expect("there are three");
        let mut world = World::with(seed, self.members, |config| {
            if self.distance.is_none() {
                config.election_timeout = election_timeout;
                config.heartbeat = (election_timeout / heartbeats).max(config.tick);
            }
            config.request_timeout = ms(5000) + 2 * config.election_timeout;
            config.pipeline = pipeline;
            config.snapshot_entries = entries;
            config.audit_interval = audit;
            config.tail_bytes_max = tail.max(tail_min);
            config.watch.stream_bytes_max = stream;
            if let Some((heartbeat, election_timeout)) = timing {
                (config.heartbeat, config.election_timeout) = (heartbeat, election_timeout);
                config.request_timeout = ms(5000) + 2 * election_timeout;
            }
        });
        world.inputs_max = inputs_max;
        world.mixed = self.mixed;
        for (at, member) in world.members.values_mut().filter(|_| self.mixed).enumerate() {
            // There are users only where all members know them: one member may be a release behind, until it starts again.
            let oldest = match at {
                _ if self.users == 0 => 1,
                0 => COMMAND_VERSION - 1,
                _ => COMMAND_VERSION,
            };
            let version = dice.between(oldest.into(), COMMAND_VERSION.into()) as u32;
            member.config.command_version = version;
        }
        world.upgrades = if self.users > 0 { 1000 } else { 300 };
        if let Some(distance) = &self.distance {
            world.move_apart(distance, &mut dice);
        }
        world
    }

    pub fn play(&self, world: &mut World) {
        world.leisure = self.leisure;
        if self.restored {
            self.live_until_lost(world);
        }
        self.begin(world);
        world.run(self.rough_for);
        let serves_after = world.serves_after();
        // A member change under way would change which members are a majority.
        let is_plain = self.operators == 0 && self.programs.is_none() && world.script.is_none();
        let has_core = is_plain && !self.faults.is_empty();
        if has_core && world.truth.state().voters().count() > 2 && world.fate.chance(500) {
            world.core_must_serve_within(4 * serves_after);
        }
        world.heal();
        world.removed_must_stop_within(serves_after);
        world.must_serve_within(serves_after);
        world.must_be_there_within(serves_after);
        world.come_to_rest();
        // Without faults there is nothing to wait for but the raft leader's next tick.
        let calm = self.faults.is_empty() && self.operators == 0;
        let lost = if calm { world.settles_after() } else { self.rough_for + LEASES_END_AFTER };
        world.check_leases_end(lost);
    }

    /// Runs a cluster until it is lost, and restores it from a backup of its middle.
    fn live_until_lost(&self, world: &mut World) {
        self.begin(world);
        let mut backup = None;
        while backup.is_none() {
            let while_ = world.dice.duration(ms(500), self.rough_for / 2);
            world.run(while_);
            backup = world.backup();
        }
        world.run(self.rough_for / 2);
        backup.iter().for_each(|backup| world.restore(backup));
    }

    /// Starts all members, adds the clients, and enables the faults.
    fn begin(&self, world: &mut World) {
        world.start_all();
        for _ in 0..self.registers {
            world.add_client(RegisterClient::default());
        }
        for number in 0..self.holders {
            world.add_client(LeaseClient::new(1 + number as i64 % 3));
        }
        for _ in 0..self.watchers {
            world.add_client(WatchClient::default());
        }
        for _ in 0..self.movers {
            world.add_client(MoveLeaderClient);
        }
        for number in 0..2 * self.candidates {
            let name = ["ruled", "free"][number % 2];
            world.add_client_after(ms(300), CandidateClient::new(name, 600 + 300 * number as u64));
        }
        if self.candidates > 0 {
            world.add_client_after(ms(500), AdminClient { name: "ruled" });
            for _ in 0..2 {
                world.add_client_after(ms(400), StockClient::new("stock"));
            }
        }
        if let Some(mix) = &self.programs {
            let simulation = mix.simulation(world.now(), &mut world.dice);
            world.add_client_after(ms(400), simulation);
        }
        if self.users > 0 {
            world.by = root();
        }
        for _ in 0..self.users {
            world.add_client_after(ms(300), UserClient);
        }
        for _ in 0..self.operators {
            world.add_client_after(ms(1500), MembershipClient::default());
        }
        world.must_lead_within(world.serves_after() / 2);
        world.start_faults(self.faults);
    }
}

impl World {
    /// After the end of all faults the cluster serves within this time.
    fn serves_after(&self) -> Duration {
        let timeouts = self.members.values().map(|member| member.config.election_timeout);
        let longest = timeouts.max().unwrap_or_default();
        // One member is asked after the other. A write takes four ways (to the raft leader, to a follower, back, and
        // the notice), a linearizable read as many; each entry that is ahead takes two.
        let ways = self.members.len() as u32 * (8 + 2 * ENTRIES_AHEAD_MAX);
        SERVES_AFTER.max(SERVES_AFTER_TIMEOUTS * longest) + ways * self.farthest
    }

    /// Sets the distances between members for the whole run. The way back may be longer or shorter, and a member that is
    /// added later is near all others.
    fn move_apart(&mut self, distance: &Distance, dice: &mut Dice) {
        for number in self.numbers() {
            for other in self.numbers().into_iter().filter(|other| *other != number) {
                let takes = dice.duration(distance.one_way.0, distance.one_way.1);
                self.net.links.set_distance(number, other, (takes, takes + takes / 10));
            }
            let member = self.member_mut(number);
            let longer = dice.duration(distance.flush.0, distance.flush.1);
            member.usual_flush.0 += longer;
            member.usual_flush.1 += longer + longer / 10;
            member.disk.flush = member.usual_flush;
        }
        self.farthest = distance.one_way.1;
    }

    /// What one member has committed, all have within this time, without faults.
    fn settles_after(&self) -> Duration {
        SETTLES_AFTER + 6 * self.farthest
    }

    /// Starts all members and waits for a raft leader, and then for this long. Returns the one that leads then.
    pub fn started(&mut self, settles: Duration) -> MemberNumber {
        self.start_all();
        self.must_lead_within(ms(1500));
        self.run(settles);
        self.leader().expect("its leadership is not disturbed")
    }

    pub fn must_lead_within(&mut self, limit: Duration) -> Duration {
        let took = self.run_until(limit, |world| world.leader().is_some());
        heals::check(took.is_some(), "there is no raft leader", limit, &mut self.counts);
        took.expect("it was just checked")
    }

    /// Every removed member learns of it and stops.
    pub fn removed_must_stop_within(&mut self, limit: Duration) {
        let stopped = |world: &mut World| {
            let removed =
                |number: &MemberNumber| world.truth.state().removed.contains(&id(*number));
            !world.numbers().iter().any(removed)
        };
        let took = self.run_until(limit, stopped);
        let came = took.is_some();
        heals::check(came, "a member that was removed runs on", limit, &mut self.counts);
    }

    /// Every member takes a write and a linearizable read.
    pub fn must_serve_within(&mut self, limit: Duration) {
        let until = self.now() + limit;
        for member in self.numbers() {
            loop {
                let put = self.probe(member, self.plain_put("probe"));
                let read = Operation::Read(Read::Freshness, Consistency::Linearizable);
                if put.is_ok() && self.probe(member, read).is_ok() {
                    break;
                }
                if self.members[&member].membership == MembershipState::Gone {
                    break;
                }
                let late = format!("member {member} does not serve");
                heals::check(self.now() <= until, late, limit, &mut self.counts);
                self.run(ms(5));
            }
        }
        heals::check(self.now() <= until, "not every member serves", limit, &mut self.counts);
    }

    /// Every running member takes every other one for connected; else members cannot be changed.
    pub fn must_be_there_within(&mut self, limit: Duration) {
        let all_there = |world: &mut World| {
            let belong = world.numbers();
            belong.iter().filter_map(|number| world.members[number].process.as_ref()).all(|at| {
                let roll = &at.replica.state().members;
                let known = belong.iter().filter(|other| roll.contains_key(&id(**other)));
                known.into_iter().all(|other| at.replica.is_there(id(*other)))
            })
        };
        let took = self.run_until(limit, all_there);
        let late = "a member takes another for absent and cannot change the members";
        heals::check(took.is_some(), late, limit, &mut self.counts);
    }

    pub fn plain_put(&self, key: &str) -> Operation {
        let value = format!("probe at {:?}", self.now().since_start());
        Operation::Write(Command::Put(Put {
            key: Bytes::copy_from_slice(key.as_bytes()),
            value: Some(value.into()),
            lease: PutLease::Set(None),
            prev_kv: false,
        }))
    }

    /// Sends one request and waits for the answer.
    pub fn probe(&mut self, member: MemberNumber, request: Operation) -> Result<Reply, Failure> {
        self.timed_probe(member, request).1
    }

    pub fn timed_probe(
        &mut self,
        member: MemberNumber,
        request: Operation,
    ) -> (Duration, Result<Reply, Failure>) {
        let (probe, result) = ProbeClient::new(member, request);
        self.add_client_after(Duration::ZERO, probe);
        let seen = result.clone();
        self.run_until(ms(20_000), move |_| seen.borrow().is_some());
        let result = result.borrow_mut().take();
        result.unwrap_or_else(|| {
            self.invariants.one_answer.check_rest();
            unreachable!("a request was answered, but its client was not told");
        })
    }

    /// Clients stop: all requests are answered, all members have the same state, and unrenewed leases end.
    pub fn come_to_rest(&mut self) {
        self.resting = true;
        let waiting = |world: &mut World| world.invariants.one_answer.waiting() == 0;
        let patience = self.members.values().map(|member| member.config.request_timeout).max();
        self.run_until(patience.unwrap_or_default() + ms(300), waiting);
        self.invariants.one_answer.check_rest();
        self.run(LEASES_END_AFTER);
        let live = self.truth.state().leases.len();
        assert_eq!(live, 0, "{live} leases live on though no client renews them");
        // The raft leader may just have logged an entry of its own (an audit).
        self.run_until(self.settles_after(), |world| {
            let up_to_date = |number: &MemberNumber| {
                let process = world.members[number].process.as_ref();
                process.is_some_and(|p| p.replica.status().applied == world.truth.last())
            };
            world.numbers().iter().all(up_to_date)
        });
        for number in &self.numbers() {
            let member = &self.members[number];
            let process = member.process.as_ref().expect("every member runs");
            let status = process.replica.status();
            assert_eq!(status.applied, self.truth.last(), "member {number} lags: {status:?}");
            agreement::check_whole(*number, process, &self.truth, &mut self.counts);
        }
        for client in 0..self.clients.len() {
            self.with_client(client, |client, _, world| client.settled(world));
        }
    }
}
