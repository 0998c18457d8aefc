//! What users of `flock` and `consul lock` type without thinking.

use std::process::Command;

use tenure_e2e::{Cluster, Ctl, Supervised, eventually, tools};

async fn stage() -> (Cluster, Ctl) {
    let cluster = Cluster::start(1).await;
    let ctl = Ctl::to(&cluster.endpoints()).with_program(tools::tenure());
    (cluster, ctl)
}

#[tokio::test(flavor = "multi_thread")]
async fn run_and_lock_take_the_name_where_hands_put_it() {
    let (_cluster, ctl) = stage().await;
    let says = |words: &[&str]| ctl.run(words).ok().trim().to_owned();
    let line = "echo $TENURE_ELECTION";
    for words in [
        &["run", "jobs", "--", "sh", "-c", line][..],
        &["run", "jobs", "--ttl", "5s", "--", "sh", "-c", line],
        &["run", "-e", "jobs", "--", "sh", "-c", line],
        &["lock", "jobs", "sh", "-c", line],
        &["lock", "-w", "5", "jobs", "--", "sh", "-c", line],
        &["lock", "jobs", "-c", line],
        &["lock", "-x", "jobs", "-c", line],
        &["lock", "-e", "jobs", "-c", line],
        &["lock", "-s", "jobs", "-c", line],
    ] {
        assert_eq!(says(words), "jobs", "{words:?}");
    }
    assert_eq!(says(&["lock", "jobs", "echo", "-w", "json", "-q", "--", "x"]), "-w json -q -- x");
    for words in [
        &["run", "--", "true"][..],
        &["run", "jobs"],
        &["run", "-e", "jobs", "other", "--", "true"],
        &["lock", "-s", "-x", "jobs", "true"],
        &["lock", "jobs", "-c", "true", "true"],
    ] {
        assert_eq!(ctl.run(words).code, Some(2), "{words:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn timeout_of_a_candidate_is_in_seconds_unless_it_says_otherwise() {
    let (cluster, ctl) = stage().await;
    let _holder = Supervised::start(&cluster.endpoints(), &["lock", "jobs"]);
    let _shared = Supervised::start(&cluster.endpoints(), &["lock", "-s", "reports"]);
    for name in ["jobs", "reports"] {
        eventually(&format!("{name} is held"), async || match ctl.run(&["leader", name]) {
            held if held.code == Some(0) => Ok(()),
            not_yet => Err(not_yet.err),
        })
        .await;
    }
    for words in [
        &["lock", "-w", "0.1", "jobs", "true"][..],
        &["lock", "-w", "100ms", "jobs"],
        &["run", "-w", "0.1", "jobs", "--", "true"],
        &["elect", "jobs", "--timeout", "0.1"],
        &["lock", "-w", "0.1", "reports", "true"],
    ] {
        assert_eq!(ctl.run(words).code, Some(3), "{words:?}");
    }
    ctl.run(&["lock", "-s", "-n", "reports", "true"]).ok();
    let format = Command::new(tools::tenure()).args(["lock", "jobs", "-w", "json"]).output();
    let format = format.unwrap();
    let said = String::from_utf8(format.stderr).unwrap();
    assert_eq!(format.status.code(), Some(2));
    assert!(said.contains("--write-out json"), "{said}");
}

#[test]
fn cli_flag_that_was_cut_short_is_not_taken_for_another_one() {
    for verb in ["run", "lock"] {
        for slip in ["--wait", "--wait-for-servers"] {
            let said = Command::new(tools::tenure()).args([verb, "x", slip, "--", "true"]).output();
            let said = said.unwrap();
            assert_eq!(said.status.code(), Some(2));
            let said = String::from_utf8(said.stderr).unwrap();
            assert!(said.contains("'--wait-for-server'"), "{said}");
            assert!(!said.contains("watchdog"), "{said}");
        }
    }
}

#[test]
fn cli_tells_a_wrong_endpoint_once_under_its_flag() {
    for verb in [&["get", "k"][..], &["lock", "x"], &["run", "x", "--", "true"], &["status"]] {
        let words = [&["--endpoints", "ftp://h"], verb].concat();
        let said = Command::new(tools::tenure()).args(words).output().unwrap();
        assert_eq!(said.status.code(), Some(2), "{verb:?}");
        let said = String::from_utf8(said.stderr).unwrap();
        assert_eq!(said.matches("ftp://h").count(), 1, "{said}");
        assert!(said.contains("--endpoints: "), "{said}");
    }
}
