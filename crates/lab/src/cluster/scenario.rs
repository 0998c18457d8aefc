//! Stories with a beginning (everybody starts), a rough middle and an end at which all must be well.

use std::time::Duration;

use bytes::Bytes;
use tenure_api::{Failure, Put, op::PutLease};
use tenure_replica::{Consistency, Read, Reply, Request, command::Command};

use crate::{
    cluster::{
        Canary, World,
        clients::{Candidate, Holder, Mover, Operator, Probe, Registers, Ruler, Stock, Watcher},
        faults::Fault,
        member::{Number, Standing, id},
    },
    engine::{Dice, Trace, ms},
    faults::Script,
    invariants::{agreement, heals},
    recipes::cast::Cast,
};

#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    pub members: u64,
    pub faults: &'static [Fault],
    pub rough_for: Duration,
    pub registers: usize,
    pub holders: usize,
    pub watchers: usize,
    pub movers: usize,
    pub operators: usize,
    /// So many stand in line for each of two names, and somebody rules over one of them.
    pub candidates: usize,
    /// Programs that use the shipped recipes.
    pub programs: Option<Cast>,
    /// Clients think for so many times as long as they might.
    pub leisure: u32,
    /// In the middle of it all is lost but a backup, and a new cluster begins with that.
    pub restored: bool,
}

/// From the moment everything is well, the cluster serves within this time.
const SERVES_AFTER: Duration = ms(3000);
/// Longer than any TTL of a holder, and what restarts and leader changes may add.
const LEASES_END_AFTER: Duration = ms(9000);

/// What one member has committed, all have within this time, if nothing is in the way.
const SETTLES_AFTER: Duration = ms(100);

/// Prints how to see a failure again.
pub struct Replay {
    scenario: Option<&'static str>,
    seed: u64,
}

impl Replay {
    /// Of a test that is not a scenario: it is its own replay.
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
    pub fn run(&self, seed: u64, canary: Option<Canary>) -> World {
        let _replay = Replay { scenario: Some(self.name), seed };
        let mut world = self.world(seed);
        world.canary = canary;
        self.play(&mut world);
        world
    }

    /// Plays it with blows of one's own, if there are any, and tells the story.
    ///
    /// # Errors
    /// If the script names somebody unknown.
    pub fn tell(&self, seed: u64, script: Option<&Script>, trace: Trace) -> Result<World, String> {
        let mut world = self.world(seed);
        world.trace = trace;
        script.map_or(Ok(()), |script| world.follow(script, self.operators > 0))?;
        self.play(&mut world);
        Ok(world)
    }

    /// A cluster whose limits are chosen by chance, too.
    pub fn world(&self, seed: u64) -> World {
        let mut dice = Dice::new(seed ^ 0xfeed);
        let entries = *dice.pick(&[6, 60, 200, 800]).expect("there are four");
        let audit = ms(*dice.pick(&[400, 2000, 10_000]).expect("there are three"));
        let tail = *dice.pick(&[300, 3000, 1 << 20]).expect("there are three");
        let stream = *dice.pick(&[200, 600, 1 << 20]).expect("there are three");
        World::with(seed, self.members, |config| {
            config.snapshot_entries = entries;
            config.audit_interval = audit;
            config.tail_bytes_max = tail;
            config.watch.stream_bytes_max = stream;
        })
    }

    pub fn play(&self, world: &mut World) {
        world.leisure = self.leisure;
        if self.restored {
            self.live_until_lost(world);
        }
        self.begin(world);
        world.run(self.rough_for);
        world.heal();
        world.removed_must_stop_within(SERVES_AFTER);
        world.must_serve_within(SERVES_AFTER);
        world.come_to_rest();
        // Without trouble there is nothing to wait for but the next turn of the leader's clock.
        let calm = self.faults.is_empty() && self.operators == 0;
        let lost = if calm { ms(100) } else { self.rough_for + LEASES_END_AFTER };
        world.judge_leases_end(lost);
    }

    /// A first life, of which nothing is left but a backup from somewhere in its middle.
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

