//! Which failed attempts may be made again.
//!
//! etcd's own client has the same rule: what only reads is repeated whenever a member was
//! unavailable, what changes something only if nothing of it was sent. A change that was sent and
//! not confirmed may have happened; repeating it could do it twice.

use std::time::Duration;

use tenure_api::Failure;
use tonic::Status;

use super::Endpoint;
use super::error::{ClientError, Fate, root_cause};

/// How often a request is made in all, before the last failure is reported.
const ATTEMPTS_MAX: usize = 100;

/// Pause before asking again when every member has been asked in vain.
pub(super) const PAUSE: Duration = Duration::from_millis(25);

/// What a request does, as far as repeating it is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Reads, or does what may be done twice.
    Repeatable,
    /// Changes something.
    Mutation,
}

/// What failed of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed<'a> {
    /// The request itself.
    Request,
    /// The login of this user, before it. Nothing of the request was sent.
    Login(&'a str),
    /// The same because the member has as many logins under way as it takes.
    BusyLogin,
}

/// What to do after a failed attempt.
#[derive(Debug)]
pub(super) enum Next {
    /// Ask another member at once.
    Elsewhere,
    /// Get a new token, then ask the same member again.
    Authenticate,
    /// Tell the caller.
    GiveUp(ClientError),
}

/// The failed attempts of one request so far.
#[derive(Debug)]
pub(super) struct Attempts {
    kind: Kind,
    made: usize,
    /// Attempts in a row that no member took up.
    unsent: usize,
    /// Whether a stale token can be renewed, once.
    renews: bool,
    /// A member that answered that it follows no raft leader.
    leaderless: Option<String>,
}

impl Attempts {
    pub(super) fn new(kind: Kind, renews: bool) -> Attempts {
        Attempts { kind, made: 0, unsent: 0, renews, leaderless: None }
    }

    /// Judges one more failure, of the member at this endpoint. `endpoints` lists where the request can go.
    pub(super) fn failed(
        &mut self,
        status: &Status,
        failed: Failed<'_>,
        at: &Endpoint,
        endpoints: &[String],
    ) -> Next {
        self.made += 1;
        if status.message() == Failure::NoLeader.text() {
            self.leaderless = Some(at.to_string());
        }
        let fate = Fate::of(status);
        let taken_up = !matches!(fate, Fate::Unsent | Fate::NotHere);
        self.unsent = if taken_up { 0 } else { self.unsent + 1 };
        let (code, text) = (status.code(), root_cause(status));
        let kind = if failed == Failed::Request { self.kind } else { Kind::Repeatable };
        match (fate, kind) {
            (Fate::Answered, _) if failed == Failed::BusyLogin && self.made < ATTEMPTS_MAX => {
                Next::Elsewhere
            }
            // Every member was tried and none was there: people want to hear that now.
            (Fate::Unsent, _) if self.unsent >= endpoints.len() => {
                let endpoints = endpoints.join(", ");
                Next::GiveUp(ClientError::Unreachable { endpoints, cause: text })
            }
            (Fate::NotHere, _) if self.unsent >= endpoints.len() => {
                Next::GiveUp(ClientError::Unavailable { code, text })
            }
            (Fate::Unsent | Fate::NotHere, _) => Next::Elsewhere,
            (Fate::TokenExpired, _) if self.renews => {
                self.renews = false;
                Next::Authenticate
            }
            (Fate::Unavailable, Kind::Repeatable) if self.made < ATTEMPTS_MAX => Next::Elsewhere,
            (Fate::Unavailable, Kind::Repeatable) => {
                Next::GiveUp(self.no_quorum().unwrap_or(ClientError::Unavailable { code, text }))
            }
            (Fate::Unavailable, Kind::Mutation) => {
                Next::GiveUp(self.no_quorum().unwrap_or(ClientError::OutcomeUnknown { code, text }))
            }
            (Fate::TokenExpired | Fate::Answered, _) => Next::GiveUp(match failed {
                Failed::Login(user) => {
                    ClientError::LoginFailed { user: user.to_owned(), code, text }
                }
                Failed::Request | Failed::BusyLogin => ClientError::answered(status, code, text),
            }),
        }
    }

