//! Several members in one terminal: they come up, are killed, stopped, paused and restarted by what is
//! typed, and none of them outlives its terminal.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tenure_e2e::{Program, eventually, tools};

/// `tenure up` with free ports, telling everything as JSON. Its stdin is ours.
fn up(args: &[&str]) -> Program {
    let mut command = Command::new(tools::tenure());
    command.args(["up", "-w", "json", "--client-port", "0"]).args(args);
    Program::start("tenure up", &mut command)
}

/// The first event of a kind, behind so many lines.
async fn event(up: &Program, after: usize, kind: &str) -> Value {
    let line = up.says_after(after, &format!("\"event\":\"{kind}\"")).await;
    serde_json::from_str(&line).unwrap()
}

fn pids(ready: &Value) -> Vec<u32> {
    let members = ready["members"].as_array().unwrap().iter();
    members.map(|member| member["pid"].as_u64().unwrap() as u32).collect()
}

fn leader(event: &Value) -> usize {
    let members = event["members"].as_array().unwrap();
    members.iter().position(|member| member["raft_leader"] == true).unwrap()
}

/// Whether a process exists and is not only waiting to be reaped.
fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

async fn all_gone(pids: &[u32]) {
    eventually("all members are gone", async || {
        let left: Vec<_> = pids.iter().filter(|pid| lives(**pid)).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?} live")) }
    })
    .await;
}