    /// Everybody starts, the clients come, and soon after that the trouble.
    fn begin(&self, world: &mut World) {
        world.start_all();
        for _ in 0..self.registers {
            world.add_client(Registers::default());
        }
        for number in 0..self.holders {
            world.add_client(Holder::new(1 + number as i64 % 3));
        }
        for _ in 0..self.watchers {
            world.add_client(Watcher::default());
        }
        for _ in 0..self.movers {
            world.add_client(Mover);
        }
        for number in 0..2 * self.candidates {
            let name = ["ruled", "free"][number % 2];
            world.add_client_after(ms(300), Candidate::new(name, 600 + 300 * number as u64));
        }
        if self.candidates > 0 {
            world.add_client_after(ms(500), Ruler { name: "ruled" });
            for _ in 0..2 {
                world.add_client_after(ms(400), Stock::new("stock"));
            }
        }
        if let Some(cast) = &self.programs {
            let town = cast.town(world.now(), world.canary, &mut world.dice);
            world.add_client_after(ms(400), town);
        }
        for _ in 0..self.operators {
            world.add_client_after(ms(1500), Operator::default());
        }
        world.must_lead_within(ms(1500));
        world.trouble(self.faults);
    }
}

impl World {
    pub fn must_lead_within(&mut self, limit: Duration) -> Duration {
        let took = self.run_until(limit, |world| world.leader().is_some());
        heals::judge(took.is_some(), "nobody leads", limit, &mut self.counts);
        took.expect("it was just judged")
    }

    /// Whoever was removed hears of it and stops.
    pub fn removed_must_stop_within(&mut self, limit: Duration) {
        let stopped = |world: &mut World| {
            let removed = |number: &Number| world.truth.state().removed.contains(&id(*number));
            !world.numbers().iter().any(removed)
        };
        let took = self.run_until(limit, stopped);
        let came = took.is_some();
        heals::judge(came, "a member that was removed runs on", limit, &mut self.counts);
    }

    /// Every member takes a write and a linearizable read.
    pub fn must_serve_within(&mut self, limit: Duration) {
        let until = self.now() + limit;
        for member in self.numbers() {
            loop {
                let put = self.probe(member, self.plain_put("probe"));
                let read = Request::Read(Read::Freshness, Consistency::Linearizable);
                if put.is_ok() && self.probe(member, read).is_ok() {
                    break;
                }
                if self.members[&member].standing == Standing::Gone {
                    break;
                }
                let late = format!("member {member} does not serve");
                heals::judge(self.now() <= until, late, limit, &mut self.counts);
                self.run(ms(5));
            }
        }
        heals::judge(self.now() <= until, "not everybody serves", limit, &mut self.counts);
    }

    pub fn plain_put(&self, key: &str) -> Request {
        let value = format!("probe at {:?}", self.now().since_start());
        Request::Write(Command::Put(Put {
            key: Bytes::copy_from_slice(key.as_bytes()),
            value: Some(value.into()),
            lease: PutLease::Set(None),
            prev_kv: false,
        }))
    }

    /// Asks one thing and waits for the answer.
    pub fn probe(&mut self, member: Number, request: Request) -> Result<Reply, Failure> {
        self.timed_probe(member, request).1
    }

    pub fn timed_probe(
        &mut self,
        member: Number,
        request: Request,
    ) -> (Duration, Result<Reply, Failure>) {
        let (probe, verdict) = Probe::new(member, request);
        self.add_client_after(Duration::ZERO, probe);
        let seen = verdict.clone();
        self.run_until(ms(20_000), move |_| seen.borrow().is_some());
        let verdict = verdict.borrow_mut().take();
        verdict.unwrap_or_else(|| {
            self.invariants.one_answer.judge_rest();
            unreachable!("a request was answered, but its client not told");
        })
    }

    /// Nobody asks any more: everything is answered, everybody has the same, and dead leases end.
    pub fn come_to_rest(&mut self) {
        self.resting = true;
        let waiting = |world: &mut World| world.invariants.one_answer.waiting() == 0;
        let patience = ms(6000) + ms(300);
        self.run_until(patience, waiting);
        self.invariants.one_answer.judge_rest();
        self.run(LEASES_END_AFTER);
        let live = self.truth.state().leases.len();
        assert_eq!(live, 0, "{live} leases live on though their holders are gone");
        // The raft leader may have logged something of its own (an audit) just now.
        self.run_until(SETTLES_AFTER, |world| {
            let up_to_date = |number: &Number| {
                let process = world.members[number].process.as_ref();
                process.is_some_and(|p| p.replica.status().applied == world.truth.last())
            };
            world.numbers().iter().all(up_to_date)
        });
        for number in &self.numbers() {
            let member = &self.members[number];
            let process = member.process.as_ref().expect("everybody is there");
            let status = process.replica.status();
            assert_eq!(status.applied, self.truth.last(), "member {number} lags: {status:?}");
            agreement::judge_whole(*number, process, &self.truth, &mut self.counts);
        }
        for client in 0..self.clients.len() {
            self.with_client(client, |client, _, world| client.settled(world));
        }
    }
}
