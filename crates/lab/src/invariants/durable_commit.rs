//! A committed entry would survive if every member crashed right now: it is durable on the disks of a majority. While
//! the members change, it must be durable on a majority of the members before and of those after.
//!
//! raft-rs counts the leader's own entries as soon as *later* ones are acknowledged as durable; this invariant would
//! show that trap.

use std::collections::{BTreeMap, BTreeSet};

use tenure_api::MemberId;
use tenure_replica::{Entry, State};

use super::{must, one_membership::Voters};
use crate::{
    cluster::member::{MemberNumber, SimMember},
    engine::RunCounts,
};

pub const NAME: &str = "durable_commit";

/// Called when an entry is first seen committed, with the states that its committer has gone through since its last
/// call: it may have counted by any of them.
pub fn check<'a>(
    entry: &Entry,
    states: impl Iterator<Item = &'a State>,
    members: &BTreeMap<MemberNumber, SimMember>,
    counts: &mut RunCounts,
) {
    counts.count(NAME);
    let has = |member: &SimMember| member.disk.has_durably(entry.index, entry.term);
    let durable: BTreeSet<MemberId> = members
        .iter()
        .filter(|(_, member)| has(member))
        .map(|(number, _)| MemberId(*number))
        .collect();
    let majority = |voters: &[MemberId]| {
        2 * voters.iter().filter(|voter| durable.contains(voter)).count() > voters.len()
    };
    let rolls: Vec<Voters> = states.map(Voters::of).collect();
    must!(
        rolls
            .iter()
            .any(|roll| majority(&roll.after) && roll.before.as_deref().is_none_or(majority)),
        "entry {} of term {} is committed but durable only on {durable:?}, where {:?} count",
        entry.index,
        entry.term,
        rolls.last()
    );
}
