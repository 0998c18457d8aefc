//! What etcd keeps in its database: revisions, leases, and how far it has compacted.
//!
//! | bucket | key | value |
//! |---|---|---|
//! | `key` | a revision, see `revision` | `mvccpb.KeyValue` |
//! | `lease` | lease id (8 bytes, big endian) | `leasepb.Lease` |
//! | `meta` | `scheduledCompactRev`, `finishedCompactRev` | a revision |
//! | `auth` | `authEnabled` | 1 if it is |

use bytes::Bytes;
use crc32fast::Hasher;
use prost::Message;
use tenure_api::{KeyValue, LeaseId, Revision, Span, wire::mvccpb};
use tenure_replica::{
    LogIndex,
    lease::Leases,
    mvcc::{Retelling, Store},
};

use super::{
    bbolt::{Damage, Db, Item, Stop},
    revision::{self, DELETED},
};

/// How much is read before progress is told again: what is told may take a rest each time.
const PROGRESS_BYTES: u64 = 256 << 10;

/// The keys of a database with all their revisions, and what else must be known of it.
#[derive(Debug)]
pub(crate) struct Content {
    story: Retelling,
    /// The revision of the last change.
    pub(crate) revision: Revision,
    /// The earliest revision that can be read; 0 if nothing was ever compacted.
    pub(crate) compacted: Revision,
    /// Revisions read, those included that compaction had not swept yet.
    pub(crate) versions: u64,
    /// Whether clients had to authenticate.
    pub(crate) auth_enabled: bool,
    /// Of everything in the bucket of keys.
    pub(super) checksum: Hasher,
}

/// `leasepb.Lease`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseRecord {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
    #[prost(int64, tag = "2")]
    pub(super) ttl: i64,
    /// Only with lease checkpoints; the new cluster starts every lease anew.
    #[prost(int64, tag = "3")]
    pub(super) remaining_ttl: i64,
}

/// Reads everything but the leases. `progress` is told how many bytes of keys and values were read.
pub(crate) fn read(db: &Db, progress: &mut dyn FnMut(u64)) -> Result<Content, Stop> {
    let compacted = compacted(db)?;
    let auth_enabled = auth_enabled(db)?;
    let Some(bucket) = db.bucket(b"key")? else {
        let what = "there is no bucket of keys: it is a bbolt file, but not etcd's".into();
        return Err(Damage { offset: 0, what }.into());
    };
    let mut story = Retelling::new();
    // A compaction that swept the newest revisions leaves nothing that shows how far it had come.
    let mut revision = compacted.max(Revision::FIRST);
    let (mut versions, mut bytes, mut told, mut checksum) = (0, 0, 0, Hasher::new());
    db.walk(&bucket, &mut |item| {
        let version = version_of(&item)?;
        revision = revision.max(version.mod_revision);
        story.tell(version).map_err(|cause| damage(&item, &cause.to_string()))?;
        versions += 1;
        bytes += (item.key.len() + item.value.len()) as u64;
        sum(&mut checksum, item.key, item.value);
        if bytes >= told + PROGRESS_BYTES {
            told = bytes;
            progress(bytes);
        }
        Ok(())
    })?;
    Ok(Content { story, revision, compacted, versions, auth_enabled, checksum })
}

/// Adds an item to a checksum, such that no two lists of items are the same bytes.
pub(super) fn sum(checksum: &mut Hasher, key: &[u8], value: &[u8]) {
    checksum.update(&(key.len() as u32).to_le_bytes());
    checksum.update(&(value.len() as u32).to_le_bytes());
    checksum.update(key);
    checksum.update(value);
}

impl Content {
    /// The store as it was, at its revision.
    pub(crate) fn store(self) -> Result<Store, Damage> {
        let (revision, compacted) = (self.revision, self.compacted);
        self.store_at(revision, compacted)
    }

    /// The store, which has come to `revision` and is compacted at `compacted`.
    pub(crate) fn store_at(self, revision: Revision, compacted: Revision) -> Result<Store, Damage> {
        let told = self.story.finish(revision, compacted);
        told.map_err(|cause| Damage { offset: 0, what: cause.to_string() })
    }
}

/// A compaction that was begun is a promise already, even if it was not finished.
fn compacted(db: &Db) -> Result<Revision, Stop> {
    let mut compacted = Revision(0);
    db.walk_named(b"meta", &mut |item| {
        if matches!(item.key, b"scheduledCompactRev" | b"finishedCompactRev") {
            let (main, _) = revision::decode(item.value)
                .ok_or_else(|| damage(&item, "the compacted revision is none"))?;
            compacted = compacted.max(main);
        }
        Ok(())
    })?;
    Ok(compacted)
}

fn version_of(item: &Item<'_>) -> Result<KeyValue, Damage> {
    let Some((revision, suffix)) = revision::decode(item.key) else {
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

/// Leases with their time to live as granted, and the keys that hang on them now. They count as granted at this index.
pub(crate) fn leases(db: &Db, store: &Store, at: LogIndex) -> Result<Leases, Stop> {
    let mut leases = Leases::default();
    db.walk_named(b"lease", &mut |item| {
        let lease = LeaseRecord::decode(item.value)
            .map_err(|cause| damage(&item, &format!("a lease cannot be read: {cause}")))?;
        if item.key != lease.id.to_be_bytes() {
            return Err(damage(&item, &format!("lease {:x} lies under another's key", lease.id)));
        }
        leases
            .grant(LeaseId(lease.id), lease.ttl, at)
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

fn auth_enabled(db: &Db) -> Result<bool, Stop> {
    let mut enabled = false;
    db.walk_named(b"auth", &mut |item| {
        enabled |= item.key == b"authEnabled" && item.value == [1];
        Ok(())
    })?;
    Ok(enabled)
}

pub(super) fn damage(item: &Item<'_>, what: &str) -> Damage {
    Damage { offset: item.offset, what: what.to_owned() }
}
