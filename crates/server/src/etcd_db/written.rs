//! A state as a file that etcd takes.
//!
//! The buckets are those of etcd 3.5, which makes those that are missing; but its tools look for some. Alarms stay out: they
//! belong to members. So do origins and the like, which are in the bucket of [`ours`]. `members` are for people: a restore
//! writes them anew.

use std::{cell::RefCell, iter};

use crc32fast::Hasher;
use prost::Message;
use serde_json::json;
use tenure_api::{KeyValue, LeaseId, Member, wire::mvccpb};
use tenure_replica::{Snapshot, codec::Codec, mvcc::OrderedVersions};

use super::{
    bbolt::{Plan, Writer},
    content::{LeaseRecord, sum},
    ours, revision,
};

/// The cluster version of the etcd whose format this is.
const CLUSTER_VERSION: &[u8] = b"3.5.0";
/// Versions that are planned without a pause.
const PLANNED_MAX: usize = 4000;

type Item = (Vec<u8>, Vec<u8>);

/// A file that was planned, and can be written.
#[derive(Debug)]
pub(crate) struct Written<'a> {
    buckets: Vec<(&'static [u8], Items)>,
    source: Source<'a>,
    writer: Writer,
}

/// What is in a bucket.
#[derive(Debug)]
enum Items {
    /// What fits in memory anyway.
    Few(Vec<Item>),
    Versions,
    Leases,
    Ours,
}

#[derive(Debug)]
struct Source<'a> {
    snapshot: &'a Snapshot,
    versions: OrderedVersions<'a>,
    note: Vec<u8>,
}

impl<'a> Written<'a> {
    /// Assigns pages to everything, for which it looks at every version once. `pause` is called now and then.
    pub(crate) fn plan(snapshot: &'a Snapshot, note: Vec<u8>, pause: &mut dyn FnMut()) -> Self {
        let source = Source { snapshot, versions: snapshot.state.store.ordered_versions(), note };
        pause();
        let buckets = buckets(snapshot);
        let mut plan = Plan::new();
        for (name, items) in &buckets {
            match items {
                Items::Few(items) => {
                    plan.bucket(name, items.iter().map(|(key, value)| (key, value.len())));
                }
                Items::Versions => {
                    let mut planned = 0;
                    let versions = source.versions().inspect(|_| {
                        planned += 1;
                        if planned % PLANNED_MAX == 0 {
                            pause();
                        }
                    });
                    plan.bucket(name, versions.map(|(key, record)| (key, record.encoded_len())));
                }
                Items::Leases => {
                    plan.bucket(name, source.leases().map(|(key, value)| (key, value.len())));
                }
                Items::Ours => {
                    let sealed = source.ours().map(|(key, value)| (key, value.len()));
                    let seal = (ours::SEAL.to_vec(), size_of::<u32>());
                    plan.bucket(name, sealed.chain(iter::once(seal)));
                }
            }
        }
        Written { buckets, source, writer: plan.finish() }
    }

    /// The length of the whole file.
    pub(crate) fn bytes(&self) -> u64 {
        self.writer.bytes()
    }

    /// Writes the file from its first page to its last.
    pub(crate) fn write<E>(self, send: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let Written { buckets, source, mut writer } = self;
        send(&writer.begin())?;
        let checksum = RefCell::new(Hasher::new());
        let summed = |item: Item| {
            sum(&mut checksum.borrow_mut(), &item.0, &item.1);
            item
        };
        for (name, items) in buckets {
            match items {
                Items::Few(items) => writer.bucket(name, items.into_iter(), send)?,
                Items::Versions => {
                    let versions = source.versions();
                    let items = versions.map(|(key, record)| (key, record.encode_to_vec()));
                    writer.bucket(name, items.map(summed), send)?;
                }
                Items::Leases => writer.bucket(name, source.leases(), send)?,
                Items::Ours => {
                    let seal = || {
                        let seal = checksum.borrow().clone().finalize();
                        (ours::SEAL.to_vec(), seal.to_le_bytes().to_vec())
                    };
                    let items = source.ours().map(summed).chain(iter::once_with(seal));
                    writer.bucket(name, items, send)?;
                }
            }
        }
        send(&writer.end())
    }
}

