//! What a member shouts when something needs a person.

use crate::MemberId;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AlarmKind {
    /// The store has reached its quota.
    NoSpace,
    /// What the member holds differs from what the others hold.
    Corrupt,
}

/// Something is wrong at a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Alarm {
    /// Where.
    pub member: MemberId,
    /// What.
    pub kind: AlarmKind,
}
