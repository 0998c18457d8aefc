//! What watch streams ask and what they are told.

use std::sync::Arc;

use tenure_api::{Event, Failure, Principal, Revision};

use super::Interest;

/// A watch stream, numbered by the host.
pub type WatchStream = u64;

/// A watch on a stream, numbered by its client or counted from 0.
pub type WatchId = i64;

/// What a watch stream asks.
#[derive(Clone, Debug)]
pub enum WatchInput {
    /// Begin a watch.
    Create(WatchStream, WatchCreate),
    /// End a watch.
    Cancel(WatchStream, WatchId),
    /// Tell the revision up to which everything was told.
    Progress(WatchStream),
    /// So many bytes of what it was told have left the host.
    Drained(WatchStream, usize),
    /// The stream is gone.
    Closed(WatchStream),
}

impl WatchInput {
    /// The stream that it is said on.
    pub fn stream(&self) -> WatchStream {
        match self {
            WatchInput::Create(stream, _)
            | WatchInput::Cancel(stream, _)
            | WatchInput::Progress(stream)
            | WatchInput::Drained(stream, _)
            | WatchInput::Closed(stream) => *stream,
        }
    }
}

/// A watch to begin.
#[derive(Clone, Debug)]
pub struct WatchCreate {
    /// The principal that asks. What it may see is judged now, and again when users or roles change.
    pub by: Principal,
    /// The id the client chose.
    pub id: Option<WatchId>,
    /// Which events of which keys.
    pub interest: Interest,
    /// From this revision on, past or future; `None` for the next one.
    pub start: Option<Revision>,
    /// Tell the revision from time to time when nothing happens.
    pub progress_notify: bool,
}

/// What watch streams are told, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchNews {
    /// The watch stands.
    Created {
        /// The recipient.
        to: Told,
        /// The newest revision at that time.
        revision: Revision,
    },
    /// The watch could not begin.
    Refused {
        /// The recipient.
        stream: WatchStream,
        /// Why.
        why: WatchRefusal,
        /// The newest revision at that time.
        revision: Revision,
    },
    /// The watch has ended.
    Cancelled {
        /// The recipient.
        to: Told,
        /// The revision below which history is gone, if that is why.
        compacted: Option<Revision>,
        /// Why the principal may not watch any more, if that is why.
        denied: Option<Failure>,
        /// The newest revision at that time.
        revision: Revision,
    },
    /// Something happened. Whole revisions only, in order.
    Events {
        /// The recipients.
        to: Vec<Told>,
        /// What.
        events: Arc<[Event]>,
        /// Whether they asked for the versions before.
        prev_kv: bool,
        /// The newest revision at that time.
        revision: Revision,
        /// What it takes of each stream's room; to be given back by [`WatchInput::Drained`].
        cost: usize,
    },
    /// Everything up to this revision was told, to one watch or (`None`) to all of the stream.
    Progress {
        /// The stream.
        stream: WatchStream,
        /// The watch.
        id: Option<WatchId>,
        /// The revision.
        revision: Revision,
    },
}

/// One watch on one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Told {
    /// The stream.
    pub stream: WatchStream,
    /// The watch on it.
    pub id: WatchId,
}

/// Why a watch could not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchRefusal {
    /// The range ends before it begins.
    #[error("mvcc: watcher range is empty")]
    EmptyRange,
    /// The stream has a watch of this id.
    #[error("mvcc: duplicate watch ID provided on the WatchStream")]
    DuplicateId,
    /// The start is a negative revision.
    #[error("mvcc: required revision has been compacted")]
    Compacted,
    /// The principal may not watch these keys.
    #[error(transparent)]
    Denied(#[from] Failure),
}
