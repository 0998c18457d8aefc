//! What etcd keeps in its database: revisions, leases, and how far it has compacted.
//!
//! | bucket | key | value |
//! |---|---|---|
//! | `key` | main revision (8 bytes), `_`, sub revision (8 bytes), and `t` if it is a deletion | `mvccpb.KeyValue` |
//! | `lease` | lease id (8 bytes) | `leasepb.Lease` |
//! | `meta` | `scheduledCompactRev`, `finishedCompactRev` | a revision as above |
//! | `auth` | `authEnabled` | 1 if it is |
//!
//! Numbers in keys are big endian, so that their order is the order of time. The events of one
//! transaction share a main revision, and the sub revision counts them.

use bytes::Bytes;
use prost::Message;
use tenure_api::{KeyValue, LeaseId, Revision, Span, wire::mvccpb};
use tenure_replica::{
    lease::Leases,
    mvcc::{Retelling, Store},
    new_cluster,
};

use super::{
    ImportError,
    bbolt::{Bucket, Damage, Item},
    file::SnapshotFile,
};

const REVISION_BYTES: usize = 17;
const SEPARATOR: u8 = b'_';
const DELETED: &[u8] = b"t";
/// No cluster gets here by counting; and from here on there is room to count.
const REVISION_MAX: i64 = 1 << 62;

/// What was in a snapshot.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) store: Store,
    pub(super) leases: Leases,
    /// Revisions read, those included that compaction had not swept yet.
    pub(super) versions: u64,
    /// Whether clients had to authenticate.
    pub(super) auth_enabled: bool,
}

#[derive(Clone, PartialEq, Message)]
struct LeaseRecord {
    #[prost(int64, tag = "1")]
    id: i64,
    #[prost(int64, tag = "2")]
    ttl: i64,
    /// Only with lease checkpoints; the new cluster starts every lease anew.
    #[prost(int64, tag = "3")]
    remaining_ttl: i64,
}

/// Reads everything. Revisions go on `jump` further than they had come. `progress` is told how many bytes were
/// read, of how many.
pub(super) fn read(
    file: &SnapshotFile,
    jump: i64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Content, ImportError> {
    let mut compacted = compacted(file)?;
    let (story, newest, versions) = revisions(file, progress)?;
    // A compaction that swept the newest revisions leaves nothing that shows how far it had come.
    let mut revision = newest.max(compacted).max(Revision::FIRST);
    if jump > 0 {
        // What happened between here and there is not known. A client that asks for it must be told so, and not
        // that nothing happened.
        revision = after(revision, jump)?;
        compacted = revision;
    }
    let store = story
        .finish(revision, compacted)
        .map_err(|cause| file.error(Damage { offset: 0, what: cause.to_string() }))?;
    let leases = leases(file, &store)?;
    Ok(Content { store, leases, versions, auth_enabled: auth_enabled(file)? })
}

fn after(last: Revision, jump: i64) -> Result<Revision, ImportError> {
    let first =
        last.0.checked_add(jump).map(Revision).filter(|first| *first <= new_cluster::REVISION_MAX);
    first.ok_or(ImportError::RevisionsEnd { last: last.0, jump })
}

/// A compaction that was begun is a promise already, even if it was not finished.
fn compacted(file: &SnapshotFile) -> Result<Revision, ImportError> {
    let mut compacted = Revision(0);
    walk(file, b"meta", &mut |item| {
        if matches!(item.key, b"scheduledCompactRev" | b"finishedCompactRev") {
            let (main, _) = revision_of(item.value)
                .ok_or_else(|| damage(&item, "the compacted revision is none"))?;
            compacted = compacted.max(main);
        }
        Ok(())
    })?;
    Ok(compacted)
}

fn revisions(
    file: &SnapshotFile,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Retelling, Revision, u64), ImportError> {
    let Some(bucket) = find(file, b"key")? else {
        let what = "there is no bucket of keys: it is a bbolt file, but not etcd's".into();
        return Err(file.error(Damage { offset: 0, what }));
    };
    let mut story = Retelling::new();
    let mut newest = Revision(0);
    let (mut versions, mut bytes) = (0, 0);
    let of = file.hashed + file.bytes;
    let visit = &mut |item: Item<'_>| {
        let version = version_of(&item)?;
        newest = version.mod_revision;
        story.tell(version).map_err(|cause| damage(&item, &cause.to_string()))?;
        versions += 1;
        bytes += (item.key.len() + item.value.len()) as u64;
        progress(file.hashed + bytes, of);
        Ok(())
    };
    file.db.walk(&bucket, visit).map_err(|stop| file.error(stop))?;
    // The rest of the file is pages: their heads, free ones, and those that lead to others.
    progress(of, of);
    Ok((story, newest, versions))
}