/// In the order of their names.
fn buckets(snapshot: &Snapshot) -> Vec<(&'static [u8], Items)> {
    let none = || Items::Few(vec![]);
    let version = (b"clusterVersion".to_vec(), CLUSTER_VERSION.to_vec());
    vec![
        (b"alarm", none()),
        (b"auth", none()),
        (b"authRoles", none()),
        (b"authUsers", none()),
        (b"cluster", Items::Few(vec![version])),
        (b"key", Items::Versions),
        (b"lease", Items::Leases),
        (b"members", Items::Few(members(snapshot))),
        (b"members_removed", none()),
        (b"meta", Items::Few(meta(snapshot))),
        (ours::BUCKET, Items::Ours),
    ]
}

fn meta(snapshot: &Snapshot) -> Vec<Item> {
    let mark = &snapshot.mark;
    // A restore sets the first two and the last anew; newer tools look whether they are there.
    let voters: Vec<u64> = mark.voters.iter().map(|voter| voter.0).collect();
    let conf_state = json!({ "voters": voters, "auto_leave": false });
    let mut meta = vec![
        (b"confState".to_vec(), conf_state.to_string().into_bytes()),
        (b"consistent_index".to_vec(), mark.index.to_be_bytes().to_vec()),
    ];
    let compacted = snapshot.state.store.compacted();
    if compacted.0 > 0 {
        for name in [&b"finishedCompactRev"[..], b"scheduledCompactRev"] {
            meta.push((name.to_vec(), revision::encode(compacted, 0, false)));
        }
    }
    meta.push((b"term".to_vec(), mark.term.0.to_be_bytes().to_vec()));
    meta
}

fn members(snapshot: &Snapshot) -> Vec<Item> {
    let record = |member: &Member| {
        let value = json!({
            "id": member.id.0,
            "peerURLs": member.peer_urls,
            "isLearner": member.is_learner,
            "name": member.name,
            "clientURLs": member.client_urls,
        });
        (format!("{:x}", member.id.0).into_bytes(), value.to_string().into_bytes())
    };
    let mut members: Vec<Item> = snapshot.state.members.values().map(record).collect();
    members.sort();
    members
}

impl Source<'_> {
    fn versions(&self) -> impl Iterator<Item = (Vec<u8>, mvccpb::KeyValue)> {
        self.versions.iter().map(|(sub, version)| {
            let key = revision::encode(version.mod_revision, sub, version.is_tombstone());
            (key, record(version))
        })
    }

    fn leases(&self) -> impl Iterator<Item = Item> {
        let leases = &self.snapshot.state.leases;
        // As bytes, negative numbers come last.
        let natural = leases.iter().filter(|(id, _)| id.0 >= 0);
        let negative = leases.iter().filter(|(id, _)| id.0 < 0);
        natural.chain(negative).map(|(LeaseId(id), lease)| {
            let record = LeaseRecord { id, ttl: lease.ttl_secs, remaining_ttl: 0 };
            (id.to_be_bytes().to_vec(), record.encode_to_vec())
        })
    }

    /// All but the seal.
    fn ours(&self) -> impl Iterator<Item = Item> {
        let chunks = self.snapshot.chunks_beside_store().zip(0_u32..);
        let chunks = chunks.map(|(chunk, at)| ([ours::CHUNK, &at.to_be_bytes()].concat(), chunk));
        let rest = [
            (ours::FORMAT, ours::FORMAT_1.to_vec()),
            (ours::MARK, self.snapshot.mark.to_bytes()),
            (ours::NOTE, self.note.clone()),
        ];
        chunks.chain(rest.map(|(key, value)| (key.to_vec(), value)))
    }
}

/// Of a deletion etcd keeps the key alone.
fn record(version: &KeyValue) -> mvccpb::KeyValue {
    match version.is_tombstone() {
        true => mvccpb::KeyValue { key: version.key.clone(), ..Default::default() },
        false => version.into(),
    }
}
