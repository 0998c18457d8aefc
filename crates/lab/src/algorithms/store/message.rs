//! Messages between clients and the store.

use std::{fmt, time::Duration};

use crate::{
    faults::write_span,
    stage::{ProcessId, ProtocolMessage},
};

/// A key and its value, with its revisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreEntry {
    pub(crate) key: String,
    pub(crate) value: String,
    /// A time of day from the writer's own clock.
    pub(crate) stamp: Option<Duration>,
    /// The revision of its creation.
    pub(crate) created: u64,
    /// The revision of its last change.
    pub(crate) version: u64,
    pub(crate) session: Option<u64>,
    /// The writer. No client decides by it: it is for checks.
    pub(crate) writer: ProcessId,
}

/// The condition of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Always,
    /// There is no such key.
    Missing,
    /// The key has this value.
    Is(String),
    /// The key was last changed at this revision.
    Version(u64),
    Both(String, u64),
    /// There is no such key, or its stamp is before this time of day.
    MissingOrBefore(Duration),
}

impl Condition {
    pub(super) fn holds(&self, entry: Option<&StoreEntry>) -> bool {
        match self {
            Condition::Always => true,
            Condition::Missing => entry.is_none(),
            Condition::Is(value) => entry.is_some_and(|entry| entry.value == *value),
            Condition::Version(version) => entry.is_some_and(|entry| entry.version == *version),
            Condition::Both(value, version) => {
                entry.is_some_and(|entry| entry.value == *value && entry.version == *version)
            }
            Condition::MissingOrBefore(time) => entry.is_none_or(|entry| entry.stamp < Some(*time)),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Always => Ok(()),
            Condition::Missing => f.write_str(" if it is not there"),
            Condition::Is(value) => write!(f, " if it is {value}"),
            Condition::Version(version) => write!(f, " if it is of revision {version}"),
            Condition::Both(value, version) => write!(f, " if it is {value} of revision {version}"),
            Condition::MissingOrBefore(time) => {
                write!(f, " if it is not there or was due before {}", write_span(*time))
            }
        }
    }
}

/// A request to the store.
#[derive(Clone, Debug)]
pub(crate) enum StoreRequest {
    /// Reads a key. `watch`: the client is told of the next change, once.
    Get {
        key: &'static str,
        watch: bool,
    },
    /// As [`StoreRequest::Get`], of a key that is not known beforehand.
    Look {
        key: String,
        watch: bool,
    },
    /// Lists all keys under a name that ends with a slash, in the order of creation.
    List {
        under: &'static str,
        watch: bool,
    },
    Put {
        key: &'static str,
        value: String,
        when: Condition,
        ttl: Option<Duration>,
        stamp: Option<Duration>,
    },
    Delete {
        key: &'static str,
        when: Condition,
    },
    /// Opens a session. Its keys go when it was not kept alive for this long.
    OpenSession {
        ttl: Duration,
    },
    KeepAlive {
        session: u64,
    },
    /// Creates a key under this name, for as long as the session lasts.
    Enter {
        under: &'static str,
        session: u64,
    },
    /// A leader's own work, on data in the store itself: written if they are still at this revision (none: missing) and, with
    /// a guard, if that key was created at that revision.
    Work {
        key: &'static str,
        seen: Option<u64>,
        guard: Option<(&'static str, u64)>,
        tenure: u64,
    },
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub(crate) enum StoreResponse {
    /// Done: the entry now, and the one before.
    Done {
        now: Option<StoreEntry>,
        before: Option<StoreEntry>,
    },
    /// The condition did not hold: this is the entry.
    Refused(Option<StoreEntry>),
    Found(Option<StoreEntry>),
    Listed(Vec<StoreEntry>),
    /// A session is open, and the store's revision at that time.
    Session {
        id: u64,
        revision: u64,
    },
    Kept,
    /// There is no such session.
    Gone,
}

#[derive(Clone, Debug)]
pub(crate) enum StoreMessage {
    /// `purpose`: the client's word for it, in traces and counts.
    Request {
        number: u64,
        purpose: &'static str,
        what: StoreRequest,
    },
    Response {
        number: u64,
        purpose: &'static str,
        answer: StoreResponse,
    },
    /// A watched key has changed.
    Changed {
        key: String,
    },
    /// From a server to its replica: all entries, with their ends.
    Copy(Vec<(StoreEntry, Option<Duration>)>),
    Ping,
    Pong,
    /// Tells clients to use that server from now on.
    Promoted(ProcessId),
}

/// Purposes of requests that are sent all the time, election or not.
const ROUTINE: &[&str] = &["renew", "poll", "give back", "keep alive", "work", "read"];

impl ProtocolMessage for StoreMessage {
    fn kind(&self) -> &'static str {
        match self {
            StoreMessage::Request { purpose, .. } => purpose,
            StoreMessage::Response { .. } => "answer",
            StoreMessage::Changed { .. } => "changed",
            StoreMessage::Copy(_) => "copy",
            StoreMessage::Ping => "ping",
            StoreMessage::Pong => "pong",
            StoreMessage::Promoted(_) => "promoted",
        }
    }

    fn is_routine(&self) -> bool {
        match self {
            // A poll that succeeds in the end is not routine.
            StoreMessage::Response {
                purpose: "poll", answer: StoreResponse::Done { .. }, ..
            } => false,
            StoreMessage::Request { purpose, .. } | StoreMessage::Response { purpose, .. } => {
                ROUTINE.contains(purpose)
            }
            StoreMessage::Changed { .. } | StoreMessage::Promoted(_) => false,
            StoreMessage::Copy(_) | StoreMessage::Ping | StoreMessage::Pong => true,
        }
    }
}

impl fmt::Display for StoreMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreMessage::Request { what, purpose, .. } => write!(f, "[{purpose}] {what}"),
            StoreMessage::Response { answer, purpose, .. } => write!(f, "[{purpose}] {answer}"),
            StoreMessage::Changed { key } => write!(f, "{key} has changed"),
            StoreMessage::Copy(entries) => write!(f, "a copy of {} keys", entries.len()),
            StoreMessage::Ping => f.write_str("are you there?"),
            StoreMessage::Pong => f.write_str("I am"),
            StoreMessage::Promoted(_) => f.write_str("the copy takes over"),
        }
    }
}

