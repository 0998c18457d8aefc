//! Disks that are full, and disks whose flushes fail. A member on such a disk must end, and come back whole.

use std::{
    fs::{self, File},
    io::Write,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::members;
use crate::{
    tools,
    torture::{Chance, Ground},
};

/// How long a member may take to notice.
const NOTICED_WITHIN: Duration = Duration::from_secs(15);
/// Pause between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// What is written at a full disk at a time, until the member has noticed.
const FILLER_MIB: usize = 1;

/// Fills the disk below the first member until it notices.
pub(super) async fn full(ground: &mut Ground) -> bool {
    let Some(volume) = &ground.volume else { return false };
    let ballast = volume.path().join("ballast");
    let before = complaints(ground);
    let mut file = File::create(&ballast).expect("there is room for a name");
    let block = vec![0; 1 << 20];
    while file.write_all(&block).is_ok() {}
    drop(file);
    let give_up = Instant::now() + NOTICED_WITHIN;
    let mut noticed = false;
    while !noticed && Instant::now() < give_up {
        members::fill(ground, FILLER_MIB).await;
        noticed = ground.cluster.members[0].ended().is_some() || complaints(ground) > before;
    }
    fs::remove_file(&ballast).expect("a file of ours");
    restart_if_ended(ground, 0).await;
    noticed
}

/// How often the first member has said that something could not be written.
fn complaints(ground: &Ground) -> usize {
    ground.cluster.members[0].log().matches("No space left on device").count()
}

/// A member, the raft leader or not, cannot flush any more.
pub(super) async fn error(ground: &mut Ground, chance: &mut Chance) -> bool {
    let leader = ground.some_leader().await;
    let at = if chance.percent(50) { leader } else { chance.below(ground.count()) };
    let pid = ground.cluster.members[at].pid().to_string();
    let mut tracer = Command::new(tools::system("strace", "strace"))
        .args(["-q", "-f", "-o", "/dev/null", "-p", &pid])
        .args(["-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("strace can be started");
    let give_up = Instant::now() + NOTICED_WITHIN;
    let mut noticed = false;
    while !noticed && Instant::now() < give_up {
        tokio::time::sleep(LOOK_AGAIN).await;
        noticed = ground.cluster.members[at].ended().is_some();
    }
    let _ = tracer.kill();
    let _ = tracer.wait();
    if noticed {
        let log = ground.cluster.members[at].log();
        assert!(log.contains("a failed flush is never retried"), "it ended of something else");
    }
    restart_if_ended(ground, at).await;
    noticed
}

/// A member that ended of its disk is started again on a disk that works.
async fn restart_if_ended(ground: &mut Ground, at: usize) {
    // It may be about to end.
    tokio::time::sleep(10 * LOOK_AGAIN).await;
    if ground.cluster.members[at].ended().is_some() {
        let ended = ground.cluster.members[at].wait_for_end().await;
        assert!(!ended.success(), "a disk that fails is no good reason to end: {ended}");
        ground.begin(at);
    }
}
