//! What clients and servers say to each other.

use std::{fmt, time::Duration};

use crate::{
    faults::write_span,
    stage::{NodeId, Word},
};

/// A key, what is there, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) value: String,
    /// A time of day that the writer put there, by its own clock.
    pub(crate) stamp: Option<Duration>,
    /// The revision of its creation.
    pub(crate) created: u64,
    /// The revision of its last change.
    pub(crate) version: u64,
    pub(crate) session: Option<u64>,
    /// Who wrote it. No client decides anything by it: it is for those who watch the play.
    pub(crate) writer: NodeId,
}

/// Under which condition something is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    /// There is no such key.
    Missing,
    /// There is one, with this value.
    Is(String),
    /// There is one that was last changed so.
    Version(u64),
    Both(String, u64),
    /// There is none, or its stamp is before this time of day.
    MissingOrBefore(Duration),
}

impl When {
    pub(super) fn holds(&self, entry: Option<&Entry>) -> bool {
        match self {
            When::Always => true,
            When::Missing => entry.is_none(),
            When::Is(value) => entry.is_some_and(|entry| entry.value == *value),
            When::Version(version) => entry.is_some_and(|entry| entry.version == *version),
            When::Both(value, version) => {
                entry.is_some_and(|entry| entry.value == *value && entry.version == *version)
            }
            When::MissingOrBefore(time) => entry.is_none_or(|entry| entry.stamp < Some(*time)),
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            When::Always => Ok(()),
            When::Missing => f.write_str(" if it is not there"),
            When::Is(value) => write!(f, " if it is {value}"),
            When::Version(version) => write!(f, " if it is of revision {version}"),
            When::Both(value, version) => write!(f, " if it is {value} of revision {version}"),
            When::MissingOrBefore(time) => {
                write!(f, " if it is not there or was due before {}", write_span(*time))
            }
        }
    }
}

/// What a client asks for.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    /// What is there? If it watches, it is told of the next change, once.
    Get {
        key: &'static str,
        watch: bool,
    },
    /// As [`Ask::Get`], of a key that is not known beforehand.
    Look {
        key: String,
        watch: bool,
    },
    /// All keys under a name that ends with a slash, those created first before others.
    List {
        under: &'static str,
        watch: bool,
    },
    Put {
        key: &'static str,
        value: String,
        when: When,
        ttl: Option<Duration>,
        stamp: Option<Duration>,
    },
    Delete {
        key: &'static str,
        when: When,
    },
    /// Keys of a session go when nobody has kept it alive for so long.
    OpenSession {
        ttl: Duration,
    },
    KeepAlive {
        session: u64,
    },
    /// A key of its own under this name, for as long as the session lasts.
    Enter {
        under: &'static str,
        session: u64,
    },
    /// A leader's own work, on data that are in the store itself: written if they are still of this
    /// revision (none: not there yet) and, if a guard is named, if that key was created so.
    Work {
        key: &'static str,
        seen: Option<u64>,
        guard: Option<(&'static str, u64)>,
        tenure: u64,
    },
}

/// What it is answered.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// Done: what is there now, and what was there before.
    Done {
        now: Option<Entry>,
        before: Option<Entry>,
    },
    /// The condition did not hold: that is there.
    Refused(Option<Entry>),
    Found(Option<Entry>),
    Listed(Vec<Entry>),
    /// A session is open, and the revision at that time.
    Session {
        id: u64,
        revision: u64,
    },
    Kept,
    /// There is no such session any more.
    Gone,
}

#[derive(Clone, Debug)]
pub(crate) enum Say {
    /// The purpose is the client's word for it, for drawings and counts.
    Ask {
        number: u64,
        purpose: &'static str,
        what: Ask,
    },
    Answer {
        number: u64,
        purpose: &'static str,
        answer: Answer,
    },
    /// Something that you watch has changed.
    Changed {
        key: String,
    },
    /// From a server to its copy: all that it holds, with when it is due.
    Copy(Vec<(Entry, Option<Duration>)>),
    Ping,
    Pong,
    /// From now on, ask that one.
    Promoted(NodeId),
}

/// What is asked all the time, election or not.
const ROUTINE: &[&str] = &["renew", "poll", "give back", "keep alive", "work", "read"];

impl Word for Say {
    fn kind(&self) -> &'static str {
        match self {
            Say::Ask { purpose, .. } => purpose,
            Say::Answer { .. } => "answer",
            Say::Changed { .. } => "changed",
            Say::Copy(_) => "copy",
            Say::Ping => "ping",
            Say::Pong => "pong",
            Say::Promoted(_) => "promoted",
        }
    }

    fn is_routine(&self) -> bool {
        match self {
            // Whoever asks every so often gets it in the end, and that is none of the routine.
            Say::Answer { purpose: "poll", answer: Answer::Done { .. }, .. } => false,
            Say::Ask { purpose, .. } | Say::Answer { purpose, .. } => ROUTINE.contains(purpose),
            Say::Changed { .. } | Say::Promoted(_) => false,
            Say::Copy(_) | Say::Ping | Say::Pong => true,
        }
    }
}

impl fmt::Display for Say {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Say::Ask { what, purpose, .. } => write!(f, "[{purpose}] {what}"),
            Say::Answer { answer, purpose, .. } => write!(f, "[{purpose}] {answer}"),
            Say::Changed { key } => write!(f, "{key} has changed"),
            Say::Copy(entries) => write!(f, "a copy of {} keys", entries.len()),
            Say::Ping => f.write_str("are you there?"),
            Say::Pong => f.write_str("I am"),
            Say::Promoted(_) => f.write_str("the copy takes over"),
        }
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let watching = |watch: &bool| if *watch { ", and tell me when it changes" } else { "" };
        match self {
            Ask::Get { key, watch } => write!(f, "get {key}{}", watching(watch)),
            Ask::Look { key, watch } => write!(f, "get {key}{}", watching(watch)),
            Ask::List { under, watch } => write!(f, "list {under}{}", watching(watch)),
            Ask::Put { key, value, when, ttl, .. } => {
                write!(f, "set {key} to {value}{when}")?;
                ttl.map_or(Ok(()), |ttl| write!(f, ", for {}", write_span(ttl)))
            }
            Ask::Delete { key, when } => write!(f, "delete {key}{when}"),
            Ask::OpenSession { ttl } => write!(f, "open a session of {}", write_span(*ttl)),
            Ask::KeepAlive { session } => write!(f, "keep session {session} alive"),
            Ask::Enter { under, session } => write!(f, "a key under {under} for session {session}"),
            Ask::Work { key, seen, guard, .. } => {
                write!(f, "set {key} if it is of revision {}", seen.unwrap_or(0))?;
                guard.map_or(Ok(()), |(key, created)| {
                    write!(f, " and {key} was created at {created}")
                })
            }
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = |entry: &Option<Entry>| match entry {
            Some(entry) => format!("{} is {}, revision {}", entry.key, entry.value, entry.version),
            None => "there is nothing".to_owned(),
        };
        match self {
            Answer::Done { now, .. } => write!(f, "done: {}", entry(now)),
            Answer::Refused(there) => write!(f, "no: {}", entry(there)),
            Answer::Found(there) => f.write_str(&entry(there)),
            Answer::Listed(entries) => {
                let keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
                write!(f, "there are {}: {}", keys.len(), keys.join(" "))
            }
            Answer::Session { id, .. } => write!(f, "session {id} is open"),
            Answer::Kept => f.write_str("kept"),
            Answer::Gone => f.write_str("there is no such session"),
        }
    }
}
