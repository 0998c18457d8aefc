//! Why a request has no answer, and what a caller may do about it.

use std::time::Duration;

use tenure_api::Failure;
use tonic::{Code, ConnectError, Status};

use super::login::{StreamLogin, is_stale};
use super::need::{Denial, NeededRight};
use crate::RefusalKind;

/// Why a request was not answered with a result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// What was given as an address is none.
    #[error("endpoint {written:?}: {rule}")]
    Endpoint {
        /// As it was written.
        written: String,
        /// What it must be.
        rule: &'static str,
    },
    /// No member could be reached. Nothing was sent.
    #[error("no member reachable at {endpoints}: {cause}")]
    Unreachable {
        /// All that were tried.
        endpoints: String,
        /// Why the last of them could not be reached.
        cause: String,
    },
    /// A member could be reached, and it follows no raft leader: too few members can reach each other.
    #[error("no quorum: member {member} reachable, no raft leader{}", doubt(*outcome_unknown))]
    NoQuorum {
        /// Where it was reached.
        member: String,
        /// A change was sent, and it may have happened.
        outcome_unknown: bool,
    },
    /// A member answered, and the answer is no. Asking again changes nothing by itself.
    #[error("{text}")]
    Refused {
        /// The gRPC code.
        code: Code,
        /// The member's text, to the letter.
        text: String,
    },
    /// A member answered that the user may not. Says what would allow it.
    #[error("{}", Denial { user: user.as_deref(), need })]
    Denied {
        /// The user, if the client logged in by name.
        user: Option<String>,
        /// What it lacks.
        need: NeededRight,
        /// The member's text, to the letter.
        text: String,
    },
    /// The member did not log the user in: a wrong password, say.
    #[error("login of user {user:?}: {text}")]
    LoginFailed {
        /// The user.
        user: String,
        /// The gRPC code.
        code: Code,
        /// The member's text, to the letter.
        text: String,
    },
    /// The answer is no by a rule of elections and locks, which the member names. Only tenure has them.
    #[error("{text}")]
    ElectionRefused {
        /// The rule.
        kind: RefusalKind,
        /// The gRPC code.
        code: Code,
        /// The member's text, for people.
        text: String,
    },
    /// No member could answer now, and nothing was changed: ask again later.
    #[error("{text}")]
    Unavailable {
        /// The gRPC code.
        code: Code,
        /// The member's text, or the transport's.
        text: String,
    },
    /// A change was sent and not confirmed. It may have happened: read back before sending it again.
    #[error("{text} (the change may or may not have happened)")]
    OutcomeUnknown {
        /// The gRPC code.
        code: Code,
        /// The member's text, or the transport's.
        text: String,
    },
    /// No answer within the time allowed for a request.
    #[error("no answer within {after:?}{}", doubt(*outcome_unknown))]
    TimedOut {
        /// The time allowed.
        after: Duration,
        /// It was a change, and it may have happened.
        outcome_unknown: bool,
    },
}

fn doubt(outcome_unknown: bool) -> &'static str {
    if outcome_unknown { " (the change may or may not have happened)" } else { "" }
}

impl ClientError {
    /// The gRPC code, where there is one.
    pub fn code(&self) -> Option<Code> {
        match self {
            ClientError::Refused { code, .. }
            | ClientError::LoginFailed { code, .. }
            | ClientError::ElectionRefused { code, .. }
            | ClientError::Unavailable { code, .. }
            | ClientError::OutcomeUnknown { code, .. } => Some(*code),
            ClientError::Unreachable { .. } | ClientError::NoQuorum { .. } => {
                Some(Code::Unavailable)
            }
            ClientError::Denied { .. } => Some(Code::PermissionDenied),
            ClientError::TimedOut { .. } => Some(Code::DeadlineExceeded),
            ClientError::Endpoint { .. } => None,
        }
    }

    /// Whether a member answered, and the answer is no.
    pub fn is_refused(&self) -> bool {
        matches!(
            self,
            ClientError::Refused { .. }
                | ClientError::Denied { .. }
                | ClientError::LoginFailed { .. }
                | ClientError::ElectionRefused { .. }
        )
    }

