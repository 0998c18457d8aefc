//! The leader, from an election's keys and their events.

use std::collections::BTreeMap;

use bytes::Bytes;
use tenure_api::wire::mvccpb::{Event, KeyValue, event::EventType};

use crate::FencingToken;
use crate::backend::observe::called;
use crate::backend::{Sight, Tenure};

/// The live keys of one election.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// By key; in it, the create revision and the value.
    keys: BTreeMap<Bytes, (i64, Bytes)>,
    /// What was told last.
    told: Option<Option<Tenure>>,
}

impl Candidates {
    /// Forgets everything and begins with these keys.
    pub(super) fn reset(&mut self, kvs: impl IntoIterator<Item = KeyValue>) {
        let entry = |kv: KeyValue| (kv.key, (kv.create_revision, kv.value));
        self.keys = kvs.into_iter().map(entry).collect();
    }

    /// Takes in what happened at one revision.
    pub(super) fn apply(&mut self, events: impl IntoIterator<Item = Event>) {
        for event in events {
            let delete = event.r#type == EventType::Delete as i32;
            let Some(kv) = event.kv else { continue };
            if delete {
                self.keys.remove(&kv.key);
            } else {
                self.keys.insert(kv.key, (kv.create_revision, kv.value));
            }
        }
    }

    /// What is to be told after it, if anything.
    pub(super) fn sight(&mut self) -> Option<Sight> {
        let leader = self.leader();
        if self.told.as_ref() == Some(&leader) {
            return None;
        }
        let before = self.told.replace(leader.clone()).flatten();
        Some(match leader {
            None => Sight::NoLeader,
            Some(leader) if before.is_some_and(|before| before.token == leader.token) => {
                Sight::Proclaims(leader)
            }
            Some(leader) => Sight::Leads(leader),
        })
    }

    /// The live key with the lowest create revision. Keys of one revision belong to one session's candidacies in other
    /// elections, or were restored; among those the key decides.
    fn leader(&self) -> Option<Tenure> {
        let first =
            self.keys.iter().min_by_key(|(key, (created, _))| (*created, (*key).clone()))?;
        let (key, (created, value)) = first;
        let token = FencingToken::from_revision(*created)?;
        let identity = called("", value, token);
        Some(Tenure { identity, token, value: value.to_vec(), key: key.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kv(key: &'static str, created: i64, value: &'static str) -> KeyValue {
        KeyValue {
            key: key.into(),
            value: value.into(),
            create_revision: created,
            ..Default::default()
        }
    }

    fn put(key: &'static str, created: i64, value: &'static str) -> Event {
        Event { r#type: EventType::Put as i32, kv: Some(kv(key, created, value)), prev_kv: None }
    }

    fn delete(key: &'static str) -> Event {
        Event { r#type: EventType::Delete as i32, kv: Some(kv(key, 0, "")), prev_kv: None }
    }

    fn leads(token: i64) -> impl Fn(Option<Sight>) -> bool {
        move |sight| matches!(sight, Some(Sight::Leads(leader)) if leader.token.get() == token)
    }

    #[test]
    fn etcd_sights_say_once_that_there_is_no_leader() {
        let mut candidates = Candidates::default();
        assert_eq!(candidates.sight(), Some(Sight::NoLeader));
        assert_eq!(candidates.sight(), None);
    }

    #[test]
    fn etcd_sights_take_the_lower_revision_as_leader() {
        let mut candidates = Candidates::default();
        candidates.apply([put("e/b", 9, "b"), put("e/a", 7, "a")]);
        assert!(leads(7)(candidates.sight()));
    }

    #[test]
    fn etcd_sights_follow_a_leader_that_goes_by_the_next_or_none() {
        let mut candidates = Candidates::default();
        candidates.reset([kv("e/a", 7, "a"), kv("e/b", 9, "b")]);
        assert!(leads(7)(candidates.sight()));
        candidates.apply([delete("e/a")]);
        assert!(leads(9)(candidates.sight()));
        candidates.apply([delete("e/b")]);
        assert_eq!(candidates.sight(), Some(Sight::NoLeader));
    }

    #[test]
    fn etcd_sights_take_a_key_created_again_as_another_tenure() {
        let mut candidates = Candidates::default();
        candidates.reset([kv("e/a", 7, "a")]);
        candidates.sight();
        candidates.apply([delete("e/a")]);
        candidates.apply([put("e/a", 9, "a")]);
        assert!(leads(9)(candidates.sight()), "though nobody looked in between");
    }

    #[test]
    fn etcd_sights_take_a_new_value_as_a_proclamation() {
        let mut candidates = Candidates::default();
        candidates.reset([kv("e/a", 7, "a")]);
        candidates.sight();
        candidates.apply([put("e/a", 7, "x")]);
        assert!(
            matches!(candidates.sight(), Some(Sight::Proclaims(leader)) if leader.value == b"x")
        );
        candidates.apply([put("e/b", 9, "b")]);
        assert_eq!(candidates.sight(), None);
        candidates.apply([delete("e/b")]);
        assert_eq!(candidates.sight(), None);
    }
}
