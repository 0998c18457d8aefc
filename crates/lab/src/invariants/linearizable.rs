//! Every answer is as if its request had been done at one instant between request and answer.
//!
//! The revision gives the order, so no search is needed: an answer's revision must not be older than any that a client
//! had been told before the request was sent, a write's must be newer, and a read must have found what the key held at
//! that revision.

use tenure_api::{KeyValue, RangeResult, Revision, Span};
use tenure_replica::{Answer, Consistency, Operation, Read, Reply, command::Command};

use super::{must, one_answer::OpenRequest};
use crate::{cluster::truth::Truth, engine::RunCounts};

pub const NAME: &str = "linearizable";

#[derive(Default)]
pub struct Linearizable {
    /// The newest revision that any client was told.
    pub horizon: Revision,
}

impl Linearizable {
    pub fn check(
        &mut self,
        open: &OpenRequest,
        answer: &Answer,
        truth: &Truth,
        counts: &mut RunCounts,
    ) {
        let Ok(reply) = &answer.result else { return };
        let (floor, at) = (open.floor, answer.revision);
        if let (Operation::Read(Read::Range(range), _), Reply::Range(found)) =
            (&open.request, reply)
        {
            match_truth(&range.span, found, at, truth);
        }
        match &open.request {
            Operation::Read(_, Consistency::Serializable) | Operation::MoveLeader(_) => return,
            Operation::Write(Command::Put(_)) => {
                must!(at > floor, "a put at {at} though {floor} was known when it was sent");
            }
            _ => must!(at >= floor, "{:?} saw {at}, but {floor} was known before", open.request),
        }
        counts.count(NAME);
        self.horizon = self.horizon.max(at);
    }
}

fn match_truth(span: &Span, found: &RangeResult, at: Revision, truth: &Truth) {
    let Span::One(key) = span else { return };
    let found: Option<&KeyValue> = found.kvs.first().map(|kv| &**kv);
    let expected = truth.version_at(key, at);
    must!(found == expected, "at {at} {key:?} is {expected:?}, but {found:?} was read");
}
