//! `--force-new-cluster`: one member that is left of a lost majority goes on alone.
//!
//! All entries of its log count as committed. Whether those at its end were, no member is left to say;
//! dropping them could lose writes that were acknowledged, keeping them cannot.
//!
//! What if the process dies on the way? First the directory gets the new cluster's id: from then on no
//! member of the old cluster talks to it. Then comes the snapshot that holds everything: the data, one
//! member, the jump of the revisions. Last come the notes that it is done. Before them, a start with the
//! flag begins again: revisions jump twice, which does no harm. One without it refuses. (With
//! `--initial-cluster-state existing` and a snapshot it does not: it is the new cluster if it has the new
//! one, and finds no member to agree with if it has an old one.)
//! After them, the flag does nothing: it may be forgotten in a unit file while the cluster grows
//! again. A start without it forgets that, so that it can be used another time.

use tenure_api::{ClusterId, Member};
use tenure_replica::{
    HardState, Moment, Replica, Snapshot, SnapshotMark,
    new_cluster::{REVISION_JUMP_MIN, first_revision},
};
use tracing::warn;

use super::{BackupError, revision_by_clock};
use crate::{
    config::{Config, hash},
    disk::{
        DataDir, Identity, NewCluster, RecoveredLog, SnapshotWriter,
        snapshot::{self, LoadError},
    },
};

/// Makes this member's data a cluster of its own, unless that was done before.
pub(crate) fn force_new_cluster(config: &Config) -> Result<(), BackupError> {
    let nothing = || BackupError::NothingSurvived { dir: config.data_dir.clone() };
    // Opening would make a directory that is not there.
    if !config.data_dir.join("identity").exists() {
        return Err(nothing());
    }
    let (mut disk, recovered) = DataDir::open(&config.data_dir, config.wal_dir.as_deref())?;
    let identity = recovered.identity.ok_or_else(nothing)?;
    // The start that follows refuses, and finds the directory as it was.
    if recovered.removed {
        return Ok(());
    }
    if recovered.forced.is_some_and(|known| known.cluster_id == identity.cluster_id) {
        warn!(
            cluster = %identity.cluster_id,
            "--force-new-cluster has no effect: it was done at an earlier start; remove the flag"
        );
        return Ok(());
    }
    let (snapshot, lost) = alone(config, identity, recovered)?;
    let cluster_id = new_id(identity, &snapshot.mark);
    warn!(
        before = %identity.cluster_id, cluster = %cluster_id, member = %identity.member_id,
        revision = snapshot.state.store.revision().0, keys = snapshot.state.store.len(),
        leases_dropped = lost.leases, keys_dropped = lost.keys,
        "FORCING A NEW CLUSTER of this member alone: the others must never come back with their data"
    );
    disk.move_to(cluster_id)?;
    let mut writer = SnapshotWriter::create(&disk.snapshots(), snapshot.mark.clone())?;
    for chunk in snapshot.chunks() {
        writer.chunk(&chunk)?;
    }
    writer.finish()?;
    let new_cluster = NewCluster { before: Some(identity.cluster_id), cluster_id };
    disk.mark_new_cluster(new_cluster)?;
    disk.mark_forced(new_cluster)?;
    Ok(())
}

struct Lost {
    leases: usize,
    keys: usize,
}

/// The state in which this member goes on alone, and where in the log: just behind its end.
fn alone(
    config: &Config,
    identity: Identity,
    recovered: RecoveredLog,
) -> Result<(Snapshot, Lost), BackupError> {
    let me = identity.member_id;
    let replica = replayed(config, identity, recovered)?;
    let (old, status) = (replica.state(), replica.status());
    let last = old.store.revision();
    let first = first_revision(last, REVISION_JUMP_MIN, Some(revision_by_clock()))
        .ok_or(BackupError::RevisionsEnd { last: last.0, jump: REVISION_JUMP_MIN })?;
    let member = match old.members.get(&me) {
        Some(known) => Member { is_learner: false, ..known.clone() },
        None => Member {
            id: me,
            name: config.name.clone(),
            peer_urls: config.initial_advertise_peer_urls.clone(),
            client_urls: vec![],
            is_learner: false,
        },
    };
    let behind = (status.last_index, status.term);
    let snapshot = Snapshot::new_cluster(old, behind, vec![member], first);
    let keys = old.store.len() - snapshot.state.store.len();
    Ok((snapshot, Lost { leases: old.leases.len(), keys }))
}

/// The member with its whole log applied. It gets no messages and time stands still.
fn replayed(
    config: &Config,
    identity: Identity,
    recovered: RecoveredLog,
) -> Result<Replica, BackupError> {
    let dir = || config.data_dir.clone();
    let snapshot = match &recovered.snapshot {
        Some(saved) => Some(snapshot::load(&saved.path).map_err(|error| match error {
            LoadError::Disk(error) => BackupError::Disk(error),
            LoadError::Content { path, cause } => BackupError::Content { file: path, cause },
        })?),
        None => None,
    };
    // Without a snapshot the log begins with the members that founded the cluster.
    let told = config.members_as_known_by(identity.member_id);
    let founders = match recovered.founders {
        Some(founders) => founders,
        None if snapshot.is_some() || config.cluster_id_of(&told) == identity.cluster_id => told,
        None => return Err(BackupError::UnknownPast { dir: dir() }),
    };
    let start = snapshot.as_ref().map_or(0, |(mark, _)| mark.index);
    let last = recovered.entries.last().map_or(start, |entry| entry.index);
    let settings = tenure_replica::ReplicaConfig::new(identity.member_id, founders);
    let recovered = tenure_replica::Recovered {
        boot: recovered.boot,
        snapshot,
        hard_state: HardState { commit: last, ..recovered.hard_state },
        entries: recovered.entries,
    };
    let mut replica = Replica::new(Moment::ZERO, settings, recovered);
    loop {
        let before = replica.status().applied;
        if before >= last {
            return Ok(replica);
        }
        let effects = replica.handle(Moment::ZERO, []);
        if let Some(fatal) = effects.fatal {
            return Err(BackupError::Unreadable { dir: dir(), what: fatal.to_string() });
        }
        if replica.status().applied == before {
            let what = format!("it stops at entry {before} of {last}");
            return Err(BackupError::Unreadable { dir: dir(), what });
        }
    }
}

fn new_id(identity: Identity, mark: &SnapshotMark) -> ClusterId {
    let parts = [
        identity.cluster_id.to_string(),
        identity.member_id.to_string(),
        format!("forced {} {}", mark.index, mark.term.0),
    ];
    let id = ClusterId(hash(parts.iter().map(String::as_str)));
    if id == identity.cluster_id { ClusterId(id.0 ^ 1) } else { id }
}
