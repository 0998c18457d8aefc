//! If two logs have an entry of the same index and term, they are the same up to there (Raft §5.3).

use super::must;
use crate::{
    cluster::{disk::Log, member::Number},
    engine::Counts,
};

pub const NAME: &str = "log_matching";

/// Holds the logs of two members against each other.
pub fn judge(one: (Number, &Log), other: (Number, &Log), counts: &mut Counts) {
    counts.count(NAME);
    let ((a, one), (b, other)) = (one, other);
    let first = one.base.0.max(other.base.0) + 1;
    let last = one.last().min(other.last());
    let same = (first..=last).rev().find(|index| one.term(*index) == other.term(*index));
    let Some(same) = same else { return };
    for index in first..=same {
        let (left, right) = (one.get(index), other.get(index));
        let equal = match (left, right) {
            (Some(left), Some(right)) => left.term == right.term && left.data == right.data,
            _ => true,
        };
        must!(equal, "m{a} and m{b} agree on entry {same}, but not on {index}");
    }
}
