//! tenure itself: sessions and an election, on three shipped replicas.
//!
//! A contender opens a session, joins the election and renews; the first candidate leads, with the create revision of its
//! key as its token. It stops by its own clock before the servers may end its session, and the next candidate is told only
//! when that has surely happened. So two believe to lead only if one of them was paused and has not checked its clock
//! since, or has a clock that is wrong by more than the margin; its writes carry an old token.
//!
//! [`server`] is a server, [`contender`] a process that wants to lead, [`message`] the messages between them.

mod contender;
mod message;
mod server;
#[cfg(test)]
mod tests;

use std::time::Duration;

use self::{contender::TenureContender, server::TenureServer};
use super::{Algorithm, Setup, Story, raft::StageMember};
use crate::{
    engine::ms,
    stage::{AlgorithmRun, ProcessId, Promise, Stage, StorageGate},
};

const ELECTION: &[u8] = b"demo";
const SERVERS: usize = 3;
/// The TTL of sessions.
const TTL: Duration = ms(5000);
/// The library's margin: how long before the end of its session a leader stops.
const MARGIN: Duration = ms(100);
/// The TTL, and half a second to agree on the session's end.
const VACANT_MAX: Promise = Promise::VacantAtMost(ms(5500));

pub(super) const TENURE: Algorithm = Algorithm {
    name: "tenure",
    about: "sessions and an election on three shipped servers; a leader stops by its own clock before the next is told",
    origin: "tenure",
    promises: &[
        Promise::OneBeliever,
        Promise::OneWriter,
        Promise::TokensGrow,
        Promise::LeaderAtEnd,
        VACANT_MAX,
    ],
    contenders: 3,
    patience: Some(ms(8000)),
    build,
};

pub(super) const STORIES: &[Story] = &[
    Story {
        name: "tenure-crash",
        algorithm: &TENURE,
        about: "The leader dies. Its session expires, and the next candidate leads.",
        lasts: Duration::from_secs(20),
        script: "at 4.5s crash leader for 10s\n",
        breaks: &[],
    },
    Story {
        name: "tenure-pause",
        algorithm: &TENURE,
        about: "The leader is paused for longer than its session's TTL. When it resumes it believes to lead until it checks its clock, and writes before it does; the storage has seen a later token and refuses.",
        lasts: Duration::from_secs(30),
        script: "at 4.2s pause leader for 12s\n",
        breaks: &[Promise::OneBeliever],
    },
    Story {
        name: "tenure-partition",
        algorithm: &TENURE,
        about: "The leader is cut off from the servers. It cannot renew and stops by its own clock; only then is the next candidate told that it leads.",
        lasts: Duration::from_secs(30),
        script: "at 4.5s isolate leader for 12s\n",
        breaks: &[],
    },
    Story {
        name: "tenure-slow-clock",
        algorithm: &TENURE,
        about: "The leader's clock runs slow by a tenth, more than the margin allows for, and it is cut off: it stops too late, and for half a second two believe to lead. Its writes are refused.",
        lasts: Duration::from_secs(30),
        script: "at 1s clock leader drifts -10%\nat 4.5s isolate leader for 12s\n",
        breaks: &[Promise::OneBeliever],
    },
    Story {
        name: "tenure-server-crash",
        algorithm: &TENURE,
        about: "The server that leads the log dies. Another leads the log within a tenth of a second, its clients attach at another server, and the elected leader stays leader.",
        lasts: Duration::from_secs(20),
        script: "at 4.5s crash s1 for 5s\n",
        breaks: &[],
    },
    Story {
        name: "tenure-no-majority",
        algorithm: &TENURE,
        about: "Two of three servers are dead for longer than a session's TTL. No renewal is confirmed and the leader stops. When there is a majority again its session still has to expire there; then the next candidate leads.",
        lasts: Duration::from_secs(40),
        script: "at 5s crash s1 for 15s\nat 5s crash s2 for 15s\n",
        breaks: &[VACANT_MAX],
    },
];

fn build(setup: &Setup) -> Box<dyn AlgorithmRun> {
    let mut stage = Stage::new(setup.seed, StorageGate::Tokens);
    stage.connections = true;
    for _ in 0..setup.contenders {
        stage.add_contender(TenureContender::default());
    }
    let first = setup.contenders as ProcessId;
    for number in 0..SERVERS as ProcessId {
        let host = StageMember::new(first + number, first, SERVERS, setup.seed);
        stage.add_server(&format!("s{}", number + 1), TenureServer::new(host));
    }
    Box::new(stage)
}
