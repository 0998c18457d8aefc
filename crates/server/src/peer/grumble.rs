//! Complaints about strangers: each once, and not too many.

use std::{collections::BTreeMap, sync::Mutex, time::Instant};

use super::link::lock;

/// Different complaints that are remembered.
const REMEMBERED_MAX: usize = 256;
/// The same complaint is logged again after this time.
const AGAIN_AFTER: std::time::Duration = std::time::Duration::from_secs(60);

/// Logs a complaint unless the same one was logged within the last minute.
#[derive(Debug, Default)]
pub(crate) struct Grumble {
    logged: Mutex<BTreeMap<String, Instant>>,
}

impl Grumble {
    pub(crate) fn about(&self, complaint: String) {
        let mut logged = lock(&self.logged);
        let now = Instant::now();
        if logged.get(&complaint).is_some_and(|at| now.duration_since(*at) < AGAIN_AFTER) {
            return;
        }
        logged.retain(|_, at| now.duration_since(*at) < AGAIN_AFTER);
        if logged.len() >= REMEMBERED_MAX {
            // So many different ones within a minute are an attack on the log.
            return;
        }
        tracing::warn!("{complaint}");
        logged.insert(complaint, now);
    }
}
