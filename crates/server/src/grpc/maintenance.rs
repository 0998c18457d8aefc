//! Maintenance: status, hashes, moving the raft leader. Snapshots, alarms and the rest come later.

use std::pin::Pin;

use futures_util::Stream;
use tenure_api::{
    Failure, MemberId, Revision,
    wire::etcdserverpb::{self as pb, alarm_request::AlarmAction},
};
use tenure_replica::{Consistency, Read, Reply, Request};
use tonic::{Response, Status};

use super::{
    ETCD_VERSION,
    reply::{refuse, unexpected},
    stubs,
};
use crate::node::{Door, Stamp};

pub(super) struct Maintenance {
    door: Door,
}

impl Maintenance {
    pub(super) fn new(door: Door) -> Maintenance {
        Maintenance { door }
    }

    fn header_now(&self) -> Option<pb::ResponseHeader> {
        let status = self.door.status();
        Some(self.door.header(Stamp { revision: status.revision, term: status.term }))
    }
}

fn not_yet(what: &str) -> Status {
    Status::unimplemented(format!("tenure: {what} is not served yet"))
}

#[tonic::async_trait]
impl stubs::maintenance_server::Maintenance for Maintenance {
    async fn status(
        &self,
        request: tonic::Request<pb::StatusRequest>,
    ) -> Result<Response<pb::StatusResponse>, Status> {
        self.door.admit_to_learner(request.metadata())?;
        let status = self.door.status();
        let mut errors = Vec::new();
        if status.leader.is_none() {
            errors.push(Failure::NoLeader.text().to_owned());
        }
        Ok(Response::new(pb::StatusResponse {
            header: self.header_now(),
            version: ETCD_VERSION.to_owned(),
            db_size: status.store_bytes as i64,
            db_size_in_use: status.store_bytes as i64,
            leader: status.leader.map_or(0, |leader| leader.0),
            raft_index: status.committed,
            raft_applied_index: status.applied,
            raft_term: status.term.0,
            is_learner: status.is_learner,
            errors,
            ..Default::default()
        }))
    }

    /// The hash is reckoned on a frozen picture of the store, beside the core loop.
    async fn hash_kv(
        &self,
        request: tonic::Request<pb::HashKvRequest>,
    ) -> Result<Response<pb::HashKvResponse>, Status> {
        self.door.admit(request.metadata())?;
        let revision = request.into_inner().revision;
        let at = (revision > 0).then_some(Revision(revision));
        let read = Request::Read(Read::Store, Consistency::Serializable);
        let (header, reply) = self.door.open(self.door.ask(read).await)?;
        let Reply::Store(store) = reply else { return Err(unexpected(&reply)) };
        let hash = tokio::task::spawn_blocking(move || store.hash(at))
            .await
            .map_err(|_| refuse(Failure::Stopped))?
            .map_err(refuse)?;
        Ok(Response::new(pb::HashKvResponse {
            header,
            hash: hash.hash,
            compact_revision: hash.compact_revision.0,
            hash_revision: hash.hash_revision.0,
        }))
    }

    async fn move_leader(
        &self,
        request: tonic::Request<pb::MoveLeaderRequest>,
    ) -> Result<Response<pb::MoveLeaderResponse>, Status> {
        self.door.admit(request.metadata())?;
        let to = MemberId(request.into_inner().target_id);
        let (header, _) = self.door.open(self.door.ask(Request::MoveLeader(to)).await)?;
        Ok(Response::new(pb::MoveLeaderResponse { header }))
    }

    /// There are no alarms yet; asking for them is part of every health check.
    async fn alarm(
        &self,
        request: tonic::Request<pb::AlarmRequest>,
    ) -> Result<Response<pb::AlarmResponse>, Status> {
        match request.into_inner().action() {
            AlarmAction::Get => {
                Ok(Response::new(pb::AlarmResponse { header: self.header_now(), alarms: vec![] }))
            }
            AlarmAction::Activate | AlarmAction::Deactivate => Err(not_yet("raising alarms")),
        }
    }

    async fn defragment(
        &self,
        _: tonic::Request<pb::DefragmentRequest>,
    ) -> Result<Response<pb::DefragmentResponse>, Status> {
        Err(not_yet("Defragment"))
    }

    async fn hash(
        &self,
        _: tonic::Request<pb::HashRequest>,
    ) -> Result<Response<pb::HashResponse>, Status> {
        Err(not_yet("Hash"))
    }

    type SnapshotStream = Pin<Box<dyn Stream<Item = Result<pb::SnapshotResponse, Status>> + Send>>;

    async fn snapshot(
        &self,
        _: tonic::Request<pb::SnapshotRequest>,
    ) -> Result<Response<Self::SnapshotStream>, Status> {
        Err(not_yet("Snapshot"))
    }

    async fn downgrade(
        &self,
        _: tonic::Request<pb::DowngradeRequest>,
    ) -> Result<Response<pb::DowngradeResponse>, Status> {
        Err(not_yet("Downgrade"))
    }
}
