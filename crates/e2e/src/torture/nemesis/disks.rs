//! Disks that are full, and disks whose flushes fail. A member on such a disk must end, and come back whole.

use std::{
    fs::{self, File},
    io::Write,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use super::{Fault, LONG, SHORT, members};
use crate::{
    tools,
    torture::{Chance, Ground},
};

/// How long a member may take to notice.
pub(super) const NOTICED_WITHIN: Duration = Duration::from_secs(15);
/// Pause between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// What is written at a full disk at a time, until the member has noticed.
const FILLER_MIB: usize = 1;

/// A member's disk that is bad, until this is dropped.
pub(super) struct BadDisk {
    /// The member that it belongs to.
    pub(super) at: usize,
    how: How,
}

enum How {
    /// No room is left: what takes it, and how often the member had said so before.
    Full { ballast: PathBuf, complaints: usize },
    /// Flushes fail, by the hand of this process.
    Broken { tracer: Child },
}

impl BadDisk {
    /// Fills the disk below the first member, if there is one that may be filled.
    pub(super) fn full(ground: &Ground) -> Option<BadDisk> {
        let ballast = ground.volume.as_ref()?.path().join("ballast");
        let mut file = File::create(&ballast).expect("there is room for a name");
        let block = vec![0; 1 << 20];
        while file.write_all(&block).is_ok() {}
        Some(BadDisk { at: 0, how: How::Full { ballast, complaints: complaints(ground) } })
    }

    /// From now on no flush of this member succeeds.
    pub(super) fn broken(ground: &Ground, at: usize) -> BadDisk {
        let pid = ground.cluster.members[at].pid().to_string();
        let tracer = Command::new(tools::system("strace", "strace"))
            .args(["-q", "-f", "-o", "/dev/null", "-p", &pid])
            .args(["-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("strace can be started");
        BadDisk { at, how: How::Broken { tracer } }
    }

    /// What is wrong with it.
    pub(super) fn fault(&self) -> Fault {
        match self.how {
            How::Full { .. } => Fault::DiskFull,
            How::Broken { .. } => Fault::DiskError,
        }
    }

    /// Whether the member notices within so much time. It is given something to write if need be.
    pub(super) async fn is_noticed(&self, ground: &mut Ground, within: Duration) -> bool {
        let give_up = Instant::now() + within;
        loop {
            let ended = ground.cluster.members[self.at].ended().is_some();
            match self.how {
                How::Full { complaints: before, .. } => {
                    if ended || complaints(ground) > before {
                        return true;
                    }
                    members::fill(ground, FILLER_MIB).await;
                }
                How::Broken { .. } if ended => {
                    let log = ground.cluster.members[self.at].log();
                    let why = "a failed flush is never retried";
                    assert!(log.contains(why), "it ended of something else");
                    return true;
                }
                How::Broken { .. } => tokio::time::sleep(LOOK_AGAIN).await,
            }
            if Instant::now() > give_up {
                return false;
            }
        }
    }
}

impl Drop for BadDisk {
    fn drop(&mut self) {
        match &mut self.how {
            How::Full { ballast, .. } => drop(fs::remove_file(ballast)),
            How::Broken { tracer } => drop((tracer.kill(), tracer.wait())),
        }
    }
}

/// Fills the disk below the first member until it notices.
pub(super) async fn full(ground: &mut Ground) -> bool {
    let Some(disk) = BadDisk::full(ground) else { return false };
    strike(disk, ground).await
}

/// A member, the raft leader or not, cannot flush any more.
pub(super) async fn error(ground: &mut Ground, chance: &mut Chance) -> bool {
    let leader = ground.some_leader().await;
    let at = if chance.percent(50) { leader } else { chance.below(ground.count()) };
    let disk = BadDisk::broken(ground, at);
    strike(disk, ground).await
}

/// Milliseconds of a flush of a slow disk, and of one that stands still.
const SLOW_MS: [usize; 2] = [50, 500];
const STALLED_MS: usize = 60_000;

/// A member is started on a disk that forgets, and loses its power while it works.
pub(super) async fn power_loss(ground: &mut Ground, chance: &mut Chance) -> bool {
    let leader = ground.some_leader().await;
    let at = if chance.percent(50) { leader } else { chance.below(ground.count()) };
    ground.cluster.members[at].kill();
    ground.begin_on(at, true);
    ground.serves().await;
    tokio::time::sleep(chance.between(SHORT, LONG)).await;
    ground.cluster.members[at].kill();
    ground.begin(at);
    true
}

/// All members do, at once.
pub(super) async fn power_loss_of_all(ground: &mut Ground, chance: &mut Chance) -> bool {
    for at in 0..ground.count() {
        ground.cluster.members[at].kill();
        ground.begin_on(at, true);
    }
    ground.serves().await;
    tokio::time::sleep(chance.between(SHORT, LONG)).await;
    for member in &mut ground.cluster.members {
        member.kill();
    }
    for at in 0..ground.count() {
        ground.begin(at);
    }
    true
}

/// Every flush of a member takes some hundredths to tenths of a second, each time another.
pub(super) async fn slow(ground: &mut Ground, chance: &mut Chance) -> bool {
    let leader = ground.some_leader().await;
    let at = if chance.percent(50) { leader } else { chance.below(ground.count()) };
    for _ in 0..5 {
        let ms = SLOW_MS[0] + chance.below(SLOW_MS[1] - SLOW_MS[0]);
        flushes_take(ground, at, ms);
        tokio::time::sleep(chance.between(SHORT, 2 * SHORT)).await;
    }
    flushes_take(ground, at, 0);
    true
}

/// No flush of a member ends for some seconds.
pub(super) async fn stalled(ground: &mut Ground, chance: &mut Chance) -> bool {
    let leader = ground.some_leader().await;
    let at = if chance.percent(70) { leader } else { chance.below(ground.count()) };
    flushes_take(ground, at, STALLED_MS);
    tokio::time::sleep(chance.between(LONG, 3 * LONG)).await;
    flushes_take(ground, at, 0);
    true
}

fn flushes_take(ground: &Ground, at: usize, ms: usize) {
    let file = ground.slowness(at);
    // A reader must never see half of it.
    let written = file.with_extension("new");
    fs::write(&written, ms.to_string()).expect("a file of ours");
    fs::rename(&written, &file).expect("a file of ours");
}

async fn strike(disk: BadDisk, ground: &mut Ground) -> bool {
    let noticed = disk.is_noticed(ground, NOTICED_WITHIN).await;
    mend(disk, ground).await;
    noticed
}

/// The disk works again, and a member that ended of it is started again.
pub(super) async fn mend(disk: BadDisk, ground: &mut Ground) {
    let at = disk.at;
    drop(disk);
    // It may be about to end.
    tokio::time::sleep(10 * LOOK_AGAIN).await;
    if ground.cluster.members[at].ended().is_some() {
        let ended = ground.cluster.members[at].wait_for_end().await;
        assert!(!ended.success(), "a disk that fails is no good reason to end: {ended}");
        ground.begin(at);
    }
}

/// How often the first member has said that something could not be written.
fn complaints(ground: &Ground) -> usize {
    ground.cluster.members[0].log().matches("No space left on device").count()
}
