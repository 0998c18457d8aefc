//! Elections and locks: be a candidate, look at them, rule over them.
//!
//! An election and a lock are the same thing, candidates for a name, so most of these verbs serve both.

pub(super) mod elect;
pub(super) mod is_leader;
pub(super) mod locks;
pub(super) mod look;
pub(super) mod observe;
pub(super) mod resign;
pub(super) mod rule;
mod words;

pub(super) use self::words::{Times, ended, reason, write};
