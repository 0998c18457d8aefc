//! What can go wrong, by what was asked for.
//!
//! Three kinds are never mixed. A *refusal* is final and changed nothing. An *unknown outcome* may
//! have happened. And the *end of the session* ends everything that the session stood for.

use std::time::Duration;

use crate::grpc::ClientError;
use crate::{BadName, LineName, Loss, RefusalKind};

/// Why the server behind a session gave no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// It said no. Nothing was changed, and asking again changes nothing by itself.
    #[error("{text}")]
    Refused {
        /// By which rule, where it named one.
        kind: Option<RefusalKind>,
        /// In its own words, for people.
        text: String,
    },
    /// Nobody could answer, and nothing was changed: ask again later.
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
    /// Our session ended, and with it everything that it stood in line for. Stand in line again with another
    /// session.
    #[error("waiting for {name}: {loss}")]
    SessionOver {
        /// What was waited for.
        name: LineName,
        /// Why it is over.
        loss: Loss,
    },
    /// Our place in line was taken away: by an operator, or with its key. The session lives, and may stand in line
    /// again.
    #[error("out of the line for {name}: {loss}")]
    PlaceLost {
        /// What was waited for.
        name: LineName,
        /// Why the place is gone.
        loss: Loss,
    },
    /// Others hold it, and we did not want to wait.
    #[error("{name} is held by others")]
    Taken {
        /// What was wanted.
        name: LineName,
    },
    /// It was not our turn within the time we had.
    #[error("{name} was not free within {after:?}")]
    TimedOut {
        /// What was wanted.
        name: LineName,
        /// How long we waited.
        after: Duration,
    },
    /// This session stands in that line already, or holds it.
    #[error("this session stands in line for {name} already")]
    AlreadyInLine {
        /// The line.
        name: LineName,
    },
    /// A name that cannot be one.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// What was asked for makes no sense.
    #[error("{name}: {rule}")]
    BadRequest {
        /// What was wanted.
        name: LineName,
        /// What it must be.
        rule: &'static str,
    },
    /// Others stand in the same line for another kind of lock, or for another number of permits.
    #[error("{name} is in use as another kind of lock: {text}")]
    ModeMismatch {
        /// The line.
        name: LineName,
        /// What the others are.
        text: String,
    },
    /// Nobody may hold it until an operator resumes it.
    #[error("{name} is frozen")]
    Frozen {
        /// The line.
        name: LineName,
    },
    /// The engine behind this session has no such thing.
    #[error("{name}: the {engine} engine cannot {what}")]
    Unsupported {
        /// The line.
        name: LineName,
        /// The engine.
        engine: &'static str,
        /// What it cannot do.
        what: &'static str,
    },
    /// The server refused, by a rule that has no variant here: [`AcquireError::refusal`] says which.
    #[error("{name} was refused")]
    Refused {
        /// The line.
        name: LineName,
        /// Its words.
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

    /// For somebody who waited, or was just let in, and has lost its place.
    pub(crate) fn out_of_line(name: LineName, loss: Loss) -> AcquireError {
        match loss.ends_session() {
            true => AcquireError::SessionOver { name, loss },
            false => AcquireError::PlaceLost { name, loss },
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
        name: LineName,
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
        name: LineName,
        /// Why not.
        loss: Loss,
    },
    /// Nobody answered in time. Others may or may not have seen the new value.
    #[error("proclaiming for {name}")]
    Unknown {
        /// The election.
        name: LineName,
        /// What is known.
        #[source]
        source: EngineError,
    },
    /// The server refused.
    #[error("proclaiming for {name}")]
    Refused {
        /// The election.
        name: LineName,
        /// Its words.
        #[source]
        source: EngineError,
    },
}

/// Why others cannot be seen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObserveError {
    /// A name that cannot be one.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// The server gave no answer.
    #[error("looking at {name}")]
    Engine {
        /// What was looked at.
        name: LineName,
        /// Why not.
        #[source]
        source: EngineError,
    },
    /// The session that we looked through is over.
    #[error("looking at {name}: {loss}")]
    SessionOver {
        /// What was looked at.
        name: LineName,
        /// Why it is over.
        loss: Loss,
    },
}
