//! `tenure once`: of all hosts that ask for a slot, one runs it, whatever happens to that one.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use tenure_e2e::{Said, Supervised, eventually, send};

use crate::stage::Stage;

fn once(stage: &Stage, words: &[&str]) -> Said {
    stage.done(&[&["once"], words].concat())
}

fn start(stage: &Stage, words: &[&str]) -> Supervised {
    stage.start(&[&["once"], words].concat())
}

fn lines(path: impl AsRef<Path>) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

async fn has_lines(path: &str, wanted: usize) {
    eventually(&format!("{path} has {wanted} lines"), async || match lines(path) {
        found if found == wanted => Ok(()),
        found => Err(found.to_string()),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn once_runs_a_slot_on_one_of_many_hosts() {
    let stage = Stage::set().await;
    let (ran, go) = (stage.file("ran"), stage.file("go"));
    // Long enough for all others to come while it runs.
    let work = format!("echo $TENURE_JOB_SLOT >> {ran}; until [ -e {go} ]; do sleep 0.01; done");
    let words = ["nightly", "--slot", "monday", "--", "sh", "-c", &work];
    let mut hosts: Vec<Supervised> = (0..5).map(|_| start(&stage, &words)).collect();
    has_lines(&ran, 1).await;
    // One that comes later is told by its exit code, too.
    let late = once(&stage, &["nightly", "--slot", "monday", "-E", "9", "--", "sh", "-c", &work]);
    assert_eq!(late.code, Some(9), "{late:?}");
    assert!(late.err.contains("nightly for monday is run by"), "{late:?}");
    fs::write(&go, "").unwrap();
    for host in &mut hosts {
        assert_eq!(host.program.ends().await.code(), Some(0));
    }
    assert_eq!(fs::read_to_string(&ran).unwrap(), "monday\n");
    // Another slot is another run.
    let other = once(&stage, &["nightly", "--slot", "tuesday", "--", "true"]);
    assert!(other.err.contains("running nightly for tuesday with token"), "{other:?}");
    let history = stage.history("nightly");
    assert_eq!(history.len(), 2, "{history:?}");
    assert_eq!(
        (history[0]["outcome"].as_str(), history[0]["exit_code"].as_u64()),
        (Some("done"), Some(0))
    );
    assert!(history[0]["token"].as_i64() < history[1]["token"].as_i64());
}

#[tokio::test(flavor = "multi_thread")]
async fn once_passes_the_exit_code_on_after_all_retries() {
    let stage = Stage::set().await;
    let ran = stage.file("ran");
    let work = format!("echo x >> {ran}; exit 5");
    let words = ["job", "--slot", "1", "--retries", "2", "--", "sh", "-c", &work];
    assert_eq!(once(&stage, &words).code, Some(5));
    assert_eq!(lines(&ran), 3);
    // At most once: a failure is not repeated by another host.
    let again = once(&stage, &words);
    assert_eq!((again.code, lines(&ran)), (Some(0), 3), "{again:?}");
    assert!(again.err.contains("failed with exit code 5"), "{again:?}");
    let history = stage.history("job");
    assert_eq!(history[0]["attempts"], 3, "{history:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn once_at_most_once_does_not_repeat_a_run_that_was_killed() {
    let stage = Stage::set().await;
    let ran = stage.file("ran");
    let work = format!("echo x >> {ran}; sleep 1000");
    let words = ["job", "--slot", "1", "--ttl", "2s", "--", "sh", "-c", &work];
    let mut first = start(&stage, &words);
    has_lines(&ran, 1).await;
    send(first.pid(), Signal::KILL);
    first.program.ends().await;
    let history = eventually("the run is known to be over", async || {
        let history = stage.history("job");
        if history[0]["interrupted"] == true { Ok(history) } else { Err(format!("{history:?}")) }
    })
    .await;
    assert_eq!(history[0]["outcome"], "running", "{history:?}");
    let second = once(&stage, &words);
    assert_eq!((second.code, lines(&ran)), (Some(0), 1), "{second:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn once_at_least_once_is_run_by_the_next_host_until_it_succeeds() {
    let stage = Stage::set().await;
    let ran = stage.file("ran");
    // The first hangs and is killed, the second fails, the third succeeds.
    let work = format!(
        "echo x >> {ran}; case $(wc -l < {ran}) in 1) sleep 1000;; 2) exit 7;; *) exit 0;; esac"
    );
    let words = ["job", "--slot", "1", "--at-least-once", "--ttl", "2s", "--", "sh", "-c", &work];
    let mut first = start(&stage, &words);
    has_lines(&ran, 1).await;
    let (mut second, mut third) = (start(&stage, &words), start(&stage, &words));
    second.program.says("waiting for job").await;
    third.program.says("waiting for job").await;
    send(first.pid(), Signal::KILL);
    first.program.ends().await;
    let mut codes = [second.program.ends().await.code(), third.program.ends().await.code()];
    codes.sort();
    assert_eq!(codes, [Some(0), Some(7)]);
    assert_eq!(lines(&ran), 3);
    let late = once(&stage, &words);
    assert_eq!((late.code, lines(&ran)), (Some(0), 3), "{late:?}");
    assert_eq!(stage.history("job")[0]["outcome"], "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn once_stores_a_result_that_came_while_the_server_was_away() {
    let mut stage = Stage::set().await;
    let (ran, go) = (stage.file("ran"), stage.file("go"));
    let work = format!("echo x >> {ran}; until [ -e {go} ]; do sleep 0.01; done; exit 4");
    let words = ["job", "--slot", "1", "--ttl", "20s", "--", "sh", "-c", &work];
    let mut host = start(&stage, &words);
    has_lines(&ran, 1).await;
    stage.cluster.members[0].kill();
    fs::write(&go, "").unwrap();
    stage.cluster.members[0].start();
    stage.cluster.ready().await;
    assert_eq!(host.program.ends().await.code(), Some(4));
    let history = stage.history("job");
    assert_eq!(history[0]["exit_code"], 4, "{history:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn once_computes_its_slot_from_the_clock_alike_on_every_host() {
    let stage = Stage::set().await;
    let ran = stage.file("ran");
    let work = format!("echo $TENURE_JOB_SLOT >> {ran}");
    for words in [
        &["job", "--cron", "0 3 * * *", "--", "sh", "-c", &work][..],
        &["job", "--cron", "0 3 * * *", "--time-zone", "UTC", "--", "sh", "-c", &work],
    ] {
        assert_eq!(once(&stage, words).code, Some(0));
    }
    let slots = fs::read_to_string(&ran).unwrap();
    assert_eq!(slots.lines().count(), 1, "{slots}");
    assert!(slots.ends_with("T03:00:00Z\n"), "{slots}");
    for (words, wanted) in [
        (&["job", "--", "true"][..], "--help"),
        (&["job", "--slot", "a/b", "--", "true"], "contains a slash"),
        (&["job", "--cron", "often", "--", "true"], "--cron: \"often\" is no crontab pattern"),
        (&["job", "--every", "1d", "--keep", "1d", "--", "true"], "--keep"),
    ] {
        let said = once(&stage, words);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.err.contains(wanted), "{said:?}");
    }
}
