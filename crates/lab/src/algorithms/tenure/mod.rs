//! tenure itself: sessions and a line, kept by three shipped replicas.
//!
//! A contender opens a session, stands in line and renews; whoever is first leads, with the revision that
//! created its place as its token. It stops by its own clock before the servers may end its session, and
//! the next is told only when that is surely over. So two believe to lead only if one of them stood still
//! and has not looked at its clock since, or has a clock that is wrong by more than the margin; what that
//! one writes comes with an old token.
//!
//! [`server`] is a server, [`contender`] who wants to lead, [`word`] what they say to each other.

mod contender;
mod server;
#[cfg(test)]
mod tests;
mod word;

use std::time::Duration;

use self::{contender::Contender, server::Server};
use super::{Algorithm, Scenario, Setup, raft::House};
use crate::{
    engine::ms,
    stage::{Gate, NodeId, Play, Promise, Stage},
};

const ELECTION: &[u8] = b"demo";
const SERVERS: usize = 3;
/// A session lives so long without a renewal.
const TTL: Duration = ms(5000);
/// The library's: a leader stops so long before.
const MARGIN: Duration = ms(100);
/// The session's time, and half a second to agree on its end.
const VACANT_MAX: Promise = Promise::VacantAtMost(ms(5500));

pub(super) const TENURE: Algorithm = Algorithm {
    name: "tenure",
    about: "sessions and a line on three shipped servers; a leader stops by its own clock before the next is told",
    origin: "tenure",
    promises: &[
        Promise::OneBeliever,
        Promise::OneWriter,
        Promise::TokensGrow,
        Promise::SomebodyLeads,
        VACANT_MAX,
    ],
    contenders: 3,
    patience: Some(ms(8000)),
    cast,
};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "tenure-crash",
        algorithm: &TENURE,
        about: "The leader dies. Its session runs out, and the next in line leads.",
        lasts: Duration::from_secs(20),
        script: "at 4.5s crash leader for 10s\n",
        breaks: &[],
    },
    Scenario {
        name: "tenure-pause",
        algorithm: &TENURE,
        about: "The leader stands still for longer than its session lives. When it goes on it believes to lead until it looks at its clock, and writes before it does; the storage has seen a later token and refuses.",
        lasts: Duration::from_secs(30),
        script: "at 4.2s pause leader for 12s\n",
        breaks: &[Promise::OneBeliever],
    },
    Scenario {
        name: "tenure-partition",
        algorithm: &TENURE,
        about: "The leader is cut off from the servers. It cannot renew and stops by its own clock; only then is the next in line told that it leads.",
        lasts: Duration::from_secs(30),
        script: "at 4.5s isolate leader for 12s\n",
        breaks: &[],
    },
    Scenario {
        name: "tenure-slow-clock",
        algorithm: &TENURE,
        about: "The leader's clock runs slow by a tenth, more than the margin allows for, and it is cut off: it stops too late, and for half a second two believe to lead. Its writes are refused.",
        lasts: Duration::from_secs(30),
        script: "at 1s clock leader drifts -10%\nat 4.5s isolate leader for 12s\n",
        breaks: &[Promise::OneBeliever],
    },
    Scenario {
        name: "tenure-server-crash",
        algorithm: &TENURE,
        about: "The server that leads the log dies. Another leads the log within a tenth of a second, whoever was connected to it comes back elsewhere, and the elected leader stays in office.",
        lasts: Duration::from_secs(20),
        script: "at 4.5s crash s1 for 5s\n",
        breaks: &[],
    },
    Scenario {
        name: "tenure-no-majority",
        algorithm: &TENURE,
        about: "Two of three servers are dead for longer than a session lives. No renewal is confirmed and the leader stops. When there is a majority again its session still has to run out there; then somebody leads.",
        lasts: Duration::from_secs(40),
        script: "at 5s crash s1 for 15s\nat 5s crash s2 for 15s\n",
        breaks: &[VACANT_MAX],
    },
];

fn cast(setup: &Setup) -> Box<dyn Play> {
    let mut stage = Stage::new(setup.seed, Gate::Tokens);
    stage.connections = true;
    for _ in 0..setup.contenders {
        stage.contender(Contender::default());
    }
    let first = setup.contenders as NodeId;
    for number in 0..SERVERS as NodeId {
        let mut house = House::new(first + number, first, SERVERS);
        house.config().seed = setup.seed;
        stage.server(&format!("s{}", number + 1), Server::new(house));
    }
    Box::new(stage)
}
