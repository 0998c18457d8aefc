//! Who asks.

use std::sync::Arc;

/// Who is behind a request. It travels with the request into the log, so that what it may do is judged where the request
/// takes effect, by every member alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Principal {
    /// A client that has not said who it is.
    #[default]
    Anonymous,
    /// A user that has proven its name.
    User {
        /// Its name.
        name: Arc<str>,
        /// The revision of users and roles at which it was proven.
        auth_revision: u64,
    },
    /// The cluster itself: what ends leases, keeps the list of members, raises alarms.
    System,
}
