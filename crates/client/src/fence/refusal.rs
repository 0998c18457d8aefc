//! Why a gate does not open.

use std::{fmt, io, sync::Arc, time::Duration};

use super::FencingToken;

/// A gate's answer to a token.
#[derive(Clone, Debug)]
#[must_use = "a gate that nobody listens to guards nothing"]
pub enum Admission {
    /// No newer holder was here, and no older one still is.
    Admitted,
    /// Do not act.
    Refused(Refusal),
}

impl Admission {
    /// Whether the holder may act.
    pub fn is_admitted(&self) -> bool {
        matches!(self, Admission::Admitted)
    }
}

/// Why a gate refused a token. One variant for each different thing to do about it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refusal {
    /// A newer token was seen. The holder of this token has been replaced: it must stop, and asking again will not
    /// help.
    #[error("fencing token {token} is stale: token {in_force} is in force")]
    Stale {
        /// The token shown.
        token: FencingToken,
        /// The newest token that refuses it.
        in_force: FencingToken,
    },
    /// The token is good, and older ones are refused from now on, but something must end first. The
    /// holder must not act yet: ask again.
    #[error("fencing token {token} has to wait: {obstacle}")]
    NotYet {
        /// The token shown.
        token: FencingToken,
        /// What is in the way.
        obstacle: Obstacle,
    },
    /// The gate watches over as many resources as it was made for. It forgets none, because a
    /// forgotten resource would let its old holders in: make the gate larger.
    #[error("the gate has no room for {resource:?}: it watches over {resources_max} resources")]
    NoRoom {
        /// The resource that is new to the gate.
        resource: String,
        /// [`GateLimits::resources_max`](super::GateLimits::resources_max).
        resources_max: usize,
    },
    /// The resource's name is longer than
    /// [`RESOURCE_BYTES_MAX`](super::RESOURCE_BYTES_MAX).
    #[error("a resource's name has {bytes} bytes; {max} are allowed", max = super::RESOURCE_BYTES_MAX)]
    NameTooLong {
        /// How long it is.
        bytes: usize,
    },
    /// The gate could not write down what it had seen. What is on the disk is unknown, so it never
    /// admits a token again: open the gate anew, in a new process, on a disk that works.
    #[error("the gate is closed for good: {cause}")]
    Broken {
        /// What the disk said.
        #[source]
        cause: Arc<io::Error>,
    },
}

/// What a good token waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Older holders are inside and have not left.
    UnderWay {
        /// How many.
        count: usize,
        /// How long we waited for them.
        waited: Duration,
    },
    /// The disk has not yet confirmed that the token was written down.
    Disk {
        /// How long we waited for it.
        waited: Duration,
    },
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::UnderWay { count, waited } => {
                write!(f, "{count} older operations are still under way after {waited:?}")
            }
            Obstacle::Disk { waited } => {
                write!(f, "the disk has not confirmed it after {waited:?}")
            }
        }
    }
}