impl fmt::Display for StoreRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let watching = |watch: &bool| if *watch { ", and tell me when it changes" } else { "" };
        match self {
            StoreRequest::Get { key, watch } => write!(f, "get {key}{}", watching(watch)),
            StoreRequest::Look { key, watch } => write!(f, "get {key}{}", watching(watch)),
            StoreRequest::List { under, watch } => write!(f, "list {under}{}", watching(watch)),
            StoreRequest::Put { key, value, when, ttl, .. } => {
                write!(f, "set {key} to {value}{when}")?;
                ttl.map_or(Ok(()), |ttl| write!(f, ", for {}", write_span(ttl)))
            }
            StoreRequest::Delete { key, when } => write!(f, "delete {key}{when}"),
            StoreRequest::OpenSession { ttl } => {
                write!(f, "open a session of {}", write_span(*ttl))
            }
            StoreRequest::KeepAlive { session } => write!(f, "keep session {session} alive"),
            StoreRequest::Enter { under, session } => {
                write!(f, "a key under {under} for session {session}")
            }
            StoreRequest::Work { key, seen, guard, .. } => {
                write!(f, "set {key} if it is of revision {}", seen.unwrap_or(0))?;
                guard.map_or(Ok(()), |(key, created)| {
                    write!(f, " and {key} was created at {created}")
                })
            }
        }
    }
}

impl fmt::Display for StoreResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = |entry: &Option<StoreEntry>| match entry {
            Some(entry) => format!("{} is {}, revision {}", entry.key, entry.value, entry.version),
            None => "there is nothing".to_owned(),
        };
        match self {
            StoreResponse::Done { now, .. } => write!(f, "done: {}", entry(now)),
            StoreResponse::Refused(there) => write!(f, "no: {}", entry(there)),
            StoreResponse::Found(there) => f.write_str(&entry(there)),
            StoreResponse::Listed(entries) => {
                let keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
                write!(f, "there are {}: {}", keys.len(), keys.join(" "))
            }
            StoreResponse::Session { id, .. } => write!(f, "session {id} is open"),
            StoreResponse::Kept => f.write_str("kept"),
            StoreResponse::Gone => f.write_str("there is no such session"),
        }
    }
}
