//! What was once committed never changes, and equal places in the log mean equal states.

use tenure_replica::Status;

use super::must;
use crate::{
    cluster::{
        member::{Number, Process},
        truth::{Truth, fingerprint},
    },
    engine::{Counts, Dice},
};

pub const NAME: &str = "agreement";

/// Comparing whole states is slow; one call in so many does.
const COMPARED_PER_MILLE: u64 = 1;

/// Holds the entries that this member has come to commit against those agreed on.
pub fn judge_log(member: Number, process: &mut Process, status: &Status, truth: &Truth) {
    let base = process.log.base;
    if process.checked_up_to < base.0 {
        let agreed = truth.term(base.0);
        must!(agreed == Some(base.1), "member {member} has a snapshot that nobody agreed on");
        process.checked_up_to = base.0;
    }
    while process.checked_up_to < status.committed.min(process.log.last()) {
        process.checked_up_to += 1;
        let index = process.checked_up_to;
        let entry = process.log.get(index).expect("its index lies between base and last");
        must!(truth.agrees(entry), "member {member} committed another entry {index}: {entry:?}");
    }
}

/// Holds this member's state against the one that its log must lead to.
pub fn judge_state(
    member: Number,
    process: &Process,
    status: &Status,
    truth: &Truth,
    dice: &mut Dice,
    counts: &mut Counts,
) {
    let Some(expected) = truth.state_at(status.applied) else { return };
    let (found, at) = (process.replica.state(), status.applied);
    let revisions = (found.store.revision(), expected.store.revision());
    must!(revisions.0 == revisions.1, "member {member} at entry {at}: revisions {revisions:?}");
    if dice.chance(COMPARED_PER_MILLE) {
        judge_whole(member, process, truth, counts);
    }
}

pub fn judge_whole(member: Number, process: &Process, truth: &Truth, counts: &mut Counts) {
    let at = process.replica.status().applied;
    let Some(expected) = truth.state_at(at) else { return };
    let found = process.replica.state();
    // It joins and has no snapshot yet: it never had the list that the first members began with.
    if found.members.is_empty() {
        return;
    }
    counts.count(NAME);
    must!(
        fingerprint(found) == fingerprint(expected),
        "member {member} has another state at entry {at}:\n{found:?}\nnot\n{expected:?}"
    );
}
