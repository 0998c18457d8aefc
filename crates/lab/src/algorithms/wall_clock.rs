//! A lease whose end is a time of day: everybody compares it with its own clock.
//!
//! The record in the store says who leads and until when. The leader moves that time on before it comes;
//! whoever finds that it has passed takes the lease. `if lease_expiry > now()` looks safe on every machine,
//! and is as safe as their clocks are equal.
//!
//! - `lease-wall-clock`: as above. A clock that is ahead takes a lease that is not over; one that is behind
//!   goes on with one that is.
//! - `lease-bounded-uncertainty`: all know that no clock is off by more than ε (Spanner's TrueTime). The
//!   leader stops ε early and the others wait ε longer. Safe, for as long as ε is true.
//! - `dynamodb`: one conditional write in place of read and swap, `attribute_not_exists(leader_id) OR
//!   lease_expiry < :now`. The comparison is atomic; `:now` is still the client's clock.

use std::time::Duration;

use super::{
    Algorithm, Scenario, Setup,
    store::{Answer, Ask, Entry, Line, Rules, STORE, Say, Store, When},
};
use crate::{
    engine::ms,
    stage::{Gate, NodeId, Part, Play, Program, Promise, Scene, Stage, View},
};

const KEY: &str = "leader";
const TTL: Duration = ms(10_000);
const RENEW: Duration = ms(3333);
/// Whoever waits looks so often.
const LOOK: Duration = ms(100);
/// No clock is off by more, they say.
const UNCERTAINTY: Duration = ms(250);

/// How the time of day is read.
#[derive(Debug)]
struct Reading {
    uncertainty: Duration,
    /// The server compares, with the client's time; or the client reads and swaps.
    server_compares: bool,
}

const NAIVE: Reading = Reading { uncertainty: Duration::ZERO, server_compares: false };
const BOUNDED: Reading = Reading { uncertainty: UNCERTAINTY, ..NAIVE };
const CONDITIONAL: Reading = Reading { server_compares: true, ..NAIVE };

pub(super) const LEASE_WALL_CLOCK: Algorithm = Algorithm {
    name: "lease-wall-clock",
    about: "a lease until a time of day, which everybody compares with its own clock",
    origin: "the anti-pattern `if lease_expiry > now()`",
    promises: &[
        Promise::OneBeliever,
        Promise::OneWriter,
        Promise::VacantAtMost(ms(10_750)),
        Promise::SomebodyLeads,
    ],
    contenders: 3,
    patience: Some(ms(12_000)),
    cast: |setup| cast(setup, &NAIVE),
};

pub(super) const LEASE_BOUNDED_UNCERTAINTY: Algorithm = Algorithm {
    name: "lease-bounded-uncertainty",
    about: "a lease until a time of day, where both sides wait out how far clocks can be off",
    origin: "Spanner's TrueTime, Corbett et al. 2012",
    cast: |setup| cast(setup, &BOUNDED),
    ..LEASE_WALL_CLOCK
};

pub(super) const DYNAMODB: Algorithm = Algorithm {
    name: "dynamodb",
    about: "a conditional write: if nobody has it, or its end is before the writer's own time",
    origin: "DynamoDB's conditional writes as a lock",
    cast: |setup| cast(setup, &CONDITIONAL),
    ..LEASE_WALL_CLOCK
};

/// A little off, both ways, when the leader cannot renew.
const A_LITTLE_OFF: &str =
    "at 5s clock a jumps -200ms\nat 5s clock b jumps +200ms\nat 7s cut a store for 20s\n";
