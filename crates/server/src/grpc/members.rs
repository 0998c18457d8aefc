//! How this member is, as far as it knows by itself.

use tenure_api::wire::tenure::v1 as pb;
use tenure_replica::{Consistency, Operation, PeerProgress, Read, Reply};
use tonic::{Response, Status};

use super::{db_bytes, reply::unexpected, stubs::members_server};
use crate::node::NodeHandle;

pub(super) struct Members {
    node: NodeHandle,
}

impl Members {
    pub(super) fn new(node: NodeHandle) -> Members {
        Members { node }
    }
}

#[tonic::async_trait]
impl members_server::Members for Members {
    async fn health(
        &self,
        request: tonic::Request<pb::MemberHealthRequest>,
    ) -> Result<Response<pb::MemberHealthResponse>, Status> {
        let (by, _) = self.node.admit_to_learner(request, |_| true)?;
        let read = Operation::Read(Read::Progress, Consistency::Serializable);
        let (header, progress) = match self.node.open(self.node.ask(&by, read).await)? {
            (header, Reply::Progress(progress)) => (header, progress),
            (_, other) => return Err(unexpected(&other)),
        };
        let status = self.node.status();
        let metrics = &self.node.metrics;
        let (flushes, flush) = metrics.disk.flushes();
        let round_trips = metrics.network.round_trips().clone();
        let micros = |time: std::time::Duration| time.as_micros() as u64;
        let one = |peer: &PeerProgress| pb::MemberProgress {
            member: peer.member.0,
            r#match: peer.matched,
            next: peer.next,
            lag: status.last_index.saturating_sub(peer.matched),
            active: peer.is_active,
            round_trip_us: round_trips.get(&peer.member).copied().map_or(0, micros),
        };
        let terms = metrics.core.terms().into_iter().map(|seen| pb::TermSeen {
            term: seen.term.0,
            raft_leader: seen.leader.map_or(0, |leader| leader.0),
            since_unix_ms: seen.since_ms,
        });
        Ok(Response::new(pb::MemberHealthResponse {
            header,
            release: env!("CARGO_PKG_VERSION").to_owned(),
            raft_leader: status.leader.map_or(0, |leader| leader.0),
            committed: status.committed,
            applied: status.applied,
            db_bytes: db_bytes(&status) as u64,
            quota_bytes: status.quota_bytes,
            flushes,
            flush_us: micros(flush),
            progress: progress.iter().map(one).collect(),
            terms: terms.collect(),
        }))
    }
}
