//! In which lines a session stands: in each at most once.
//!
//! A session's key in a line has only one name, so two places there would be one key. A place that is
//! being left still has its key until the server has confirmed; the next one in the same line waits
//! for that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;

use crate::LineName;

/// The lines of one session.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines(Arc<Mutex<BTreeMap<LineName, Line>>>);

#[derive(Debug, Default)]
struct Line {
    /// Somebody stands here and is not leaving.
    taken: bool,
    /// Held by whoever has, or may have, the key.
    key: Arc<tokio::sync::Mutex<()>>,
}

/// The right to have the key in one line.
pub(super) type KeyRight = OwnedMutexGuard<()>;

impl Lines {
    /// Takes a place in all these lines, or answers the one that is taken.
    pub(super) fn take(&self, names: &[LineName]) -> Result<(), LineName> {
        let mut lines = self.lock();
        let taken = |name: &&LineName| lines.get(name).is_some_and(|line| line.taken);
        if let Some(name) = names.iter().find(taken) {
            return Err(name.clone());
        }
        for name in names {
            lines.entry(name.clone()).or_default().taken = true;
        }
        Ok(())
    }

    /// Another place may be taken there.
    pub(super) fn free(&self, names: &[LineName]) {
        let mut lines = self.lock();
        for name in names {
            if let Some(line) = lines.get_mut(name) {
                line.taken = false;
            }
        }
        lines.retain(|_, line| line.taken || Arc::strong_count(&line.key) > 1);
    }

    /// Waits until the place before this one has been left.
    pub(super) async fn key_right(&self, name: &LineName) -> KeyRight {
        let key = Arc::clone(&self.lock().entry(name.clone()).or_default().key);
        key.lock_owned().await
    }

    /// The same, if nobody has it or waits to have it.
    pub(super) fn key_right_if_idle(&self, name: &LineName) -> Option<KeyRight> {
        let mut lines = self.lock();
        let line = lines.entry(name.clone()).or_default();
        if line.taken {
            return None;
        }
        Arc::clone(&line.key).try_lock_owned().ok()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<LineName, Line>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_is_taken_once_and_its_key_passes_on_when_it_was_left() {
        let (lines, name) = (Lines::default(), "a".parse::<LineName>().unwrap());
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
    fn several_are_taken_all_or_none() {
        let lines = Lines::default();
        let [a, b]: [LineName; 2] = ["a".parse().unwrap(), "b".parse().unwrap()];
        lines.take(std::slice::from_ref(&b)).unwrap();
        assert_eq!(lines.take(&[a.clone(), b.clone()]), Err(b));
        lines.take(&[a]).unwrap();
    }
}
