//! At most one writer is effective: under each name no guarded write is taken after one with a higher token, whatever
//! pauses, clock drift and restarts there are.

use std::collections::BTreeMap;

use bytes::Bytes;
use tenure_api::EventKind;
use tenure_replica::mvcc::Change;

use super::must;
use crate::engine::RunCounts;

pub const NAME: &str = "one_writer";

/// The prefix of the keys of guarded writes, before the election's name. Their value is the writer's token.
pub const GUARDED: &str = "guarded/";

#[derive(Default)]
pub struct OneWriter {
    newest: BTreeMap<Bytes, i64>,
}

impl OneWriter {
    pub fn check(&mut self, change: &Change, counts: &mut RunCounts) {
        for event in change.events.iter().filter(|event| event.kind == EventKind::Put) {
            if !event.kv.key.starts_with(GUARDED.as_bytes()) {
                continue;
            }
            counts.count(NAME);
            let token =
                String::from_utf8_lossy(&event.kv.value).parse().expect("a token is written");
            let newest = self.newest.insert(event.kv.key.clone(), token).unwrap_or(0);
            let key = &event.kv.key;
            must!(newest <= token, "{key:?} was written with token {token}, after {newest}");
        }
    }
}
