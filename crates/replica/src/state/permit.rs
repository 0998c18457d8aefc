//! What each principal may do.
//!
//! Asked in apply, where every member knows the same: a right that is withdrawn ends at one place in the log, and a request
//! that was on its way meanwhile is refused by all members alike. A change of the members that concerns raft is the exception:
//! its entry cannot be refused any more, so the raft leader asks before it proposes.

use tenure_api::{Failure, Principal};

use super::State;
use crate::command::Command;

impl State {
    /// Whether this principal may do this. There are no users yet, so everyone may do everything.
    pub(crate) fn permit(&self, by: &Principal, _: &Command) -> Result<(), Failure> {
        match by {
            Principal::System | Principal::Anonymous | Principal::User { .. } => Ok(()),
        }
    }
}
