//! Messages between contenders and servers.

use std::fmt;

use tenure_api::Failure;
use tenure_replica::{
    Message, Outcome, RaftKind, Reply,
    command::{Command, ElectionCommand, SessionRequest},
    election::{ElectionEvent, listeners::ListenerEvent},
};

use super::super::raft;
use crate::stage::ProtocolMessage;

#[derive(Clone, Debug)]
pub(super) enum TenureMessage {
    /// Between servers.
    Peer(raft::RaftStageMessage),
    /// To a server, on a stream.
    SessionRequest { stream: u64, number: u64, command: Command },
    /// From a server: the `nth` message of a stream.
    Tell { stream: u64, nth: u64, what: StreamMessage },
}

#[derive(Clone, Debug)]
pub(super) enum StreamMessage {
    Answer { number: u64, result: Box<Result<Reply, Failure>> },
    News(ListenerEvent),
}

impl TenureMessage {
    pub(super) fn peer(message: Message) -> TenureMessage {
        TenureMessage::Peer(raft::RaftStageMessage(message))
    }
}

impl fmt::Display for TenureMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TenureMessage::Peer(message) => message.fmt(f),
            TenureMessage::SessionRequest { command, .. } => match command {
                Command::LeaseRenew(session) => write!(f, "renew session {}", session.0),
                Command::Election(ElectionCommand::Open { id, .. }) => {
                    write!(f, "open session {}", id.0)
                }
                Command::Election(ElectionCommand::Attach { id, .. }) => {
                    write!(f, "attach to session {}", id.0)
                }
                Command::Election(ElectionCommand::Request {
                    request: SessionRequest::Join(_),
                    ..
                }) => f.write_str("join the election"),
                _ => f.write_str("a request"),
            },
            TenureMessage::Tell { what, .. } => match what {
                StreamMessage::Answer { result, .. } => match result.as_ref() {
                    Ok(Reply::Wrote(Outcome::Election(Err(refusal)))) => write!(f, "no: {refusal}"),
                    Ok(_) => f.write_str("done"),
                    Err(failure) => write!(f, "no: {failure}"),
                },
                StreamMessage::News(ListenerEvent::Session(event)) => {
                    f.write_str(event_name(event))
                }
                StreamMessage::News(ListenerEvent::Observed(_)) => {
                    f.write_str("the leader has changed")
                }
                StreamMessage::News(_) => f.write_str("the present state"),
            },
        }
    }
}

impl ProtocolMessage for TenureMessage {
    fn kind(&self) -> &'static str {
        match self {
            TenureMessage::Peer(message) => message.kind(),
            TenureMessage::SessionRequest { command: Command::LeaseRenew(_), .. } => "renew",
            TenureMessage::SessionRequest { .. } => "ask",
            TenureMessage::Tell { what: StreamMessage::News(_), .. } => "news",
            TenureMessage::Tell { .. } if self.is_routine() => "renewed",
            TenureMessage::Tell { .. } => "answer",
        }
    }

    /// Renewals, and the messages by which servers agree on them.
    fn is_routine(&self) -> bool {
        match self {
            TenureMessage::Peer(message) => match &message.0 {
                Message::Raft(message) => matches!(
                    message.kind,
                    RaftKind::Append
                        | RaftKind::AppendResponse
                        | RaftKind::Heartbeat
                        | RaftKind::HeartbeatResponse
                ),
                _ => true,
            },
            TenureMessage::SessionRequest { command, .. } => {
                matches!(command, Command::LeaseRenew(_))
            }
            TenureMessage::Tell { what: StreamMessage::Answer { result, .. }, .. } => {
                matches!(result.as_ref(), Ok(Reply::Wrote(Outcome::Lease(_))))
            }
            TenureMessage::Tell { .. } => false,
        }
    }
}

fn event_name(event: &ElectionEvent) -> &'static str {
    match event {
        ElectionEvent::Granted { .. } => "you lead",
        ElectionEvent::Gone { .. } | ElectionEvent::Moved { .. } => "your candidacy is gone",
        ElectionEvent::Attached { .. } => "you are attached",
        ElectionEvent::SessionEnded { .. } => "your session is over",
        _ => "an event",
    }
}
