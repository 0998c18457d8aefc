//! The one way in: what clients may bring to a member, and who asks.
//!
//! A client meets, in this order: [`connections`] (how many there may be), [`bytes`] (how much is read before the core loop
//! runs), and [`calls`] (how many may be open). Those are in front of all services, of gRPC and of the JSON gateway alike:
//! [`Admission`] wraps the router, and marks each request with its [`Principal`]. A service trades the marked request for its
//! message and an [`Admitted`], which the node demands with everything that is asked of it. So a service that forgets
//! admission does not compile, and one that is served beside [`Admission`] refuses everything.

mod arrival;
mod bytes;
mod calls;
mod connections;

use std::time::Duration;

use tenure_api::{Failure, Principal};
use tonic::{Status, metadata::MetadataMap};

pub(crate) use self::{
    arrival::{Held, Unfinished, too_late},
    bytes::{ReadPermit, ReadThrottle},
    calls::{Admission, Admitting, Calls, OpenRequest, OpenRequests},
    connections::{Connection, Connections, Link, Secured},
};
use crate::{grpc::refuse, node::NodeHandle};

/// Files that are kept for logs, snapshots, other members and whatever else is not a client.
const FILES_KEPT: usize = 128;
/// Connections to addresses that serve metrics and health only. They are among what is kept.
const METRICS_CONNECTIONS_MAX: usize = 32;
/// Requests that one connection may have under way.
pub(crate) const STREAMS_PER_CONNECTION_MAX: u32 = 100_000;
/// What may be read in a turn, in bytes.
const TURN_BYTES_MAX: usize = 1 << 20;
/// What a connection may read in a turn in any case.
const LIGHT_BYTES_MAX: usize = 16 << 10;
/// What a request counts beside its bytes: to decode it, to give it a task and to answer it.
const REQUEST_BYTES: usize = 4 << 10;
/// Open calls at a member, above which connections with many of them may begin no more.
const CALLS_MAX: usize = 10_000;
/// What a connection may have open in any case.
const FEW_CALLS: usize = 64;
/// How long a call may take. One that is whole is answered or given up much earlier, with any settings; one whose rest
/// is never sent would count for ever.
const CALL_TIME_MAX: Duration = Duration::from_secs(150);
/// Calls at a member whose request, or on a stream whose first message, has not arrived whole; above it connections with many
/// of them may begin no more.
const ARRIVING_MAX: usize = 10_000;
/// How long a request may take to arrive, or a message of a stream from its first byte.
pub(crate) const ARRIVAL_MAX: Duration = Duration::from_secs(60);
/// Bytes of messages that have not arrived whole, at a member; above it those of connections with many are refused.
const UNFINISHED_BYTES_MAX: usize = 128 << 20;
/// What a connection may hold of them in any case.
const FEW_BYTES: usize = 64 << 10;
/// Streams that may begin in silence: a client of etcd's may open one before there is anything to say.
const SILENT_AT_FIRST: [&str; 2] =
    ["/etcdserverpb.Watch/Watch", "/etcdserverpb.Lease/LeaseKeepAlive"];
/// How long a handshake of TLS may take.
pub(crate) const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Handshakes that may be under way; for one more, the oldest is ended.
pub(crate) const HANDSHAKES_MAX: usize = 1024;
/// Handshakes that begin before the core loop has its turn.
pub(crate) const HANDSHAKES_PER_TURN: usize = 4;
/// Requests that may be open at a member; what keeps sessions alive may go beyond.
const REQUESTS_MAX: usize = 30_000;
/// Those that keep sessions alive included.
const SESSION_REQUESTS_MAX: usize = 300_000;
/// Campaigns and locks that may wait for their turn at a member; more are refused with "too many requests".
pub(crate) const CANDIDATES_WAITING_MAX: usize = 100_000;

/// A request that was let in: who asks, and what was said about it beside its message.
#[derive(Clone, Debug)]
pub struct Admitted {
    by: Principal,
    wants_leader: bool,
    link: Link,
}

impl Admitted {
    /// What a program asks that runs the member inside itself, or the member asks itself.
    pub fn in_process(by: Principal) -> Admitted {
        Admitted { by, wants_leader: false, link: Link::default() }
    }

    /// The same, over this connection.
    pub(crate) fn over(self, link: Link) -> Admitted {
        Admitted { link, ..self }
    }

    /// Who asks.
    pub(crate) fn principal(&self) -> &Principal {
        &self.by
    }

    /// Whether the client would rather have no answer than one from a member without a raft leader.
    pub(crate) fn wants_leader(&self) -> bool {
        self.wants_leader
    }

    /// The connection that the request came over.
    pub(crate) fn link(&self) -> &Link {
        &self.link
    }
}

/// A request as [`Admission`] passes it on.
#[derive(Clone, Debug)]
struct Marked(Principal);

/// Marks what a program asks without a connection.
pub(crate) fn marked<T>(message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.extensions_mut().insert(Marked(Principal::Anonymous));
    request
}

impl NodeHandle {
    /// Lets a request in: not if this member is a learner, and not if the client demands what it has not.
    pub(crate) fn admit<T>(&self, request: tonic::Request<T>) -> Result<(Admitted, T), Status> {
        self.admit_to_learner(request, |_| false)
    }

