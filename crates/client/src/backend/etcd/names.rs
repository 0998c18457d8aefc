//! The names that a session is a candidate for: each at most once.
//!
//! A session's key in an election has only one name, so two candidacies there would share one key. A candidacy that is
//! being left still has its key until the server has confirmed; the next one for the same name waits for that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;

use crate::ElectionName;

/// The names in use of one session.
#[derive(Clone, Debug, Default)]
pub(super) struct NamesInUse(Arc<Mutex<BTreeMap<ElectionName, NameUse>>>);

#[derive(Debug, Default)]
struct NameUse {
    /// A candidacy of this session exists and is not being left.
    taken: bool,
    /// Held by the candidacy that has, or may have, the key.
    key: Arc<tokio::sync::Mutex<()>>,
}

/// The right to have the key in one election.
pub(super) type KeyRight = OwnedMutexGuard<()>;

impl NamesInUse {
    /// Takes all these names, or returns the one that is taken.
    pub(super) fn take(&self, names: &[ElectionName]) -> Result<(), ElectionName> {
        let mut lines = self.lock();
        let taken = |name: &&ElectionName| lines.get(name).is_some_and(|line| line.taken);
        if let Some(name) = names.iter().find(taken) {
            return Err(name.clone());
        }
        for name in names {
            lines.entry(name.clone()).or_default().taken = true;
        }
        Ok(())
    }

    /// The names may be taken again.
    pub(super) fn free(&self, names: &[ElectionName]) {
        let mut lines = self.lock();
        for name in names {
            if let Some(line) = lines.get_mut(name) {
                line.taken = false;
            }
        }
        lines.retain(|_, line| line.taken || Arc::strong_count(&line.key) > 1);
    }

    /// Waits until the candidacy before this one has been left.
    pub(super) async fn key_right(&self, name: &ElectionName) -> KeyRight {
        let key = Arc::clone(&self.lock().entry(name.clone()).or_default().key);
        key.lock_owned().await
    }

    /// The same, if no candidacy has it or waits for it.
    pub(super) fn key_right_if_idle(&self, name: &ElectionName) -> Option<KeyRight> {
        let mut lines = self.lock();
        let line = lines.entry(name.clone()).or_default();
        if line.taken {
            return None;
        }
        Arc::clone(&line.key).try_lock_owned().ok()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ElectionName, NameUse>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_in_use_are_taken_once_and_pass_their_key_on_when_left() {
        let (lines, name) = (NamesInUse::default(), "a".parse::<ElectionName>().unwrap());
        let names = std::slice::from_ref(&name);
        lines.take(names).unwrap();
        assert_eq!(lines.take(names), Err(name.clone()));
        let right = lines.key_right(&name).await;
        lines.free(names);
        lines.take(names).unwrap();
        let mut next = Box::pin(lines.key_right(&name));
        let early = tokio::time::timeout(std::time::Duration::ZERO, &mut next).await;
        assert!(early.is_err(), "its key may still be there");
        drop(right);
        drop(next.await);
        lines.free(names);
        assert!(lines.lock().is_empty(), "idle names are forgotten");
    }

    #[test]
    fn names_in_use_are_taken_all_or_none() {
        let lines = NamesInUse::default();
        let [a, b]: [ElectionName; 2] = ["a".parse().unwrap(), "b".parse().unwrap()];
        lines.take(std::slice::from_ref(&b)).unwrap();
        assert_eq!(lines.take(&[a.clone(), b.clone()]), Err(b));
        lines.take(&[a]).unwrap();
    }
}
