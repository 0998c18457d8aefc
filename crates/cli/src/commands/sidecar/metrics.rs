//! What is counted, and `/metrics`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::belief::Belief;
use super::status_cache::StatusCache;

/// What this process has counted since it started.
#[derive(Debug, Default)]
pub(super) struct Counts {
    sessions: AtomicU64,
    tenures: AtomicU64,
    losses: AtomicU64,
    asks_failed: AtomicU64,
    streams: AtomicU64,
    /// Answers by path and status. Paths are those that are served, so there are few.
    answers: Mutex<BTreeMap<(&'static str, u16), u64>>,
}

impl Counts {
    pub(super) fn session_opened(&self) {
        self.sessions.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn tenure_began(&self) {
        self.tenures.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn tenure_lost(&self) {
        self.losses.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn ask_failed(&self) {
        self.asks_failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn stream_opened(&self) {
        self.streams.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn stream_closed(&self) {
        self.streams.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn answered(&self, path: &'static str, status: u16) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        *answers.entry((path, status)).or_default() += 1;
    }

    /// Everything as Prometheus reads it. client-go's two come first, under its names.
    pub(super) fn text(&self, status: &StatusCache) -> String {
        let belief = status.belief();
        let (fresh, token, age) = match &belief {
            Belief::Sure(sure) => {
                let token = sure.leader.as_ref().map_or(0, |leader| leader.token.get());
                (1, token, Some(sure.age))
            }
            Belief::Unsure(_) => (0, 0, None),
        };
        let leads = matches!(&belief, Belief::Sure(sure) if sure.is_leader);
        let mut text = tenure::elector::Metrics {
            name: status.election.clone(),
            master_status: leads,
            slowpath_total: status.slow_renewals(),
        }
        .to_string();
        let label = escaped(&status.election);
        let mut put = |name: &str, kind: &str, help: &str, value: &dyn std::fmt::Display| {
            let _ = write!(
                text,
                "# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{{name=\"{label}\"}} {value}\n"
            );
        };
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        put(
            "tenure_sidecar_fresh",
            "gauge",
            "Whether there is an answer that is not stale.",
            &fresh,
        );
        put(
            "tenure_sidecar_leader_token",
            "gauge",
            "The token of whoever leads; 0 if that is nobody, or not known.",
            &token,
        );
        if let Some(age) = age {
            put(
                "tenure_sidecar_answer_age_seconds",
                "gauge",
                "How old the answer is.",
                &age.as_secs_f64(),
            );
        }
        put(
            "tenure_sidecar_sessions_total",
            "counter",
            "Sessions that were opened.",
            &read(&self.sessions),
        );
        put(
            "tenure_sidecar_tenures_total",
            "counter",
            "How often this process was elected.",
            &read(&self.tenures),
        );
        put(
            "tenure_sidecar_losses_total",
            "counter",
            "Tenures that were lost, not given up.",
            &read(&self.losses),
        );
        put(
            "tenure_sidecar_asks_failed_total",
            "counter",
            "Questions who leads that no server answered.",
            &read(&self.asks_failed),
        );
        put(
            "tenure_sidecar_streams",
            "gauge",
            "Streams of /sse that are open.",
            &read(&self.streams),
        );
        self.put_answers(&mut text, &label);
        text
    }

    fn put_answers(&self, text: &mut String, label: &str) {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.is_empty() {
            return;
        }
        let name = "tenure_sidecar_answers_total";
        let _ = write!(text, "# HELP {name} Answers by path and status.\n# TYPE {name} counter\n");
        for ((path, status), count) in answers.iter() {
            let _ = writeln!(
                text,
                "{name}{{name=\"{label}\",path=\"{path}\",code=\"{status}\"}} {count}"
            );
        }
    }
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
