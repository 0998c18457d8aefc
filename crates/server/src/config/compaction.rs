//! `--auto-compaction-mode` and `--auto-compaction-retention`, which only mean something together.

use std::time::Duration;

/// How much history is kept by automatic compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoCompaction {
    /// All of it.
    Off,
    /// What happened within this time.
    Periodic(Duration),
    /// So many revisions.
    Revisions(u64),
}

impl Default for AutoCompaction {
    /// An hour. etcd keeps everything until told otherwise, which fills its quota one day.
    fn default() -> AutoCompaction {
        AutoCompaction::Periodic(Duration::from_secs(3600))
    }
}
