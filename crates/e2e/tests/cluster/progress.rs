//! `tenure snapshot` and `tenure import` on a terminal: a line that tells how far it is, and goes away.

use std::{fs, path::Path, process::Command};

use rustix::process::Signal;
use tempfile::TempDir;
use tenure_e2e::{Address, Cluster, Ctl, Relay, Screen, pb, tools};

/// Room for whatever is said in one row, and not.
const WIDE: u16 = 132;
const NARROW: u16 = 30;
/// Several pieces of a backup's stream.
const VALUES: u8 = 4;
const VALUE_BYTES: usize = 1 << 20;

/// One member with so much in it that its backup comes in pieces.
async fn filled() -> Cluster {
    let cluster = Cluster::start(1).await;
    for n in 0..VALUES {
        let value = vec![n; VALUE_BYTES].into();
        let put = pb::PutRequest { key: vec![b'k', n].into(), value, ..Default::default() };
        cluster.client().kv().put(put).await.unwrap();
    }
    cluster
}

/// `tenure snapshot …`, in this directory.
fn snapshot(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(tools::tenure());
    command.arg("snapshot").args(args).current_dir(home);
    command
}

fn save(home: &Path, from: Address) -> Command {
    let mut command = snapshot(home, &["save", "backup.db"]);
    command.args(["--endpoints", &from.to_string()]);
    command
}

/// Each line that was drawn, one over the other.
fn drawn(written: &str) -> Vec<&str> {
    written.split("\r\x1b[K").skip(1).filter(|line| !line.is_empty()).collect()
}

/// How often a line about this was drawn.
fn times(written: &str, what: &str) -> usize {
    drawn(written).iter().filter(|line| line.starts_with(what)).count()
}

