//! The one table of failures: what went wrong, etcd's gRPC code for it, etcd's text.
//!
//! Clients match on code *and* text, so both are part of the contract. Three kinds are never mixed:
//! a *refusal* is deterministic and nothing was changed; an *unknown outcome* may have happened and
//! must be read back before it is retried; what is *fatal* to a member never reaches a client.

/// The gRPC status codes in use, with their numbers on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Code {
    Canceled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

macro_rules! failures {
    ($($(#[$doc:meta])* $name:ident => $code:ident, $text:literal;)*) => {
        /// Why a request was not answered with a result.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
        pub enum Failure {
            $($(#[$doc])* #[error($text)] $name,)*
        }

        impl Failure {
            /// Every failure, for tests and documentation.
            pub const ALL: &'static [Failure] = &[$(Failure::$name),*];

            /// The gRPC code that etcd answers with.
            pub fn code(self) -> Code {
                match self { $(Failure::$name => Code::$code,)* }
            }

            /// The text that etcd answers with, to the letter.
            pub fn text(self) -> &'static str {
                match self { $(Failure::$name => $text,)* }
            }
        }
    };
}

failures! {
    /// A request about keys named none.
    EmptyKey => InvalidArgument, "etcdserver: key is not provided";
    /// A put with `ignore_value` or `ignore_lease`, or an empty txn operation, found no key.
    KeyNotFound => InvalidArgument, "etcdserver: key not found";
    /// `ignore_value` together with a value.
    ValueProvided => InvalidArgument, "etcdserver: value is provided";
    /// `ignore_lease` together with a lease.
    LeaseProvided => InvalidArgument, "etcdserver: lease is provided";
    /// More operations than `--max-txn-ops`.
    TooManyOps => InvalidArgument, "etcdserver: too many operations in txn request";
    /// Two writes of one key in one branch.
    DuplicateKey => InvalidArgument, "etcdserver: duplicate key given in txn request";
    /// A sort order or target that does not exist.
    InvalidSortOption => InvalidArgument, "etcdserver: invalid sort option";
    /// The `client-api-version` metadata is not text.
    InvalidClientApiVersion => InvalidArgument, "etcdserver: invalid client api version";
    /// Larger than `--max-request-bytes`.
    RequestTooLarge => InvalidArgument, "etcdserver: request is too large";
    /// The version to go down to is not one.
    BadDowngradeVersion => InvalidArgument, "etcdserver: wrong downgrade target version format";
    /// The cluster cannot go down to this version.
    BadDowngradeTarget => InvalidArgument, "etcdserver: invalid downgrade target version";
    /// The revision asked for is gone.
    Compacted => OutOfRange, "etcdserver: mvcc: required revision has been compacted";
    /// The revision asked for has not happened yet.
    FutureRevision => OutOfRange, "etcdserver: mvcc: required revision is a future revision";
    /// A TTL above the largest allowed.
    LeaseTtlTooLarge => OutOfRange, "etcdserver: too large lease TTL";
    /// The store is full.
    NoSpace => ResourceExhausted, "etcdserver: mvcc: database space exceeded";
    /// This member has more work queued than it will take.
    TooManyRequests => ResourceExhausted, "etcdserver: too many requests";
    /// No such lease, or not any more.
    LeaseNotFound => NotFound, "etcdserver: requested lease not found";
    /// No such member.
    MemberNotFound => NotFound, "etcdserver: member not found";
    /// A member of this id is there, or was there once.
    MemberExists => FailedPrecondition, "etcdserver: member ID already exist";
    /// Another member is reached there.
    PeerUrlExists => FailedPrecondition, "etcdserver: Peer URLs already exists";
    /// Peer URLs that cannot be used.
    BadMemberUrls => InvalidArgument, "etcdserver: given member URLs are invalid";
    /// After this change, those that have started would be no majority.
    NotEnoughStarted => FailedPrecondition, "etcdserver: re-configuration failed due to not enough started members";
    /// A promotion of a member that has its vote already.
    NotLearner => FailedPrecondition, "etcdserver: can only promote a learner member";
    /// A promotion of a member that lags, or cannot be reached.
    LearnerNotReady => FailedPrecondition, "etcdserver: can only promote a learner member which is in sync with leader";
    /// One learner more than there may be.
    TooManyLearners => FailedPrecondition, "etcdserver: too many learner members in cluster";
    /// Too many members cannot be reached for this change. Nothing was changed.
    UnhealthyCluster => Unavailable, "etcdserver: unhealthy cluster";
    /// The members change one at a time. etcd has no word for it: there the second change is lost.
    ChangeUnderWay => FailedPrecondition, "tenure: another change of the members is under way, try again when it is done";
    /// A lease of this id is live.
    LeaseExists => FailedPrecondition, "etcdserver: lease already exists";
    /// Only the raft leader can do this.
    NotLeader => FailedPrecondition, "etcdserver: not leader";
    /// The member named as the next raft leader cannot be it.
    BadLeaderTransferee => FailedPrecondition, "etcdserver: bad leader transferee";
    /// A name and password were given, but authentication is not enabled.
    AuthNotEnabled => FailedPrecondition, "etcdserver: authentication is not enabled";
    /// A request needs a user, and named none.
    UserEmpty => InvalidArgument, "etcdserver: user name is empty";
    /// A role without a name.
    RoleEmpty => InvalidArgument, "etcdserver: role name is empty";
    /// There is no such user, or this is not its password.
    AuthFailed => InvalidArgument, "etcdserver: authentication failed, invalid user ID or password";
    /// A role was to get a permission, and none was named.
    PermissionNotGiven => InvalidArgument, "etcdserver: permission not given";
    /// A change of users after which no user could administer, or a range that holds no key.
    InvalidAuthManagement => InvalidArgument, "etcdserver: invalid auth management";
    /// The user changed since the identity was proven.
    OldAuthRevision => InvalidArgument, "etcdserver: revision of auth store is old";
    /// The user's roles do not allow it.
    PermissionDenied => PermissionDenied, "etcdserver: permission denied";
    /// The token is unknown, has run out, or proves nothing.
    InvalidAuthToken => Unauthenticated, "etcdserver: invalid auth token";
    /// Users cannot be enabled without a user called root.
    RootUserMissing => FailedPrecondition, "etcdserver: root user does not exist";
    /// Users cannot be enabled while that user lacks the role root.
    RootRoleMissing => FailedPrecondition, "etcdserver: root user does not have root role";
    /// A user of this name is there.
    UserExists => FailedPrecondition, "etcdserver: user name already exists";
    /// No such user.
    UserNotFound => FailedPrecondition, "etcdserver: user name not found";
    /// A role of this name is there.
    RoleExists => FailedPrecondition, "etcdserver: role name already exists";
    /// No such role.
    RoleNotFound => FailedPrecondition, "etcdserver: role name not found";
    /// The user does not have this role.
    RoleNotGranted => FailedPrecondition, "etcdserver: role is not granted to the user";
    /// The role does not have this permission.
    PermissionNotGranted => FailedPrecondition, "etcdserver: permission is not granted to the role";
    /// A password for a user that proves its name by a certificate only.
    NoPasswordUser => Unknown, "auth: authentication failed, password was given for no password user";
    /// Longer than bcrypt reads.
    PasswordTooLong => Unknown, "bcrypt: password length exceeds 72 bytes";
    /// This member can check tokens, but has no key to sign one.
    VerifyOnlyKey => Unknown, "auth: token signing attempted with verify-only key";
    /// A learner does not serve this.
    NotForLearner => FailedPrecondition, "etcdserver: rpc not supported for learner";
    /// There is no way down that could be left.
    NoDowngrade => FailedPrecondition, "etcdserver: no inflight downgrade job";
    /// The cluster cannot do this yet.
    NotCapable => FailedPrecondition, "etcdserver: not capable";
    /// There is no raft leader, as far as this member knows. Nothing was sent.
    NoLeader => Unavailable, "etcdserver: no leader";
    /// The raft leader changed while the request was under way: the outcome is unknown.
    LeaderChanged => Unavailable, "etcdserver: leader changed";
    /// This member is stopping.
    Stopped => Unavailable, "etcdserver: server stopped";
    /// No answer in time: the outcome is unknown.
    TimedOut => Unavailable, "etcdserver: request timed out";
    /// No answer in time, and the raft leader changed meanwhile: the outcome is unknown.
    TimedOutLeaderFailure => Unavailable, "etcdserver: request timed out, possibly due to previous leader failure";
    /// No answer in time, and a connection broke meanwhile: the outcome is unknown.
    TimedOutConnectionLost => Unavailable, "etcdserver: request timed out, possibly due to connection lost";
    /// The raft leader could not be moved in time.
    TimedOutLeaderTransfer => Unavailable, "etcdserver: request timed out, leader transfer took too long";
    /// The members do not agree on what is stored.
    Corrupt => DataLoss, "etcdserver: corrupt cluster";
    /// A watch ended because the stream did.
    WatchCanceled => Canceled, "etcdserver: watch canceled";
    /// The caller went away.
    RequestCanceled => Canceled, "etcdserver: request canceled";
    /// This election has no leader.
    ElectionNoLeader => Unknown, "election: no leader";
    /// The key that leads was not this one, or is not any more.
    ElectionNotLeader => Unknown, "election: not leader";
    /// A request about a leader named none.
    LeaderNotProvided => Unknown, "\"leader\" field must be provided";
    /// A candidate's key went before its turn came, most likely with its lease. etcd has no word for it: there
    /// such a candidate is elected.
    ElectionSessionExpired => Unknown, "election: session is expired";
    /// A waiter's key went before its turn came, most likely with its lease.
    MutexSessionExpired => Unknown, "mutex: session is expired";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_failures_share_a_text() {
        let mut texts: Vec<_> = Failure::ALL.iter().map(|f| f.text()).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), Failure::ALL.len());
    }
}