/// A put through the members that live.
async fn writes(endpoints: &str) {
    eventually("a key is written", async || {
        let put = Command::new(tools::tenure())
            .args(["--endpoints", endpoints, "put", "k", "v"])
            .output()
            .unwrap();
        if put.status.success() { Ok(()) } else { Err(format!("{put:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn up_kills_restarts_pauses_and_stops_members_by_what_is_typed() {
    let mut up = up(&["3"]);
    let ready = event(&up, 0, "ready").await;
    let endpoints = ready["endpoints"].as_str().unwrap().to_owned();
    let data = ready["data_dir"].as_str().unwrap().to_owned();
    assert_eq!(pids(&ready).len(), 3);
    assert!(Path::new(&data).exists());

    let first = leader(&ready);
    let lines = up.lines().len();
    up.tell("l");
    let ended = event(&up, lines, "ended").await;
    assert_eq!(ended["member"], ready["members"][first]["member"]);
    assert_eq!((&ended["signal"], &ended["asked_for"]), (&Value::from(9), &Value::from(true)));
    let next = up.says_after(lines, "\"event\":\"raft_leader\",\"member\":\"n").await;
    assert!(!next.contains(ended["member"].as_str().unwrap()), "{next}");
    writes(&endpoints).await;

    let lines = up.lines().len();
    up.tell("r");
    let started = event(&up, lines, "started").await;
    assert_eq!(started["member"], ended["member"]);
    assert_ne!(started["pid"], ended["pid"]);

    let other = (first + 1) % 3 + 1;
    let lines = up.lines().len();
    up.tell(&format!("p {other}"));
    up.tell("i");
    let status = event(&up, lines, "status").await;
    assert_eq!(status["members"][other - 1]["state"], "paused");
    let pid = status["members"][other - 1]["pid"].as_u64().unwrap();
    let stopped = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T ");
    eventually("it is stopped", async || if stopped() { Ok(()) } else { Err("runs".into()) }).await;
    // Not by way of the paused one: it takes a request and answers when it is continued.
    let others = endpoints.split(',').enumerate().filter(|(at, _)| *at != other - 1);
    writes(&others.map(|(_, endpoint)| endpoint).collect::<Vec<_>>().join(",")).await;
    up.tell(&format!("c {other}"));
    eventually("it runs", async || if stopped() { Err("stopped".into()) } else { Ok(()) }).await;

    let lines = up.lines().len();
    up.tell(&format!("s {other}"));
    let ended = event(&up, lines, "ended").await;
    assert_eq!((&ended["code"], &ended["asked_for"]), (&Value::from(0), &Value::from(true)));
    let lines = up.lines().len();
    up.tell("i");
    let status = event(&up, lines, "status").await;
    let left: Vec<u32> = status["members"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|member| member["pid"].as_u64().map(|pid| pid as u32))
        .collect();
    assert_eq!(left.len(), 2);

    up.tell("q");
    assert_eq!(up.ends().await.code(), Some(0));
    all_gone(&left).await;
    assert!(!Path::new(&data).exists(), "a temporary directory is removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn up_leaves_no_member_behind_even_if_it_is_killed() {
    let mut up = up(&["3"]);
    let ready = event(&up, 0, "ready").await;
    let members = pids(&ready);
    // One that does not run must go, too.
    up.tell("p 2");
    event(&up, 0, "paused").await;
    up.kill();
    all_gone(&members).await;
    std::fs::remove_dir_all(ready["data_dir"].as_str().unwrap()).unwrap();
}

/// A killed process cannot tidy up, so the next one does, and only for those that are gone.
#[tokio::test(flavor = "multi_thread")]
async fn up_removes_what_a_killed_one_left() {
    let home = tempfile::tempdir().unwrap();
    let start = || {
        let mut command = Command::new(tools::tenure());
        command.args(["up", "1", "-w", "json", "--client-port", "0"]).env("TMPDIR", home.path());
        Program::start("tenure up", &mut command)
    };
    let (mut killed, lives) = (start(), start());
    let (left, kept) = (event(&killed, 0, "ready").await, event(&lives, 0, "ready").await);
    killed.kill();
    all_gone(&pids(&left)).await;
    let exists = |ready: &Value| Path::new(ready["data_dir"].as_str().unwrap()).exists();
    assert!(exists(&left), "nobody was there to remove it");
    let next = start();
    event(&next, 0, "ready").await;
    assert!(!exists(&left) && exists(&kept));
}

#[tokio::test(flavor = "multi_thread")]
async fn up_goes_on_at_the_end_of_its_input() {
    let mut command = Command::new("bash");
    let script = "exec \"$0\" up 1 -w json --client-port 0 </dev/null";
    command.args(["-c", script]).arg(tools::tenure());
    let mut up = Program::start("tenure up", &mut command);
    let ready = event(&up, 0, "ready").await;
    writes(ready["endpoints"].as_str().unwrap()).await;
    up.ask_to_stop();
    assert_eq!(up.ends().await.code(), Some(0));
    all_gone(&pids(&ready)).await;
    assert!(!Path::new(ready["data_dir"].as_str().unwrap()).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn up_finds_kept_data_again_at_the_same_addresses() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("lab");
    let dir = dir.to_str().unwrap();
    let mut up = self::up(&["3", "--data-dir", dir]);
    let ready = event(&up, 0, "ready").await;
    let endpoints = ready["endpoints"].as_str().unwrap().to_owned();
    writes(&endpoints).await;
    up.ask_to_stop();
    assert!(up.ends().await.success());

    let mut again = self::up(&["--data-dir", dir]);
    let ready = event(&again, 0, "ready").await;
    assert_eq!(ready["endpoints"], Value::from(endpoints.clone()));
    assert_eq!(ready["kept"], true);
    let get = Command::new(tools::tenure())
        .args(["--endpoints", &endpoints, "get", "k", "--print-value-only"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&get.stdout).trim(), "v");
    again.tell("q");
    assert!(again.ends().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn up_tells_of_a_member_that_died_and_starts_it_only_if_asked() {
    for restart in [false, true] {
        let mut up = if restart { up(&["3", "--restart"]) } else { up(&["3"]) };
        let ready = event(&up, 0, "ready").await;
        let lines = up.lines().len();
        let pid = pids(&ready)[1].to_string();
        tools::run(&tools::system("kill", "procps"), &["-9", &pid]);
        let ended = event(&up, lines, "ended").await;
        assert_eq!((&ended["member"], &ended["asked_for"]), (&"n2".into(), &false.into()));
        if restart {
            assert_eq!(event(&up, lines, "started").await["member"], "n2");
        } else {
            up.tell("i");
            assert_eq!(event(&up, lines, "status").await["members"][1]["state"], "ended");
        }
        up.tell("q");
        assert!(up.ends().await.success());
    }
}

#[test]
fn up_tells_the_owner_of_a_port_in_use_and_the_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let said =
        Command::new(tools::tenure()).args(["up", "1", "--client-port", &port]).output().unwrap();
    assert_eq!(said.status.code(), Some(1));
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    for part in [&format!("127.0.0.1:{port}")[..], "--client-port", &std::process::id().to_string()]
    {
        assert!(said.contains(part), "{part} is not in {said}");
    }
}

#[test]
fn up_ends_on_settings_that_cannot_work() {
    let run = |args: &[&str]| Command::new(tools::tenure()).arg("up").args(args).output().unwrap();
    let said = run(&["3", "--client-port", "0", "--", "--heartbeat-interval", "many"]);
    assert_eq!(said.status.code(), Some(1));
    let talk = String::from_utf8_lossy(&said.stderr);
    assert!(talk.contains("no member could start"), "{talk}");
    assert!(talk.contains("n1 ") && talk.contains("--heartbeat-interval"), "{talk}");
    assert_eq!(run(&["2"]).status.code(), Some(2));
    assert_eq!(run(&["3", "--", "--name", "x"]).status.code(), Some(2));
}

/// One whose data is spoilt cannot start; the others can, and that is told.
#[tokio::test(flavor = "multi_thread")]
async fn up_serves_although_one_member_cannot_start() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().to_str().unwrap();
    let mut up = self::up(&["3", "--data-dir", dir]);
    event(&up, 0, "ready").await;
    up.tell("q");
    assert!(up.ends().await.success());
    for file in std::fs::read_dir(home.path().join("n2")).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            std::fs::write(path, "spoilt").unwrap();
        }
    }
    let mut up = self::up(&["--data-dir", dir]);
    let ended = event(&up, 0, "ended").await;
    assert_eq!((&ended["member"], &ended["asked_for"]), (&"n2".into(), &false.into()));
    assert_ne!(ended["code"], 0);
    let ready = event(&up, 0, "ready").await;
    assert_eq!(ready["members"][1]["state"], "ended");
    writes(ready["endpoints"].as_str().unwrap()).await;
    up.tell("q");
    assert!(up.ends().await.success());
}