const FAR_AHEAD: &str = "at 5s clock b jumps +15s\n";
const FAR_BEHIND: &str = "at 5s clock a jumps -15s\nat 7s cut a store for 20s\n";

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "lease-wall-clock-crash",
        algorithm: &LEASE_WALL_CLOCK,
        about: "All clocks are right. The leader dies, and when its time is up another leads.",
        lasts: Duration::from_secs(30),
        script: "at 7s crash a\n",
        breaks: &[],
    },
    Scenario {
        name: "lease-wall-clock-ahead",
        algorithm: &LEASE_WALL_CLOCK,
        about: "One clock is 15 s ahead: to it the lease is over, and it takes it. The leader does not learn of that before it renews.",
        lasts: Duration::from_secs(30),
        script: FAR_AHEAD,
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Scenario {
        name: "lease-wall-clock-behind",
        algorithm: &LEASE_WALL_CLOCK,
        about: "The leader's clock is set back by 15 s, and it cannot renew. Its lease ends for all but itself.",
        lasts: Duration::from_secs(40),
        script: FAR_BEHIND,
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Scenario {
        name: "lease-wall-clock-a-little",
        algorithm: &LEASE_WALL_CLOCK,
        about: "Two clocks are 200 ms off, one each way. When the leader cannot renew, two lead for 400 ms.",
        lasts: Duration::from_secs(40),
        script: A_LITTLE_OFF,
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
    Scenario {
        name: "lease-bounded-uncertainty-kept",
        algorithm: &LEASE_BOUNDED_UNCERTAINTY,
        about: "Two clocks are 200 ms off, within the bound of 250 ms. One stops early, the other waits longer, and at no time do both lead.",
        lasts: Duration::from_secs(40),
        script: A_LITTLE_OFF,
        breaks: &[],
    },
    Scenario {
        name: "lease-bounded-uncertainty-broken",
        algorithm: &LEASE_BOUNDED_UNCERTAINTY,
        about: "One clock is off by more than anybody thought possible.",
        lasts: Duration::from_secs(30),
        script: FAR_AHEAD,
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
];

pub(super) const DYNAMODB_SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "dynamodb-crash",
        algorithm: &DYNAMODB,
        about: "The leader dies, and the first conditional write after the end of its lease succeeds.",
        lasts: Duration::from_secs(30),
        script: "at 7s crash a\n",
        breaks: &[],
    },
    Scenario {
        name: "dynamodb-skew",
        algorithm: &DYNAMODB,
        about: "One client's clock is 15 s ahead: the condition holds, and the write takes the lease of a leader that lives.",
        lasts: Duration::from_secs(30),
        script: FAR_AHEAD,
        breaks: &[Promise::OneBeliever, Promise::OneWriter],
    },
];

#[derive(Debug)]
struct Reader {
    reading: &'static Reading,
    line: Line,
    part: Part,
    leader: Option<NodeId>,
    version: u64,
    /// Until when its lease lasts, by its own clock, and what it has asked for.
    until: Duration,
    asked: Duration,
}

impl Reader {
    fn new(reading: &'static Reading) -> Reader {
        Reader {
            reading,
            line: Line::default(),
            part: Part::Idle,
            leader: None,
            version: 0,
            until: Duration::ZERO,
            asked: Duration::ZERO,
        }
    }

    fn put(&mut self, purpose: &'static str, when: When, scene: &mut Scene<'_, Say>) {
        let (store, value) = (scene.named(STORE), scene.name(scene.me).to_owned());
        self.asked = scene.wall() + TTL;
        let what = Ask::Put { key: KEY, value, when, ttl: None, stamp: Some(self.asked) };
        self.line.ask(store, purpose, what, scene);
    }

    fn look(&mut self, scene: &mut Scene<'_, Say>) {
        self.part = Part::Waiting;
        if self.reading.server_compares {
            self.put("poll", When::MissingOrBefore(scene.wall()), scene);
        } else {
            let what = Ask::Get { key: KEY, watch: false };
            self.line.ask(scene.named(STORE), "poll", what, scene);
        }
    }

    /// Whether a lease is over, as this clock has it.
    fn found(&mut self, entry: Option<&Entry>, scene: &mut Scene<'_, Say>) {
        let Some(entry) = entry else { return self.put("acquire", When::Missing, scene) };
        self.leader = Some(entry.writer);
        if entry.stamp.unwrap_or_default() + self.reading.uncertainty < scene.wall() {
            scene.say("finds that the lease is over");
            scene.detect();
            self.put("acquire", When::Version(entry.version), scene);
        } else {
            scene.alarm("look", LOOK);
        }
    }

    fn renew(&mut self, scene: &mut Scene<'_, Say>) {
        self.put("renew", When::Version(self.version), scene);
    }

    fn written_down(&mut self, entry: &Entry, scene: &mut Scene<'_, Say>) {
        self.version = entry.version;
        self.until = self.asked;
        if self.part != Part::Leader {
            scene.detect();
            self.part = Part::Leader;
            self.leader = Some(scene.me);
            scene.cancel("look");
            scene.lead(None);
        }
        scene.alarm("renew", RENEW);
    }

    fn stop(&mut self, scene: &mut Scene<'_, Say>) {
        scene.step_down();
        scene.cancel("renew");
        self.part = Part::Waiting;
        self.leader = None;
        scene.alarm("look", LOOK);
    }
}

impl Program<Say> for Reader {
    fn start(&mut self, scene: &mut Scene<'_, Say>) {
        *self = Reader::new(self.reading);
        scene.alarm("look", if scene.me == 0 { Duration::ZERO } else { LOOK });
    }

    fn receive(&mut self, _from: NodeId, word: Say, scene: &mut Scene<'_, Say>) {
        let Say::Answer { number, purpose, answer } = word else { return };
        if !self.line.hears(number, scene) {
            return;
        }
        match (purpose, answer) {
            (_, Answer::Done { now: Some(entry), .. }) => self.written_down(&entry, scene),
            ("poll", Answer::Found(entry)) => self.found(entry.as_ref(), scene),
            ("renew", Answer::Refused(_)) => {
                scene.say("learns that its lease is somebody else's");
                self.stop(scene);
            }
            (_, Answer::Refused(entry)) => {
                self.leader = entry.map(|entry| entry.writer);
                scene.alarm("look", LOOK);
            }
            _ => {}
        }
    }

    fn ring(&mut self, alarm: &'static str, scene: &mut Scene<'_, Say>) {
        match alarm {
            "look" if self.part != Part::Leader => self.look(scene),
            "renew" => self.renew(scene),
            "answer" if self.part == Part::Leader => self.renew(scene),
            "answer" => scene.alarm("look", LOOK),
            _ => {}
        }
    }

    /// The lease lasts, by its own clock.
    fn may_write(&mut self, scene: &mut Scene<'_, Say>) -> bool {
        let may = self.until > scene.wall() + self.reading.uncertainty;
        if !may {
            scene.say("finds that its own lease is over");
            self.stop(scene);
        }
        may
    }

    fn view(&self) -> View {
        View::new(self.part).leader(self.leader)
    }
}

fn cast(setup: &Setup, reading: &'static Reading) -> Box<dyn Play> {
    let mut stage = Stage::new(setup.seed, Gate::Open);
    // It looks at the clock as often as it writes.
    stage.work_interval = ms(50);
    for _ in 0..setup.contenders {
        stage.contender(Reader::new(reading));
    }
    stage.server(STORE, Store::new(Rules::default()));
    Box::new(stage)
}
