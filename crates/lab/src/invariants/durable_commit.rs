//! Whatever counts as committed would survive if every member crashed right now: it is durable on the
//! disks of a majority. (raft-rs counts the leader's own entries as soon as it is told that *later*
//! ones are durable; this is where that trap would show.) While the members change, it must be durable
//! on a majority of those before and of those after.

use std::collections::{BTreeMap, BTreeSet};

use tenure_api::MemberId;
use tenure_replica::{Entry, State};

use super::{must, one_roll::Voters};
use crate::{
    cluster::member::{Member, Number},
    engine::Counts,
};

pub const NAME: &str = "durable_commit";

/// To be asked at the moment an entry is first seen committed, with the states that the member which
/// committed it has gone through meanwhile: any of them may have been the one that it counted by.
pub fn judge<'a>(
    entry: &Entry,
    states: impl Iterator<Item = &'a State>,
    members: &BTreeMap<Number, Member>,
    counts: &mut Counts,
) {
    counts.count(NAME);
    let has = |member: &Member| member.disk.has_durably(entry.index, entry.term);
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
