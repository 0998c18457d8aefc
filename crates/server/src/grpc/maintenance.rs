//! Maintenance: status, alarms, hashes, snapshots, moving the raft leader.

use std::{
    pin::Pin,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use futures_util::Stream;
use tenure_api::{
    Alarm, AlarmKind, Failure, MemberId, Revision,
    wire::etcdserverpb::{
        self as pb, alarm_request::AlarmAction, downgrade_request::DowngradeAction,
    },
};
use tenure_replica::{Consistency, Operation, Read, Reply, auth::Need, command::Command};
use tokio::sync::Semaphore;
use tonic::{Response, Status};

use super::{
    ETCD_VERSION,
    blocking::BlockingPool,
    reply::{refuse, unexpected},
    stubs,
};
use crate::{
    admission::Admitted,
    backup::{self, Note},
    node::NodeHandle,
};

/// Backups that a member makes at the same time. Each holds a frozen state and a thread.
const BACKUPS_MAX: usize = 4;

/// Five pages, as etcd's.
const EMPTY_DB_BYTES: u64 = 5 * 4096;

pub(super) struct Maintenance {
    node: NodeHandle,
    backups: Arc<Semaphore>,
    hashes: BlockingPool,
}

impl Maintenance {
    pub(super) fn new(node: NodeHandle) -> Maintenance {
        let backups = Arc::new(Semaphore::new(BACKUPS_MAX));
        Maintenance { node, backups, hashes: BlockingPool::hashes() }
    }

    async fn alarms(
        &self,
        by: &Admitted,
    ) -> Result<(Option<pb::ResponseHeader>, Vec<Alarm>), Status> {
        let read = Operation::Read(Read::Alarms, Consistency::Linearizable);
        match self.node.open(self.node.ask(by, read).await)? {
            (header, Reply::Alarms(alarms)) => Ok((header, alarms)),
            (_, other) => Err(unexpected(&other)),
        }
    }

    /// Whether this principal has what is needed, by what this member knows: it may have no raft leader.
    async fn judge(&self, by: &Admitted, need: Need) -> Result<(), Status> {
        let read = Operation::Read(Read::Judged(need), Consistency::Serializable);
        self.node.open(self.node.ask(by, read).await).map(|_| ())
    }

    async fn change(
        &self,
        by: &Admitted,
        command: Command,
    ) -> Result<Option<pb::ResponseHeader>, Status> {
        Ok(self.node.open(self.node.ask(by, Operation::Write(command)).await)?.0)
    }
}

#[tonic::async_trait]
impl stubs::maintenance_server::Maintenance for Maintenance {
    async fn status(
        &self,
        request: tonic::Request<pb::StatusRequest>,
    ) -> Result<Response<pb::StatusResponse>, Status> {
        let (by, _) = self.node.admit_to_learner(request, |_| true)?;
        self.judge(&by, Need::User).await?;
        let status = self.node.status();
        let mut errors = Vec::new();
        if status.leader.is_none() {
            errors.push(Failure::NoLeader.text().to_owned());
        }
        errors.extend(status.alarms.iter().copied().map(alarm_text));
        Ok(Response::new(pb::StatusResponse {
            header: Some(self.node.header_now(&by)),
            version: ETCD_VERSION.to_owned(),
            db_size: db_bytes(&status),
            db_size_in_use: db_bytes(&status),
            leader: status.leader.map_or(0, |leader| leader.0),
            raft_index: status.committed,
            raft_applied_index: status.applied,
            raft_term: status.durable_term.0,
            is_learner: status.is_learner,
            errors,
            db_size_quota: status.quota_bytes as i64,
            ..Default::default()
        }))
    }

    /// The hash is reckoned on a frozen picture of the store, beside the core loop.
    async fn hash_kv(
        &self,
        request: tonic::Request<pb::HashKvRequest>,
    ) -> Result<Response<pb::HashKvResponse>, Status> {
        let (by, request) = self.node.admit(request)?;
        let revision = request.revision;
        let at = (revision > 0).then_some(Revision(revision));
        let read = Operation::Read(Read::Store, Consistency::Serializable);
        let (header, reply) = self.node.open(self.node.ask(&by, read).await)?;
        let Reply::Store(store) = reply else { return Err(unexpected(&reply)) };
        let hash = self.hashes.run(move || store.hash(at)).await.and_then(|hash| hash);
        let hash = hash.map_err(refuse)?;
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
        let (by, request) = self.node.admit(request)?;
        let to = MemberId(request.target_id);
        self.node.open(self.node.ask(&by, Operation::MoveLeader(to)).await)?;
        // Without a header, as in etcd.
        Ok(Response::new(pb::MoveLeaderResponse { header: None }))
    }

    async fn alarm(
        &self,
        request: tonic::Request<pb::AlarmRequest>,
    ) -> Result<Response<pb::AlarmResponse>, Status> {
        let (by, request) = self.node.admit(request)?;
        if request.action() != AlarmAction::Get {
            self.judge(&by, Need::Root).await?;
        }
        let (header, raised) = self.alarms(&by).await?;
        let meant = |alarm: &Alarm| {
            let kind = alarm_kind(request.alarm()).is_none_or(|kind| kind == alarm.kind);
            kind && (request.member_id == 0 || request.member_id == alarm.member.0)
        };
        let (header, alarms) = match request.action() {
            AlarmAction::Get => (header, raised.into_iter().filter(meant).collect()),
            AlarmAction::Activate => match alarm_kind(request.alarm()) {
                None => (header, vec![]),
                Some(kind) => {
                    let alarm = Alarm { member: MemberId(request.member_id), kind };
                    (self.change(&by, Command::RaiseAlarm(alarm)).await?, vec![alarm])
                }
            },
            AlarmAction::Deactivate => {
                let mut header = header;
                let lowered: Vec<Alarm> = raised.into_iter().filter(meant).collect();
                for alarm in &lowered {
                    header = self.change(&by, Command::LowerAlarm(*alarm)).await?;
                }
                (header, lowered)
            }
        };
        let alarms = alarms.into_iter().map(alarm_member).collect();
        Ok(Response::new(pb::AlarmResponse { header, alarms }))
    }

    /// There is nothing to defragment: what compaction frees is free.
    async fn defragment(
        &self,
        request: tonic::Request<pb::DefragmentRequest>,
    ) -> Result<Response<pb::DefragmentResponse>, Status> {
        let (by, _) = self.node.admit(request)?;
        self.judge(&by, Need::Root).await?;
        // Without a header, as in etcd.
        Ok(Response::new(pb::DefragmentResponse { header: None }))
    }

    /// The checksum of all that this member holds, leases and members too.
    async fn hash(
        &self,
        request: tonic::Request<pb::HashRequest>,
    ) -> Result<Response<pb::HashResponse>, Status> {
        let (by, _) = self.node.admit(request)?;
        let read = Operation::Read(Read::State, Consistency::Serializable);
        let (header, reply) = self.node.open(self.node.ask(&by, read).await)?;
        let Reply::State(frozen) = reply else { return Err(unexpected(&reply)) };
        let digest = self.hashes.run(move || frozen.state.digest()).await.map_err(refuse)?;
        Ok(Response::new(pb::HashResponse { header, hash: (digest ^ digest >> 32) as u32 }))
    }

    type SnapshotStream = Pin<Box<dyn Stream<Item = Result<pb::SnapshotResponse, Status>> + Send>>;

    /// What this member has, up to date or not, as in etcd, whose learners give it as well. A member that was found to
    /// differ from the others refuses: a backup is for the day when no other member is left to compare with.
    async fn snapshot(
        &self,
        request: tonic::Request<pb::SnapshotRequest>,
    ) -> Result<Response<Self::SnapshotStream>, Status> {
        let (by, _) = self.node.admit_to_learner(request, |_| true)?;
        let permit = self.backups.clone().try_acquire_owned();
        let permit = permit.map_err(|_| refuse(Failure::TooManyRequests))?;
        let read = Operation::Read(Read::State, Consistency::Serializable);
        let (header, reply) = self.node.open(self.node.ask(&by, read).await)?;
        let Reply::State(frozen) = reply else { return Err(unexpected(&reply)) };
        if frozen.state.is_corrupt(self.node.me) {
            return Err(refuse(Failure::Corrupt));
        }
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let note = Note {
            cluster_id: self.node.cluster,
            member_id: self.node.me,
            taken_at: since_1970.as_secs(),
        };
        let pieces = backup::stream(frozen, note, backup::IDLE_MAX, permit);
        let answers = futures_util::stream::unfold(pieces, move |mut pieces| async move {
            let answer = match pieces.next().await? {
                Ok(piece) => Ok(pb::SnapshotResponse {
                    header,
                    remaining_bytes: piece.remaining,
                    blob: piece.blob,
                    version: ETCD_VERSION.to_owned(),
                }),
                Err(backup::Stalled) => Err(stalled()),
            };
            Some((answer, pieces))
        });
        Ok(Response::new(Box::pin(answers)))
    }

    /// What is stored here has no older form that an older etcd could read: there is no way down.
    async fn downgrade(
        &self,
        request: tonic::Request<pb::DowngradeRequest>,
    ) -> Result<Response<pb::DowngradeResponse>, Status> {
        let (by, request) = self.node.admit(request)?;
        self.judge(&by, Need::Root).await?;
        Err(refuse(match request.action() {
            DowngradeAction::Cancel => Failure::NoDowngrade,
            DowngradeAction::Validate | DowngradeAction::Enable => {
                downgrade_refusal(&request.version)
            }
        }))
    }
}

/// The size of the data as clients see it. Of a fresh store it is that of etcd's empty file: where it is 0, some take the
/// member for one that has not come up.
pub(crate) fn db_bytes(status: &tenure_replica::Status) -> i64 {
    (EMPTY_DB_BYTES + status.store_bytes) as i64
}

fn stalled() -> Status {
    let secs = backup::IDLE_MAX.as_secs();
    Status::deadline_exceeded(format!("tenure: nothing of this backup was taken for {secs} s"))
}

/// As etcd, which goes down by one minor version only, and then what is true of us.
fn downgrade_refusal(version: &str) -> Failure {
    let parts: Option<Vec<u64>> = version.split('.').map(|part| part.parse().ok()).collect();
    match parts.as_deref() {
        Some([3, 4] | [3, 4, _]) => Failure::NotCapable,
        Some([_, _] | [_, _, _]) => Failure::BadDowngradeTarget,
        _ => Failure::BadDowngradeVersion,
    }
}

/// None stands for every kind.
fn alarm_kind(kind: pb::AlarmType) -> Option<AlarmKind> {
    match kind {
        pb::AlarmType::None => None,
        pb::AlarmType::Nospace => Some(AlarmKind::NoSpace),
        pb::AlarmType::Corrupt => Some(AlarmKind::Corrupt),
    }
}

fn alarm_member(alarm: Alarm) -> pb::AlarmMember {
    let kind = match alarm.kind {
        AlarmKind::NoSpace => pb::AlarmType::Nospace,
        AlarmKind::Corrupt => pb::AlarmType::Corrupt,
    };
    pb::AlarmMember { member_id: alarm.member.0, alarm: kind as i32 }
}

/// As etcd prints it among the errors of its status.
fn alarm_text(alarm: Alarm) -> String {
    let member = alarm_member(alarm);
    format!("memberID:{} alarm:{} ", member.member_id, member.alarm().as_str_name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_downgrade_is_refused_as_etcd_refuses_it() {
        assert_eq!(downgrade_refusal("3.4"), Failure::NotCapable);
        assert_eq!(downgrade_refusal("3.4.0"), Failure::NotCapable);
        assert_eq!(downgrade_refusal("3.3.0"), Failure::BadDowngradeTarget);
        assert_eq!(downgrade_refusal("3.5.0"), Failure::BadDowngradeTarget);
        assert_eq!(downgrade_refusal("old"), Failure::BadDowngradeVersion);
        assert_eq!(downgrade_refusal(""), Failure::BadDowngradeVersion);
    }
}
