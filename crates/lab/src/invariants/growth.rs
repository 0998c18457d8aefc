//! Revisions and terms only grow at every member, and a key's create revision (its fencing token)
//! only grows from one owner to the next.

use std::collections::BTreeMap;

use bytes::Bytes;
use tenure_api::{EventKind, Revision, Term};
use tenure_replica::{Status, mvcc::Change};

use super::must;
use crate::{cluster::member::MemberNumber, engine::RunCounts};

pub const NAME: &str = "growth";

#[derive(Default)]
pub struct Growth {
    members: BTreeMap<(MemberNumber, u64), (Term, Revision)>,
    tokens: BTreeMap<Bytes, Revision>,
}

impl Growth {
    pub fn check_member(&mut self, member: (MemberNumber, u64), status: &Status) {
        let now = (status.term, status.revision);
        let before = self.members.insert(member, now).unwrap_or_default();
        let grows = before.0 <= now.0 && before.1 <= now.1;
        must!(grows, "member {} went back from {before:?} to {now:?}", member.0);
    }

    pub fn check_change(&mut self, change: &Change, counts: &mut RunCounts) {
        for event in change.events.iter().filter(|event| event.kind == EventKind::Put) {
            counts.count(NAME);
            let token = event.kv.create_revision;
            let before = self.tokens.insert(event.kv.key.clone(), token).unwrap_or_default();
            must!(before <= token, "the token of {:?} fell to {token}", event.kv.key);
        }
    }
}