    /// The time is over; `sent` if the request had left.
    pub(super) fn timed_out(&self, after: Duration, sent: bool) -> ClientError {
        let outcome_unknown = self.kind == Kind::Mutation && sent;
        self.no_quorum().unwrap_or(ClientError::TimedOut { after, outcome_unknown })
    }

    /// What is known if a member was reached that follows no raft leader.
    fn no_quorum(&self) -> Option<ClientError> {
        let outcome_unknown = self.kind == Kind::Mutation;
        let member = self.leaderless.clone()?;
        Some(ClientError::NoQuorum { member, outcome_unknown })
    }

    /// Whether every member has been asked since the last pause.
    pub(super) fn round_is_over(&self, endpoints: usize) -> bool {
        self.made.is_multiple_of(endpoints)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::ConnectError;

    fn two() -> Vec<String> {
        vec!["a:1".into(), "b:1".into()]
    }

    fn at() -> Endpoint {
        "a:1".parse().unwrap()
    }

    fn refused_connection() -> Status {
        Status::from_error(Box::new(ConnectError("connection refused".into())))
    }

    fn broken_connection() -> Status {
        Status::from_error("broken pipe".into())
    }

    #[test]
    fn retry_sends_a_change_elsewhere_only_if_nothing_was_sent() {
        let mut attempts = Attempts::new(Kind::Mutation, true);
        assert!(matches!(
            attempts.failed(&refused_connection(), Failed::Request, &at(), &two()),
            Next::Elsewhere
        ));
        let Next::GiveUp(error) =
            attempts.failed(&broken_connection(), Failed::Request, &at(), &two())
        else {
            panic!("a change that was sent must not be repeated");
        };
        assert!(error.outcome_unknown());
    }

    #[test]
    fn retry_repeats_a_read_until_the_limit() {
        let mut attempts = Attempts::new(Kind::Repeatable, true);
        let no_leader = Status::unavailable("etcdserver: no leader");
        for _ in 1..ATTEMPTS_MAX {
            assert!(matches!(
                attempts.failed(&no_leader, Failed::Request, &at(), &two()),
                Next::Elsewhere
            ));
        }
        let Next::GiveUp(error) = attempts.failed(&no_leader, Failed::Request, &at(), &two())
        else {
            panic!()
        };
        assert_eq!(error.to_string(), "no quorum: member a:1 reachable, no raft leader");
        assert!(!error.outcome_unknown());
    }

    #[test]
    fn retry_names_the_member_without_raft_leader_when_time_is_over() {
        let mut attempts = Attempts::new(Kind::Mutation, true);
        let after = Duration::from_secs(1);
        assert!(matches!(attempts.timed_out(after, true), ClientError::TimedOut { .. }));
        let next = attempts.failed(
            &Status::unavailable("etcdserver: no leader"),
            Failed::Request,
            &at(),
            &two(),
        );
        let Next::GiveUp(error) = next else { panic!() };
        for error in [error, attempts.timed_out(after, true)] {
            assert!(error.outcome_unknown());
            assert!(error.to_string().starts_with("no quorum: member a:1 reachable"), "{error}");
        }
    }

    #[test]
    fn retry_tells_after_one_round_that_no_member_is_there() {
        let mut attempts = Attempts::new(Kind::Repeatable, true);
        assert!(matches!(
            attempts.failed(&refused_connection(), Failed::Request, &at(), &two()),
            Next::Elsewhere
        ));
        let Next::GiveUp(error) =
            attempts.failed(&refused_connection(), Failed::Request, &at(), &two())
        else {
            panic!()
        };
        assert_eq!(error.to_string(), "no member reachable at a:1, b:1: connection refused");
    }

    /// A learner refuses every such request, and changes nothing.
    #[test]
    fn retry_asks_another_member_for_what_a_learner_does_not_serve() {
        let learner = Status::failed_precondition("etcdserver: rpc not supported for learner");
        let mut attempts = Attempts::new(Kind::Mutation, true);
        assert!(matches!(
            attempts.failed(&learner, Failed::Request, &at(), &two()),
            Next::Elsewhere
        ));
        let Next::GiveUp(error) = attempts.failed(&learner, Failed::Request, &at(), &two()) else {
            panic!()
        };
        assert!(matches!(error, ClientError::Unavailable { .. }), "it may be promoted: {error:?}");
        assert_eq!(error.to_string(), "etcdserver: rpc not supported for learner");
        assert_eq!(error.code(), Some(tonic::Code::FailedPrecondition));
    }

    #[test]
    fn retry_takes_an_answer_as_final_with_code_and_text() {
        let status = Status::not_found("etcdserver: requested lease not found");
        let next =
            Attempts::new(Kind::Repeatable, true).failed(&status, Failed::Request, &at(), &two());
        let Next::GiveUp(error) = next else { panic!() };
        assert_eq!(error.code(), Some(tonic::Code::NotFound));
        assert_eq!(error.to_string(), "etcdserver: requested lease not found");
    }

    /// Whatever the words are.
    #[test]
    fn retry_keeps_the_kind_of_a_refusal() {
        let mut status = Status::failed_precondition("no, because");
        let kind = "TRANSFER_UNDER_WAY".parse().unwrap();
        status.metadata_mut().insert(tenure_api::wire::REFUSAL_TRAILER, kind);
        let next =
            Attempts::new(Kind::Repeatable, true).failed(&status, Failed::Request, &at(), &two());
        let Next::GiveUp(error) = next else { panic!() };
        assert_eq!(error.refusal(), Some(crate::RefusalKind::TransferUnderWay));
        assert_eq!(error.code(), Some(tonic::Code::FailedPrecondition));
        assert_eq!(error.to_string(), "no, because");
        let error = crate::EngineError::from(error);
        assert_eq!(error.refusal(), Some(crate::RefusalKind::TransferUnderWay));
    }

    #[test]
    fn retry_renews_a_stale_token_once() {
        let status = Status::unauthenticated("etcdserver: invalid auth token");
        let mut attempts = Attempts::new(Kind::Mutation, true);
        assert!(matches!(
            attempts.failed(&status, Failed::Request, &at(), &two()),
            Next::Authenticate
        ));
        assert!(matches!(
            attempts.failed(&status, Failed::Request, &at(), &two()),
            Next::GiveUp(_)
        ));
    }

    #[test]
    fn retry_does_not_renew_what_it_has_no_password_for() {
        let status = Status::invalid_argument("etcdserver: user name is empty");
        let next =
            Attempts::new(Kind::Mutation, false).failed(&status, Failed::Request, &at(), &two());
        assert!(matches!(next, Next::GiveUp(ClientError::Refused { .. })));
    }

    /// A change has not left before its login is done.
    #[test]
    fn retry_repeats_a_login_before_a_change() {
        let mut attempts = Attempts::new(Kind::Mutation, true);
        let broken = broken_connection();
        let next = attempts.failed(&broken, Failed::Login("ann"), &at(), &two());
        assert!(matches!(next, Next::Elsewhere));
        let busy = Status::resource_exhausted("etcdserver: too many requests");
        let next = attempts.failed(&busy, Failed::BusyLogin, &at(), &two());
        assert!(matches!(next, Next::Elsewhere));
        assert!(!attempts.timed_out(Duration::from_secs(1), false).outcome_unknown());
        let wrong = "etcdserver: authentication failed, invalid user ID or password";
        let wrong = Status::invalid_argument(wrong);
        let Next::GiveUp(error) = attempts.failed(&wrong, Failed::Login("ann"), &at(), &two())
        else {
            panic!("a wrong password stays wrong")
        };
        assert!(matches!(error, ClientError::LoginFailed { .. }) && error.is_refused());
        assert!(error.to_string().starts_with("login of user \"ann\": etcdserver: auth"));
    }
}
