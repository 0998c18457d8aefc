//! No message and no answer carries a term above the one on the sender's disk. A term that is forgotten in a crash is
//! led a second time, with other entries at the same positions. Checked against the disk, so across restarts.

use tenure_api::Term;
use tenure_replica::{RaftKind, RaftMessage};

use super::must;
use crate::{cluster::member::MemberNumber, engine::RunCounts};

pub const NAME: &str = "durable_term";

/// A pre-vote asks about a term that no member has entered, and its answer repeats it.
fn is_hypothetical(kind: RaftKind) -> bool {
    matches!(kind, RaftKind::RequestPreVote | RaftKind::RequestPreVoteResponse)
}

pub fn check_message(
    from: MemberNumber,
    message: &RaftMessage,
    durable: Term,
    counts: &mut RunCounts,
) {
    if is_hypothetical(message.kind) {
        return;
    }
    counts.count(NAME);
    let (kind, term) = (message.kind, message.term);
    must!(term <= durable, "m{from} sends {kind:?} of term {term}, but its disk has {durable}");
}

pub fn check_answer(from: MemberNumber, term: Term, durable: Term) {
    must!(term <= durable, "m{from} answers in term {term}, but its disk has {durable}");
}
