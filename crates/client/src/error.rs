//! Errors, by what was asked for.
//!
//! Three kinds are never mixed. A *refusal* is final and changed nothing. An *unknown outcome* may
//! have happened. And the *end of the session* ends everything that the session held and waited for.

use std::time::Duration;

use crate::grpc::ClientError;
use crate::{BadName, ElectionName, Loss, RefusalKind};

/// Why the server behind a session gave no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// It said no. Nothing was changed, and asking again changes nothing by itself.
    #[error("{text}")]
    Refused {
        /// By which rule, where it named one.
        kind: Option<RefusalKind>,
        /// The server's message, for people.
        text: String,
    },
    /// No member could answer, and nothing was changed: ask again later.
    #[error("{text}")]
    Unavailable {
        /// What is known.
        text: String,
    },
    /// It was sent and not confirmed. It may have happened.
    #[error("{text} (it may or may not have happened)")]
    Unknown {
        /// What is known.
        text: String,
    },
}

impl EngineError {
    /// The rule that it refused by, where it named one.
    pub fn refusal(&self) -> Option<RefusalKind> {
        match self {
            EngineError::Refused { kind, .. } => *kind,
            EngineError::Unavailable { .. } | EngineError::Unknown { .. } => None,
        }
    }
}

impl From<ClientError> for EngineError {
    fn from(error: ClientError) -> EngineError {
        let text = error.to_string();
        match error {
            error if error.outcome_unknown() => EngineError::Unknown { text },
            error if error.is_refused() => EngineError::Refused { kind: error.refusal(), text },
            ClientError::Endpoint { .. } => EngineError::Refused { kind: None, text },
            _ => EngineError::Unavailable { text },
        }
    }
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Settings that cannot work.
    #[error("session: {rule}")]
    Settings {
        /// What they must be.
        rule: String,
    },
    /// The server did not grant one.
    #[error("no session could be opened")]
    Engine(#[from] EngineError),
    /// It was granted so late that it had to be given up at once.
    #[error("the session was granted too late to be of use: {loss}")]
    TooLate {
        /// Why it is over.
        loss: Loss,
    },
    /// The operating system gave us no thread to keep it on.
    #[error("no thread for the session")]
    Thread(#[source] std::io::Error),
}

/// Why an election was not won, or a lock not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// Our session ended, and with it all its candidacies. Campaign again with another session.
    #[error("waiting for {name}: {loss}")]
    SessionOver {
        /// What was waited for.
        name: ElectionName,
        /// Why it is over.
        loss: Loss,
    },
    /// Our candidacy was taken away: by an operator, or with its key. The session lives, and may become a candidate
    /// again.
    #[error("not a candidate for {name} any more: {loss}")]
    CandidacyLost {
        /// What was waited for.
        name: ElectionName,
        /// Why the candidacy is gone.
        loss: Loss,
    },
    /// It is held by others, and the request was not to wait.
    #[error("{name} is held by others")]
    Taken {
        /// What was wanted.
        name: ElectionName,
    },
    /// It was not granted within the time limit.
    #[error("{name} was not free within {after:?}")]
    TimedOut {
        /// What was wanted.
        name: ElectionName,
        /// How long we waited.
        after: Duration,
    },
    /// This session is a candidate there already, or holds it.
    #[error("this session is a candidate for {name} already")]
    AlreadyCandidate {
        /// The election or lock.
        name: ElectionName,
    },
    /// A name that cannot be one.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// What was asked for makes no sense.
    #[error("{name}: {rule}")]
    BadRequest {
        /// What was wanted.
        name: ElectionName,
        /// What it must be.
        rule: &'static str,
    },
    /// Other candidates for this name want another kind of lock, or another number of permits.
    #[error("{name} is in use as another kind of lock: {text}")]
    ModeMismatch {
        /// The election or lock.
        name: ElectionName,
        /// What the others are.
        text: String,
    },
    /// No candidate may hold it until an operator resumes it.
    #[error("{name} is frozen")]
    Frozen {
        /// The election or lock.
        name: ElectionName,
    },
    /// The engine behind this session has no such thing.
    #[error("{name}: the {engine} engine cannot {what}")]
    Unsupported {
        /// The election or lock.
        name: ElectionName,
        /// The engine's name.
        engine: &'static str,
        /// What it cannot do.
        what: &'static str,
    },
    /// The server refused, by a rule that has no variant here: [`AcquireError::refusal`] says which.
    #[error("{name} was refused")]
    Refused {
        /// The election or lock.
        name: ElectionName,
        /// The server's message.
        #[source]
        source: EngineError,
    },
}

impl AcquireError {
    /// The rule by which the server refused, of [`AcquireError::Refused`], where it named one: a nested name, say, or
    /// a priority out of range.
    pub fn refusal(&self) -> Option<RefusalKind> {
        match self {
            AcquireError::Refused { source, .. } => source.refusal(),
            _ => None,
        }
    }

    /// For a caller that waited, or was just granted the name, and has lost its candidacy.
    pub(crate) fn out_of_election(name: ElectionName, loss: Loss) -> AcquireError {
        match loss.ends_session() {
            true => AcquireError::SessionOver { name, loss },
            false => AcquireError::CandidacyLost { name, loss },
        }
    }
}

/// Why giving something up was not confirmed. It is given up all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// The session was over before the server confirmed it; what it held ends with it.
    #[error("giving up {name}: {loss}")]
    SessionOver {
        /// What was held.
        name: ElectionName,
        /// Why the session is over.
        loss: Loss,
    },
}

/// Why a value was not proclaimed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProclaimError {
    /// We do not hold it any more.
    #[error("proclaiming for {name}: {loss}")]
    Lost {
        /// The election.
        name: ElectionName,
        /// Why not.
        loss: Loss,
    },
    /// No member answered in time. Others may or may not have seen the new value.
    #[error("proclaiming for {name}")]
    Unknown {
        /// The election.
        name: ElectionName,
        /// What is known.
        #[source]
        source: EngineError,
    },
    /// The server refused.
    #[error("proclaiming for {name}")]
    Refused {
        /// The election.
        name: ElectionName,
        /// The server's message.
        #[source]
        source: EngineError,
    },
}

/// Why an election cannot be observed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObserveError {
    /// A name that cannot be one.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// The server gave no answer.
    #[error("looking at {name}")]
    Engine {
        /// The election or lock.
        name: ElectionName,
        /// Why not.
        #[source]
        source: EngineError,
    },
    /// The session of this observer is over.
    #[error("looking at {name}: {loss}")]
    SessionOver {
        /// The election or lock.
        name: ElectionName,
        /// Why it is over.
        loss: Loss,
    },
}