    /// The same, at a learner too if the request is one that it may answer. A learner may be far behind, and etcd's clients
    /// know it by the refusal.
    pub(crate) fn admit_to_learner<T>(
        &self,
        request: tonic::Request<T>,
        is_for_learner: impl FnOnce(&T) -> bool,
    ) -> Result<(Admitted, T), Status> {
        let (metadata, extensions, message) = request.into_parts();
        let Some(Marked(by)) = extensions.get().cloned() else {
            return Err(Status::internal("tenure: the request came in beside admission"));
        };
        let wants_leader = self.meets(&metadata)?;
        if !is_for_learner(&message) && self.status().is_learner {
            return Err(refuse(Failure::NotForLearner));
        }
        let link = extensions.get().map(|connection: &Connection| connection.link.clone());
        Ok((Admitted { by, wants_leader, link: link.unwrap_or_default() }, message))
    }

    /// Checks what etcd's clients may demand of any request: a readable version, and a raft leader. Answers whether
    /// they demand the latter.
    fn meets(&self, metadata: &MetadataMap) -> Result<bool, Status> {
        if metadata.is_empty() {
            return Ok(false);
        }
        if metadata.get("client-api-version").is_some_and(|value| value.to_str().is_err()) {
            return Err(refuse(Failure::InvalidClientApiVersion));
        }
        let wants_leader = metadata.get("hasleader").is_some_and(|value| value == "true");
        // One that has just died is being replaced: the request is held like any other, and streams see to their end.
        if wants_leader && self.status().lacks_leader {
            return Err(refuse(Failure::NoLeader));
        }
        Ok(wants_leader)
    }
}

/// Refuses a message that is too large.
pub(crate) fn sized<T: prost::Message>(message: T, bytes_max: usize) -> Result<T, Status> {
    if message.encoded_len() > bytes_max {
        return Err(refuse(Failure::RequestTooLarge));
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of the table in the docs.
    fn rows() -> String {
        let count = |number: usize| {
            let (thousands, rest) = (number / 1000, number % 1000);
            if thousands == 0 { rest.to_string() } else { format!("{thousands},{rest:03}") }
        };
        let kib = |bytes: usize| format!("{} KiB", bytes >> 10);
        let rows = [
            (
                "connections of clients; more are closed",
                format!("the process's open files less {FILES_KEPT}"),
                "FILES_KEPT",
            ),
            (
                "connections to `--listen-metrics-urls`; more are closed",
                count(METRICS_CONNECTIONS_MAX),
                "METRICS_CONNECTIONS_MAX",
            ),
            (
                "requests under way on one connection",
                count(STREAMS_PER_CONNECTION_MAX as usize),
                "STREAMS_PER_CONNECTION_MAX",
            ),
            (
                "what is read from clients before the core loop runs; more is read later",
                format!("{} MiB", TURN_BYTES_MAX >> 20),
                "TURN_BYTES_MAX",
            ),
            (
                "what is read of any connection in that time",
                kib(LIGHT_BYTES_MAX),
                "LIGHT_BYTES_MAX",
            ),
            ("what a request counts there beside its bytes", kib(REQUEST_BYTES), "REQUEST_BYTES"),
            (
                "calls about keys that are open at a member, as gRPC or as JSON; more are refused where a connection has many",
                format!("{}; {FEW_CALLS} of any connection", count(CALLS_MAX)),
                "CALLS_MAX`, `FEW_CALLS",
            ),
            (
                "how long such a call may take, however slowly it is sent",
                format!("{} s", CALL_TIME_MAX.as_secs()),
                "CALL_TIME_MAX",
            ),
            (
                "calls that have not arrived whole at a member; more are refused where a connection has many",
                format!("{}; {FEW_CALLS} of any connection", count(ARRIVING_MAX)),
                "ARRIVING_MAX",
            ),
            (
                "how long a request, or a message of a stream, may take to arrive",
                format!("{} s", ARRIVAL_MAX.as_secs()),
                "ARRIVAL_MAX",
            ),
            (
                "bytes of messages that have not arrived whole at a member; more are refused of connections that hold many",
                format!("{} MiB; {} of any connection", UNFINISHED_BYTES_MAX >> 20, kib(FEW_BYTES)),
                "UNFINISHED_BYTES_MAX`, `FEW_BYTES",
            ),
            (
                "how long a handshake of TLS may take",
                format!("{} s", HANDSHAKE_MAX.as_secs()),
                "HANDSHAKE_MAX",
            ),
            (
                "handshakes under way; for one more, the oldest is ended",
                count(HANDSHAKES_MAX),
                "HANDSHAKES_MAX",
            ),
            (
                "handshakes that begin before the core loop has its turn",
                count(HANDSHAKES_PER_TURN),
                "HANDSHAKES_PER_TURN",
            ),
            (
                "requests open at a member; more are refused with \"too many requests\"",
                format!("{}, with sessions' {}", count(REQUESTS_MAX), count(SESSION_REQUESTS_MAX)),
                "REQUESTS_MAX`, `SESSION_REQUESTS_MAX",
            ),
            (
                "campaigns and locks that wait at a member; more are refused the same way",
                count(CANDIDATES_WAITING_MAX),
                "CANDIDATES_WAITING_MAX",
            ),
        ];
        rows.map(|(what, limit, name)| format!("| {what} | {limit} | `{name}` |\n")).concat()
    }

    #[test]
    fn admission_refuses_what_came_in_beside_it() {
        let node = NodeHandle::unanswered();
        let refused = node.admit(tonic::Request::new(())).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Internal);
        let (admitted, ()) = node.admit(marked(())).unwrap();
        assert_eq!(*admitted.principal(), Principal::Anonymous);
    }

    #[test]
    fn admission_limits_are_those_of_the_docs() {
        let docs = include_str!("../../../../docs/explanation/architecture.md");
        let rows = rows();
        assert!(docs.contains(&rows), "print these in docs/explanation/architecture.md:\n{rows}");
    }
}
