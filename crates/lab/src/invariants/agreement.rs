//! A committed entry never changes, and equal positions in the log mean equal states.

use tenure_replica::Status;

use super::must;
use crate::{
    cluster::{
        member::{MemberNumber, MemberProcess},
        truth::{Truth, fingerprint},
    },
    engine::{Dice, RunCounts},
};

pub const NAME: &str = "agreement";

/// Comparing whole states is slow: this share of calls does it.
const COMPARED_PER_MILLE: u64 = 1;

/// Compares the entries that this member has committed with those agreed on.
pub fn check_log(
    member: MemberNumber,
    process: &mut MemberProcess,
    status: &Status,
    truth: &Truth,
) {
    let base = process.log.base;
    if process.checked_up_to < base.0 {
        let agreed = truth.term(base.0);
        must!(agreed == Some(base.1), "member {member} has a snapshot that was not agreed on");
        process.checked_up_to = base.0;
    }
    while process.checked_up_to < status.committed.min(process.log.last()) {
        process.checked_up_to += 1;
        let index = process.checked_up_to;
        let entry = process.log.get(index).expect("its index lies between base and last");
        must!(truth.agrees(entry), "member {member} committed another entry {index}: {entry:?}");
    }
}

/// Compares this member's state with the one that its log must lead to.
pub fn check_state(
    member: MemberNumber,
    process: &MemberProcess,
    status: &Status,
    truth: &Truth,
    dice: &mut Dice,
    counts: &mut RunCounts,
) {
    let Some(expected) = truth.state_at(status.applied) else { return };
    let (found, at) = (process.replica.state(), status.applied);
    let revisions = (found.store.revision(), expected.store.revision());
    must!(revisions.0 == revisions.1, "member {member} at entry {at}: revisions {revisions:?}");
    if dice.chance(COMPARED_PER_MILLE) {
        check_whole(member, process, truth, counts);
    }
}

pub fn check_whole(
    member: MemberNumber,
    process: &MemberProcess,
    truth: &Truth,
    counts: &mut RunCounts,
) {
    let at = process.replica.status().applied;
    let Some(expected) = truth.state_at(at) else { return };
    let found = process.replica.state();
    // A member that joins and has no snapshot yet does not have the list of the first members.
    if found.members.is_empty() {
        return;
    }
    counts.count(NAME);
    must!(
        fingerprint(found) == fingerprint(expected),
        "member {member} has another state at entry {at}:\n{found:?}\nnot\n{expected:?}"
    );
}
