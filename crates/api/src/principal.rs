//! Who asks.

use std::sync::Arc;

/// Who is behind a request. It travels with the request into the log, so that what it may do is judged where the request
/// takes effect, by every member alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Principal {
    /// A client that has not said who it is.
    #[default]
    Anonymous,
    /// A client that showed a token which proves nothing. Where there are no users this does not matter.
    Unproven,
    /// A user that has proven its name.
    User {
        /// Its name.
        name: Arc<str>,
        /// The revision of users and roles at which it was proven.
        auth_revision: u64,
        /// How.
        proof: Proof,
    },
    /// The cluster itself: what ends leases, keeps the list of members, raises alarms.
    System,
}

/// How a user has proven its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// By claims of a certain revision, which do not count beyond a change of this user's rights.
    Claims,
    /// By a token that members know, or a certificate. The user has the rights that it has now; only a new password, or a
    /// user that was deleted and made again, ends the proof.
    Held,
}
