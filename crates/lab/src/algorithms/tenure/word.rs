//! What contenders and servers say to each other.

use std::fmt;

use tenure_api::Failure;
use tenure_replica::{
    Message, Outcome, RaftKind, Reply,
    command::{Ask, Command, LineCommand},
    queue::{Event, listeners::LineNews},
};

use super::super::raft;
use crate::stage::Word;

#[derive(Clone, Debug)]
pub(super) enum Say {
    /// Among servers.
    Peer(raft::Say),
    /// To a server, on a stream.
    Ask { stream: u64, number: u64, command: Command },
    /// From a server, on a stream: the nth thing that it says there.
    Tell { stream: u64, nth: u64, what: Told },
}

#[derive(Clone, Debug)]
pub(super) enum Told {
    Answer { number: u64, result: Box<Result<Reply, Failure>> },
    News(LineNews),
}

impl Say {
    pub(super) fn peer(message: Message) -> Say {
        Say::Peer(raft::Say(message))
    }
}

impl fmt::Display for Say {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Say::Peer(word) => word.fmt(f),
            Say::Ask { command, .. } => match command {
                Command::LeaseRenew(session) => write!(f, "I am still here, session {}", session.0),
                Command::Line(LineCommand::Open { id, .. }) => write!(f, "open session {}", id.0),
                Command::Line(LineCommand::Attach { id, .. }) => {
                    write!(f, "here I am again, session {}", id.0)
                }
                Command::Line(LineCommand::Ask { ask: Ask::Join(_), .. }) => {
                    f.write_str("I stand in line")
                }
                _ => f.write_str("a request"),
            },
            Say::Tell { what, .. } => match what {
                Told::Answer { result, .. } => match result.as_ref() {
                    Ok(Reply::Wrote(Outcome::Line(Err(refusal)))) => write!(f, "no: {refusal}"),
                    Ok(_) => f.write_str("done"),
                    Err(failure) => write!(f, "no: {failure}"),
                },
                Told::News(LineNews::Session(event)) => f.write_str(event_name(event)),
                Told::News(LineNews::Observed(_)) => f.write_str("another leads, or nobody"),
                Told::News(_) => f.write_str("how it stands"),
            },
        }
    }
}

impl Word for Say {
    fn kind(&self) -> &'static str {
        match self {
            Say::Peer(word) => word.kind(),
            Say::Ask { command: Command::LeaseRenew(_), .. } => "renew",
            Say::Ask { .. } => "ask",
            Say::Tell { what: Told::News(_), .. } => "news",
            Say::Tell { .. } if self.is_routine() => "renewed",
            Say::Tell { .. } => "answer",
        }
    }

    /// Renewals, and what servers do to agree on them.
    fn is_routine(&self) -> bool {
        match self {
            Say::Peer(word) => match &word.0 {
                Message::Raft(message) => matches!(
                    message.kind,
                    RaftKind::Append
                        | RaftKind::AppendResponse
                        | RaftKind::Heartbeat
                        | RaftKind::HeartbeatResponse
                ),
                _ => true,
            },
            Say::Ask { command, .. } => matches!(command, Command::LeaseRenew(_)),
            Say::Tell { what: Told::Answer { result, .. }, .. } => {
                matches!(result.as_ref(), Ok(Reply::Wrote(Outcome::Lease(_))))
            }
            Say::Tell { .. } => false,
        }
    }
}

fn event_name(event: &Event) -> &'static str {
    match event {
        Event::Granted { .. } => "you lead",
        Event::Gone { .. } | Event::Moved { .. } => "your place is gone",
        Event::Attached { .. } => "you are heard here",
        Event::SessionEnded { .. } => "your session is over",
        _ => "something happened",
    }
}