fn percent(line: &str) -> u64 {
    let before = line.split(" %").next().and_then(|before| before.split_whitespace().last());
    before.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{line:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_one_line_that_is_drawn_again_and_leaves_nothing_behind() {
    let home = TempDir::new().unwrap();
    let cluster = filled().await;
    let relay = Relay::to(cluster.members[0].client).await;
    relay.slow_down();
    let mut saving = Screen::of(save(home.path(), relay.address), WIDE);
    saving.shows("a second look", |written| times(written, "saving [") >= 2).await;
    let rows = saving.rows();
    assert!(rows.len() == 1 && rows[0].starts_with("saving ["), "{rows:?}");
    relay.mend();
    assert!(saving.ends().await.success());

    let written = saving.written();
    let saved: Vec<_> = drawn(&written).into_iter().filter(|l| l.starts_with("saving ")).collect();
    assert!(percent(saved[0]) < percent(saved[saved.len() - 1]), "{saved:?}");
    assert!(times(&written, "checking [") >= 1, "{written:?}");
    let rows = saving.rows();
    assert_eq!(rows[0], "Snapshot saved at backup.db");
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert!(rows[1].starts_with("revision 5, 4 keys, 4."), "{rows:?}");
    assert!(rows[1].contains(" MB, sha256 "), "{rows:?}");

    // What reads a file shows that it does, and what is written, too.
    let status = snapshot(home.path(), &["status", "backup.db", "-w", "json"]);
    let mut reading = Screen::of(status, WIDE);
    assert!(reading.ends().await.success());
    assert!(times(&reading.written(), "reading [") >= 1, "{:?}", reading.written());
    assert!(reading.rows()[0].starts_with('{'), "{:?}", reading.rows());
    let mut restoring = Screen::of(snapshot(home.path(), &["restore", "backup.db"]), WIDE);
    assert!(restoring.ends().await.success());
    let written = restoring.written();
    for what in ["reading [", "writing  "] {
        assert!(times(&written, what) >= 1, "{what}: {written:?}");
    }
    let left: Vec<_> = restoring.rows().into_iter().filter(|row| row.contains("/s")).collect();
    assert!(left.is_empty() && !restoring.rows().is_empty(), "{:?}", restoring.rows());
}

/// A line that is longer than the terminal is wide would fill another row each time.
#[tokio::test(flavor = "multi_thread")]
async fn progress_fits_into_a_narrow_terminal() {
    let home = TempDir::new().unwrap();
    let cluster = filled().await;
    let mut saving = Screen::of(save(home.path(), cluster.members[0].client), NARROW);
    assert!(saving.ends().await.success());
    let written = saving.written();
    assert!(drawn(&written).iter().any(|line| line.starts_with("saving [")), "{written:?}");
    assert_eq!(saving.rows()[0], "Snapshot saved at backup.db");
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_leaves_a_clean_line_whatever_ends_the_backup() {
    let home = TempDir::new().unwrap();
    let mut cluster = filled().await;
    let relay = Relay::to(cluster.members[0].client).await;
    relay.slow_down();
    let mut interrupted = Screen::of(save(home.path(), relay.address), WIDE);
    interrupted.shows("it is under way", |written| times(written, "saving [") >= 1).await;
    relay.cut();
    interrupted.signal(Signal::INT);
    assert_eq!(interrupted.ends().await.code(), Some(130));
    assert_eq!(interrupted.rows(), [""; 0]);

    relay.slow_down();
    let mut broken_off = Screen::of(save(home.path(), relay.address), WIDE);
    broken_off.shows("it is under way", |written| times(written, "saving [") >= 1).await;
    relay.cut();
    cluster.members[0].kill();
    relay.mend();
    assert_eq!(broken_off.ends().await.code(), Some(1));
    let rows = broken_off.rows();
    assert!(rows[0].contains("the member"), "{rows:?}");
    assert!(!rows.iter().any(|row| row.contains("saving [")), "{rows:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_writes_control_codes_to_terminals_only() {
    let home = TempDir::new().unwrap();
    let cluster = filled().await;
    let commands = || {
        let status = snapshot(home.path(), &["status", "backup.db", "-w", "json"]);
        let _ = fs::remove_dir_all(home.path().join("default.tenure"));
        let restore = snapshot(home.path(), &["restore", "backup.db"]);
        [save(home.path(), cluster.members[0].client), status, restore]
    };
    for mut command in commands() {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{command:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(!said.is_empty() && !said.chars().any(|c| c.is_control() && c != '\n'), "{said:?}");
    }
    // One that does not know them gets none, either.
    for mut command in commands() {
        command.env("TERM", "dumb");
        let mut plain = Screen::of_talk(command, WIDE);
        assert!(plain.ends().await.success());
        assert_eq!(plain.written(), "");
    }
    // Results that go elsewhere are not touched by the line that is shown.
    for mut command in commands() {
        let results = home.path().join("results");
        command.stdout(fs::File::create(&results).unwrap());
        let mut shown = Screen::of_talk(command, WIDE);
        assert!(shown.ends().await.success());
        assert!(!drawn(&shown.written()).is_empty());
        assert_eq!(shown.rows(), [""; 0]);
        let said = fs::read_to_string(&results).unwrap();
        assert!(!said.is_empty() && !said.chars().any(|c| c.is_control() && c != '\n'), "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn import_shows_the_same_line_and_only_to_a_terminal() {
    let home = TempDir::new().unwrap();
    let etcd = Ctl::with_real_etcd().await;
    etcd.run_with(&["put", "key"], &"x".repeat(VALUE_BYTES)).ok();
    let file = home.path().join("etcd.db");
    etcd.run(&["snapshot", "save", file.to_str().unwrap()]).ok();
    let import = |into: &str| {
        let mut command = Command::new(tools::tenure());
        command.args(["import", "--from", "etcd.db", "--data-dir", into]).current_dir(home.path());
        command
    };
    let mut shown = Screen::of(import("shown"), WIDE);
    assert!(shown.ends().await.success(), "{:?}", shown.rows());
    let written = shown.written();
    for what in ["reading [", "writing ["] {
        let told: Vec<_> = drawn(&written).into_iter().filter(|l| l.starts_with(what)).collect();
        assert_eq!(told.last().map(|line| percent(line)), Some(100), "{written:?}");
    }
    let left = |row: &&String| row.contains("reading") || row.contains("writing");
    assert!(!shown.rows().iter().any(|row| left(&row)), "{:?}", shown.rows());

    let mut command = import("dumb");
    command.env("TERM", "dumb");
    let mut plain = Screen::of_talk(command, WIDE);
    assert!(plain.ends().await.success(), "{:?}", plain.rows());
    assert!(!plain.written().contains('\x1b'), "{:?}", plain.written());
    assert!(plain.written().contains("must stay stopped"), "{:?}", plain.written());
}
