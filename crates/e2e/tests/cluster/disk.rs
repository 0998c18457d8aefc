//! Disks that lie, fill up, or forget.

use std::{
    fs::{self, File},
    io::{Seek, SeekFrom, Write},
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use tenure::grpc::{Client, ClientError};
use tenure_e2e::{Cluster, Member, Plan, Volume, eventually, pb, tools};

fn key(n: usize) -> String {
    format!("key/{n:05}")
}

async fn put(client: &Client, n: usize, value: Vec<u8>) -> Result<(), ClientError> {
    let put = pb::PutRequest { key: key(n).into(), value: value.into(), ..Default::default() };
    client.kv().put(put).await.map(drop)
}

/// Writes until it no longer works, and answers how many were acknowledged.
async fn put_until_refused(client: &Client, value: &[u8], most: usize) -> usize {
    for n in 0..most {
        if put(client, n, value.to_vec()).await.is_err() {
            return n;
        }
    }
    panic!("{most} writes worked, and the disk should not have let them")
}

async fn assert_there(client: &Client, count: usize) {
    for n in 0..count {
        let range = pb::RangeRequest { key: key(n).into(), ..Default::default() };
        let found = client.kv().range(range).await.unwrap();
        assert_eq!(found.count, 1, "{} was acknowledged and is gone", key(n));
    }
}

/// The segment in use and where what was written to it ends.
fn end_of_log(member: &Member) -> (PathBuf, u64) {
    let (segment, last) = last_batch(member);
    (segment, last.end)
}

/// The segment in use and where its last batch lies. docs/reference/formats.md has the layout.
fn last_batch(member: &Member) -> (PathBuf, Range<u64>) {
    const SEGMENT_HEADER: usize = 64;
    const BATCH_HEADER: usize = 40;
    let files = member.files("wal").into_iter().rev();
    let mut segments = files.filter(|file| file.extension().is_some_and(|kind| kind == "wal"));
    let newest = segments.next().expect("a segment");
    let bytes = fs::read(&newest).unwrap();
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mark = number(SEGMENT_HEADER);
    let (mut start, mut end) = (SEGMENT_HEADER, SEGMENT_HEADER);
    while end + BATCH_HEADER <= bytes.len() && number(end) == mark {
        let body = number(end + 4) as usize;
        start = end;
        end += BATCH_HEADER + body.next_multiple_of(8);
    }
    (newest, start as u64..end as u64)
}

fn flip(file: &Path, offset: u64) {
    let file = File::options().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn member_cuts_a_torn_end_off_the_log_and_starts() {
    let mut cluster = Cluster::start(1).await;
    let client = cluster.client();
    for n in 0..50 {
        put(&client, n, vec![b'x'; 100]).await.unwrap();
    }
    let member = &mut cluster.members[0];
    member.kill();
    let (segment, end) = end_of_log(member);
    let mut file = File::options().write(true).open(&segment).unwrap();
    // The sector with the beginning of the batch was not written, a later one was.
    file.seek(SeekFrom::Start((end + 40).next_multiple_of(512))).unwrap();
    file.write_all(&[0xa5; 333]).unwrap();
    drop(file);
    member.start();
    member.ready().await;
    let line = member.logs("cut a torn end off the log").await;
    assert!(line.contains(segment.to_str().unwrap()) && line.contains(&end.to_string()), "{line}");
    assert_there(&member.client(), 50).await;
    put(&member.client(), 50, vec![]).await.unwrap();
    // The cut must hold: the next start finds nothing to complain about.
    member.kill();
    member.start();
    member.ready().await;
    assert_eq!(member.log().matches("cut a torn end").count(), 1);
    assert_there(&member.client(), 51).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn member_starts_with_a_log_whose_last_batch_is_only_half_there() {
    let mut cluster = Cluster::start(1).await;
    let client = cluster.client();
    for n in 0..50 {
        put(&client, n, vec![b'x'; 1000]).await.unwrap();
    }
    let member = &mut cluster.members[0];
    let mut keys = 50;
    let (segment, wiped) = loop {
        member.kill();
        let (segment, last) = last_batch(member);
        let sector = (last.end - 1) / 512 * 512;
        // Without its last sector, a batch that begins there would be gone, not torn; and some bytes must be more than padding.
        if last.start != sector && last.end - sector >= 64 {
            break (segment, sector..last.end);
        }
        member.start();
        member.ready().await;
        put(&member.client(), keys, vec![b'x'; 1000]).await.unwrap();
        keys += 1;
    };
    let file = File::options().write(true).open(&segment).unwrap();
    file.write_all_at(&vec![0; (wiped.end - wiped.start) as usize], wiped.start).unwrap();
    member.start();
    member.ready().await;
    member.logs("cut a torn end off the log").await;
    // The last batch held the last write, or only how far the log is committed.
    assert_there(&member.client(), keys - 1).await;
    put(&member.client(), keys, vec![]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn member_refuses_to_start_with_a_log_whose_file_was_cut() {
    let mut cluster = Cluster::start(1).await;
    let client = cluster.client();
    for n in 0..50 {
        put(&client, n, vec![b'x'; 1000]).await.unwrap();
    }
    let member = &mut cluster.members[0];
    member.kill();
    let (segment, end) = end_of_log(member);
    // Behind the last batch, inside it, and before many that were acknowledged.
    for length in [end, end - 20, end / 2] {
        File::options().write(true).open(&segment).unwrap().set_len(length).unwrap();
        refuses_to_start(member, &segment).await;
        member.logs(&format!("is corrupt at offset {length}: the file ends here")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn member_refuses_to_start_with_a_flipped_bit_in_the_log() {
    let mut cluster = Cluster::start(1).await;
    let client = cluster.client();
    for n in 0..50 {
        put(&client, n, vec![b'x'; 500]).await.unwrap();
    }
    let member = &mut cluster.members[0];
    member.kill();
    let (segment, end) = end_of_log(member);
    flip(&segment, end / 2);
    refuses_to_start(member, &segment).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn member_refuses_to_start_with_a_flipped_bit_in_its_snapshot() {
    let mut cluster = Cluster::with(1, Plan::flags(&["--snapshot-count", "50"])).await;
    let client = cluster.client();
    for n in 0..300 {
        put(&client, n, vec![b'x'; 100]).await.unwrap();
    }
    let member = &mut cluster.members[0];
    let is_snapshot = |file: &PathBuf| file.extension().is_some_and(|kind| kind == "snap");
    eventually("a snapshot", async || match member.files("snap").iter().any(is_snapshot) {
        true => Ok(()),
        false => Err(format!("{:?}", member.files("snap"))),
    })
    .await;
    assert!(member.stop().await.success());
    let newest = member.files("snap").into_iter().rfind(is_snapshot).unwrap();
    let half = fs::metadata(&newest).unwrap().len() / 2;
    flip(&newest, half);
    refuses_to_start(member, &newest).await;
}

/// It ends with an error that names the file and an offset.
async fn refuses_to_start(member: &mut Member, file: &Path) {
    let before = member.log().len();
    member.start();
    assert!(!member.wait_for_end().await.success());
    let log = member.log().split_off(before);
    let name = file.file_name().unwrap().to_str().unwrap();
    assert!(log.contains(name) && log.contains("is corrupt at offset "), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn member_never_acknowledges_after_a_failed_flush() {
    let strace = tools::system("strace", "strace");
    let mut cluster = Cluster::prepare(1, Plan::default());
    let member = &mut cluster.members[0];
    let inject = "inject=fdatasync:error=EIO:when=30+";
    // -D: strace stands aside, and the process that was started is the member itself.
    let before = [strace.to_str().unwrap(), "-D", "-f", "-o", "/dev/null"];
    let filter = ["-e", "trace=fdatasync", "-e", inject];
    member.spawn.before = before.iter().chain(&filter).map(Into::into).collect();
    member.start();
    member.ready().await;
    let acknowledged = put_until_refused(&member.client(), b"x", 200).await;
    assert!(acknowledged > 0);
    let ended = member.wait_for_end().await;
    assert!(!ended.success(), "{ended}");
    member.logs("a failed flush is never retried").await;
    member.spawn.before.clear();
    member.start();
    member.ready().await;
    assert_there(&member.client(), acknowledged).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn member_goes_on_without_a_leader_whose_disk_failed() {
    let strace = tools::system("strace", "strace");
    let mut cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let load = tenure_e2e::Load::start("load", (0..4).map(|_| cluster.client()).collect());
    load.progress(50).await;
    let pid = cluster.members[leader].pid().to_string();
    let mut tracer = std::process::Command::new(strace)
        .args(["-q", "-f", "-o", "/dev/null", "-p", &pid])
        .args(["-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO"])
        .spawn()
        .unwrap();
    let ended = cluster.members[leader].wait_for_end().await;
    assert!(!ended.success(), "{ended}");
    tracer.wait().unwrap();
    load.progress(50).await;
    let record = load.stop().await;
    cluster.members[leader].start();
    cluster.members[leader].ready().await;
    record.check(&cluster.client(), "load").await;
    cluster.same_everywhere().await;
}

/// How many threads of a process are not traced.
fn untraced(pid: u32) -> usize {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let status = threads.filter_map(|it| fs::read_to_string(it.path().join("status")).ok());
    status.filter(|status| status.contains("TracerPid:\t0\n")).count()
}

/// Nothing depends on a snapshot before it is durable, so it may fail where a batch of the log may not.
#[tokio::test(flavor = "multi_thread")]
async fn member_serves_on_and_loses_nothing_when_a_snapshot_cannot_be_flushed() {
    const FAILED: &str = "snapshot failed; the log keeps growing until one succeeds";
    let strace = tools::system("strace", "strace");
    let mut cluster = Cluster::with(1, Plan::flags(&["--snapshot-count", "50"])).await;
    let member = &mut cluster.members[0];
    let client = member.client();
    put(&client, 0, vec![]).await.unwrap();
    let pid = member.pid();
    // The log is flushed with fdatasync, a snapshot with fsync at its end.
    let mut tracer = std::process::Command::new(strace)
        .args(["-q", "-f", "-o", "/dev/null", "-p", &pid.to_string()])
        .args(["-e", "trace=fsync", "-e", "inject=fsync:error=EIO"])
        .spawn()
        .unwrap();
    eventually("strace has all threads", async || match untraced(pid) {
        0 => Ok(()),
        threads => Err(format!("{threads} are free")),
    })
    .await;
    let mut written = 1;
    while member.log().matches(FAILED).count() < 2 {
        assert!(written < 5000, "no snapshot was tried: {}", member.log());
        put(&client, written, vec![b'x'; 100]).await.expect("it serves on");
        written += 1;
    }
    let line = member.logs(FAILED).await;
    assert!(line.contains("flush snapshot") && line.contains("os error 5"), "{line}");
    assert!(snapshots(member).is_empty(), "{:?}", snapshots(member));
    // By its id: the tracer lets the member go when it is told to end.
    tenure_e2e::send(tracer.id(), rustix::process::Signal::TERM);
    tracer.wait().unwrap();
    member.kill();
    member.start();
    member.ready().await;
    assert_there(&member.client(), written).await;
    // The disk works again, and so do snapshots.
    let client = member.client();
    for n in written..written + 200 {
        put(&client, n, vec![b'x'; 100]).await.unwrap();
    }
    eventually("a snapshot", async || match snapshots(member).len() {
        0 => Err("there is none".to_owned()),
        _ => Ok(()),
    })
    .await;
}

/// Its snapshots that are whole.
fn snapshots(member: &Member) -> Vec<PathBuf> {
    let files = member.files("snap").into_iter();
    files.filter(|file| file.extension().is_some_and(|kind| kind == "snap")).collect()
}

/// The process lives and talks, but nothing that it writes becomes durable: others must not wait for it, and
/// clients do not stay with it. They all begin at the first member, so it is that one.
#[tokio::test(flavor = "multi_thread")]
async fn member_goes_on_without_a_leader_whose_disk_stands_still() {
    let strace = tools::system("strace", "strace");
    let cluster = Cluster::start(3).await;
    cluster.lead(0).await;
    let load = tenure_e2e::Load::start("load", (0..4).map(|_| cluster.client()).collect());
    load.progress(50).await;
    let pid = cluster.members[0].pid().to_string();
    let mut tracer = std::process::Command::new(strace)
        .args(["-q", "-f", "-o", "/dev/null", "-p", &pid])
        .args(["-e", "trace=fdatasync", "-e", "inject=fdatasync:delay_enter=10s"])
        .spawn()
        .unwrap();
    cluster.leader_among(&[1, 2]).await;
    load.progress(50).await;
    // By its id: the tracer lets the member go when it is told to end.
    tenure_e2e::send(tracer.id(), rustix::process::Signal::TERM);
    tracer.wait().unwrap();
    load.progress(50).await;
    load.stop().await.check(&cluster.client(), "load").await;
    cluster.same_everywhere().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn member_loses_nothing_when_the_disk_fills_up() {
    let volume = Volume::new("size=24m");
    let mut cluster = Cluster::prepare(1, Plan::default());
    let member = &mut cluster.members[0];
    member.data_dir = volume.path().join("data");
    member.start();
    member.ready().await;
    let acknowledged = put_until_refused(&member.client(), &[b'x'; 256 << 10], 200).await;
    assert!(acknowledged > 0);
    let ended = member.wait_for_end().await;
    assert!(!ended.success(), "{ended}");
    member.logs("free space on this volume").await;
    volume.remount("size=200m");
    member.start();
    member.ready().await;
    assert_there(&member.client(), acknowledged).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn member_says_what_is_wrong_with_a_data_directory_it_cannot_write() {
    let volume = Volume::new("size=1m");
    volume.remount("ro,size=1m");
    let mut cluster = Cluster::prepare(1, Plan::default());
    let member = &mut cluster.members[0];
    member.data_dir = volume.path().join("data");
    member.start();
    assert!(!member.wait_for_end().await.success());
    let log = member.log();
    assert!(log.contains("mount the volume writable"), "{log}");

    let file = volume.path().with_extension("file");
    fs::write(&file, "not a directory").unwrap();
    member.data_dir = file.join("data");
    member.start();
    assert!(!member.wait_for_end().await.success());
    fs::remove_file(&file).unwrap();
    let log = member.log();
    assert!(log.contains("choose a path that is a directory"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn member_does_not_share_a_data_directory() {
    let cluster = Cluster::start(1).await;
    let mut second = Cluster::prepare(1, Plan::default());
    second.members[0].data_dir = cluster.members[0].data_dir.clone();
    second.members[0].start();
    assert!(!second.members[0].wait_for_end().await.success());
    let log = second.members[0].log();
    assert!(log.contains("another process uses this data directory"), "{log}");
    put(&cluster.client(), 0, vec![]).await.unwrap();
}