    /// The rule of elections and locks by which it was refused, if it was by one.
    pub fn refusal(&self) -> Option<RefusalKind> {
        match self {
            ClientError::ElectionRefused { kind, .. } => Some(*kind),
            _ => None,
        }
    }

    /// Whether the answer is no because of the user: it is not known, or it may not.
    pub fn is_about_the_user(&self) -> bool {
        match self {
            ClientError::Denied { .. } | ClientError::LoginFailed { .. } => true,
            ClientError::Refused { code, text } => {
                matches!(code, Code::PermissionDenied | Code::Unauthenticated) || is_stale(text)
            }
            _ => false,
        }
    }

    /// The same, with what the user lacks, if that is why.
    pub(super) fn denied(self, user: Option<&str>, need: NeededRight) -> ClientError {
        match self {
            ClientError::Refused { code: Code::PermissionDenied, text } => {
                ClientError::Denied { user: user.map(str::to_owned), need, text }
            }
            other => other,
        }
    }

    /// The answer is no.
    pub(crate) fn answered(status: &Status, code: Code, text: String) -> ClientError {
        match RefusalKind::of_status(status) {
            Some(kind) => ClientError::ElectionRefused { kind, code, text },
            None => ClientError::Refused { code, text },
        }
    }

    /// Why a stream ended that was opened with this login.
    pub(super) fn of_stream(status: &Status, login: &StreamLogin) -> ClientError {
        let (code, text) = (status.code(), root_cause(status));
        match Fate::of(status) {
            // Opened again, it has another token.
            Fate::TokenExpired if login.is_renewed_after(&text) => {
                ClientError::Unavailable { code, text }
            }
            Fate::Answered | Fate::TokenExpired => ClientError::answered(status, code, text),
            Fate::Unsent | Fate::NotHere | Fate::Unavailable => {
                ClientError::Unavailable { code, text }
            }
        }
    }

    /// Whether the change that was asked for may have happened all the same.
    pub fn outcome_unknown(&self) -> bool {
        matches!(
            self,
            ClientError::OutcomeUnknown { .. }
                | ClientError::TimedOut { outcome_unknown: true, .. }
                | ClientError::NoQuorum { outcome_unknown: true, .. }
        )
    }
}

/// What became of one attempt, as far as the transport can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The connection was never made or was being closed by the member: nothing of it was taken up.
    Unsent,
    /// The member serves nothing of this kind, and another one does: it is a learner, which a new member
    /// in the place of an old one is for a while.
    NotHere,
    /// The connection broke, or the member said that it cannot serve.
    Unavailable,
    /// The member does not accept our token any more.
    TokenExpired,
    /// The member answered.
    Answered,
}

impl Fate {
    pub(super) fn of(status: &Status) -> Fate {
        let mut source = std::error::Error::source(status);
        // Only the transport attaches a source; a status that a member sent has none.
        let from_transport = source.is_some();
        while let Some(error) = source {
            if error.is::<ConnectError>() || was_not_taken_up(error) {
                return Fate::Unsent;
            }
            source = error.source();
        }
        match status.code() {
            _ if from_transport => Fate::Unavailable,
            // etcd 3.4 and 3.5 say it under different codes.
            _ if status.message() == Failure::NotForLearner.text() => Fate::NotHere,
            // A verdict on a change of members, under a code that means something else everywhere else.
            Code::Unavailable if status.message() == Failure::UnhealthyCluster.text() => {
                Fate::Answered
            }
            Code::Unavailable => Fate::Unavailable,
            _ if is_stale(status.message()) => Fate::TokenExpired,
            _ => Fate::Answered,
        }
    }
}

/// A member that stops says so first. What was still waiting for the connection then never leaves,
/// and what left after the member's last word is not looked at.
fn was_not_taken_up(error: &(dyn std::error::Error + 'static)) -> bool {
    let waited = error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled);
    let too_late = error.downcast_ref::<h2::Error>().is_some_and(|error| {
        error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR)
    });
    waited || too_late
}

/// The innermost reason, which is the one that tells something ("connection refused").
pub(super) fn root_cause(status: &Status) -> String {
    let mut error: &dyn std::error::Error = status;
    while let Some(source) = error.source() {
        error = source;
    }
    match std::error::Error::source(status) {
        Some(_) => error.to_string(),
        None => status.message().to_owned(),
    }
}
