//! Whatever counts as committed would survive if every member crashed right now: it is durable on the
//! disks of a majority. (raft-rs counts the leader's own entries as soon as it is told that *later*
//! ones are durable; this is where that trap would show.)

use std::collections::BTreeMap;

use tenure_replica::Entry;

use super::must;
use crate::world::{
    counts::Counts,
    member::{Member, Number},
};

pub const NAME: &str = "durable_commit";

/// To be asked at the moment an entry is first seen committed.
pub fn judge(entry: &Entry, members: &BTreeMap<Number, Member>, counts: &mut Counts) {
    counts.count(NAME);
    let has = |member: &&Member| member.disk.has_durably(entry.index, entry.term);
    let durable = members.values().filter(has).count();
    must!(
        2 * durable > members.len(),
        "entry {} of term {} is committed but durable on {durable} of {} members",
        entry.index,
        entry.term,
        members.len()
    );
}