fn version_of(item: &Item<'_>) -> Result<KeyValue, Damage> {
    let Some((revision, suffix)) = revision_of(item.key) else {
        return Err(damage(item, "what should be a revision is none"));
    };
    let found = mvccpb::KeyValue::decode(item.value)
        .map_err(|cause| damage(item, &format!("revision {revision} cannot be read: {cause}")))?;
    if found.key.is_empty() {
        return Err(damage(item, &format!("revision {revision} has no key")));
    }
    match suffix {
        [] => {}
        DELETED => return Ok(KeyValue::tombstone(found.key, revision)),
        _ => return Err(damage(item, &format!("revision {revision} has an unknown mark"))),
    }
    if found.mod_revision != revision.0
        || found.version < 1
        || !(1..=found.mod_revision).contains(&found.create_revision)
    {
        return Err(damage(
            item,
            &format!("the numbers of revision {revision} contradict each other"),
        ));
    }
    Ok(KeyValue {
        key: found.key,
        value: found.value,
        create_revision: Revision(found.create_revision),
        mod_revision: revision,
        version: found.version,
        lease: LeaseId::from_wire(found.lease),
    })
}

/// The main revision, and what follows the whole.
fn revision_of(bytes: &[u8]) -> Option<(Revision, &[u8])> {
    let (revision, rest) = bytes.split_at_checked(REVISION_BYTES)?;
    let main = i64::from_be_bytes(*revision.first_chunk()?);
    let sound = revision[8] == SEPARATOR && (1..=REVISION_MAX).contains(&main);
    sound.then_some((Revision(main), rest))
}

/// Leases with their time to live as granted, and the keys that hang on them now.
fn leases(file: &SnapshotFile, store: &Store) -> Result<Leases, ImportError> {
    let mut leases = Leases::default();
    walk(file, b"lease", &mut |item| {
        let lease = LeaseRecord::decode(item.value)
            .map_err(|cause| damage(&item, &format!("a lease cannot be read: {cause}")))?;
        if item.key != lease.id.to_be_bytes() {
            return Err(damage(&item, &format!("lease {:x} lies under another's key", lease.id)));
        }
        leases
            .grant(LeaseId(lease.id), lease.ttl, super::MARK_INDEX)
            .map_err(|failure| damage(&item, failure.text()))?;
        Ok(())
    })?;
    for version in store.live_in(&Span::From(Bytes::new())) {
        if let Some(lease) = version.lease {
            leases.attach(lease, version.key.clone());
        }
    }
    Ok(leases)
}

fn auth_enabled(file: &SnapshotFile) -> Result<bool, ImportError> {
    let mut enabled = false;
    walk(file, b"auth", &mut |item| {
        enabled |= item.key == b"authEnabled" && item.value == [1];
        Ok(())
    })?;
    Ok(enabled)
}

fn walk(
    file: &SnapshotFile,
    bucket: &[u8],
    visit: &mut dyn FnMut(Item<'_>) -> Result<(), Damage>,
) -> Result<(), ImportError> {
    let Some(bucket) = find(file, bucket)? else { return Ok(()) };
    file.db.walk(&bucket, visit).map_err(|stop| file.error(stop))
}

fn find(file: &SnapshotFile, bucket: &[u8]) -> Result<Option<Bucket>, ImportError> {
    file.db.bucket(bucket).map_err(|stop| file.error(stop))
}

fn damage(item: &Item<'_>, what: &str) -> Damage {
    Damage { offset: item.offset, what: what.to_owned() }
}
