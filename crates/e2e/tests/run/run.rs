//! `tenure run` and `tenure lock` on ordinary days: what the command finds, what its end means, and what
//! each flag does.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tenure_e2e::{Ctl, Supervised, eventually, reserve, send, tools};

use crate::stage::Stage;

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

async fn contains(path: &str, wanted: &str) {
    eventually(&format!("{path} contains {wanted}"), async || {
        let text = text(path);
        if text.contains(wanted) { Ok(()) } else { Err(text) }
    })
    .await;
}

const WAIT: &str = "while :; do sleep 0.02; done";

#[tokio::test(flavor = "multi_thread")]
async fn run_gives_a_command_what_it_needs_and_takes_its_exit_code() {
    let stage = Stage::set().await;
    let show = "echo $TENURE_ELECTION $TENURE_TOKEN $TENURE_IDENTITY $TENURE_KEY $TENURE_ENDPOINTS";
    // Our own verbs work in there, and find the key.
    let get = format!("{} get \"$TENURE_KEY\" --print-value-only", tools::tenure().display());
    let show = format!("{show}; {get}; exit 5");
    let words = ["run", "-e", "job", "--identity", "me", "--value", "v1", "--", "sh", "-c", &show];
    let said = stage.done(&words);
    let (first, code) = (said.out.lines().next().unwrap_or_default().to_owned(), said.code);
    let parts: Vec<&str> = first.split(' ').collect();
    assert_eq!((code, parts[0], parts[2]), (Some(5), "job", "me"), "{said:?}");
    assert!(parts[1].parse::<i64>().unwrap() > 1);
    assert!(parts[3].starts_with("job/") && parts[4] == stage.cluster.endpoints(), "{first}");
    assert_eq!(said.out.lines().nth(1), Some("v1"), "{said:?}");
    // It resigned: no successor has to wait.
    let history = stage.ctl.run(&["history", "job"]).ok();
    assert!(history.contains("resigned"), "{history}");
    // It hears all signals, whatever guardians do not.
    let masks = stage.done(&["run", "-e", "job", "--", "grep", "SigBlk", "/proc/self/status"]);
    assert_eq!(masks.out.trim(), "SigBlk:\t0000000000000000");
    let killed = stage.done(&["run", "-e", "job", "--", "sh", "-c", "kill -USR1 $$"]);
    assert_eq!(killed.code, Some(128 + 10), "{killed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_passes_stdin_and_signals_to_the_command() {
    let stage = Stage::set().await;
    let said = stage.ctl.run_with(&["run", "-e", "job", "--", "sort"], "b\na\n");
    assert_eq!((said.code, said.out.as_str()), (Some(0), "a\nb\n"), "{said:?}");
    let work = format!("trap 'echo hup' HUP; trap 'echo one' USR1; echo ready; {WAIT}");
    let mut job = stage.start(&["run", "-e", "job", "--", "sh", "-c", &work]);
    job.program.says("ready").await;
    job.signal(Signal::HUP);
    job.program.says("hup").await;
    job.signal(Signal::USR1);
    job.program.says("one").await;
    job.signal(Signal::TERM);
    let ended = std::os::unix::process::ExitStatusExt::signal(&job.program.ends().await);
    assert_eq!(ended, None, "the supervisor itself ends by an exit code");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_says_that_a_command_cannot_be_run_before_it_campaigns() {
    let stage = Stage::set().await;
    let missing = stage.done(&["run", "-e", "job", "--", "no-such-program"]);
    assert_eq!(missing.code, Some(127), "{missing:?}");
    assert!(missing.err.contains("no-such-program: command not found"), "{missing:?}");
    let file = stage.file("plain");
    fs::write(&file, "text").unwrap();
    assert_eq!(stage.done(&["run", "-e", "job", "--", &file]).code, Some(126));
    assert_eq!(stage.ctl.run(&["history", "job"]).ok(), "");
    // What makes no sense is all said at once.
    let words = ["run", "-e", "job", "--ttl", "500ms", "--hold-at-least", "2s", "--hold-at-most"];
    let said = stage.done(&[&words[..], &["1s", "--", "true"]].concat());
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("--ttl") && said.err.contains("--hold-at-least"), "{said:?}");
    let said = stage.done(&["run", "-e", "job", "--grace", "8s", "--", "true"]);
    assert!(said.code == Some(2) && said.err.contains("make --ttl"), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_without_a_server_has_an_exit_code_of_its_own() {
    let nobody = reserve(1)[0].to_string();
    let ctl = Ctl::to(&nobody).with_program(tools::tenure());
    for how in ["--wait-for-server=off", "-n"] {
        let said = ctl.run(&["run", "-e", "job", "--ttl", "1s", how, "--", "true"]);
        assert_eq!(said.code, Some(69), "{said:?}");
        assert!(said.err.contains(&nobody), "{said:?}");
    }
    // Waiting for a server is waiting, too.
    let waits = ctl.run(&["run", "-e", "job", "-w", "300ms", "--", "true"]);
    assert_eq!(waits.code, Some(3), "{waits:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_without_waiting_does_not_wait() {
    let stage = Stage::set().await;
    let holder = stage.start(&["run", "-e", "job", "--", "sh", "-c", &format!("echo on; {WAIT}")]);
    holder.program.says("on").await;
    assert_eq!(stage.done(&["run", "-n", "-e", "job", "--", "true"]).code, Some(3));
    assert_eq!(stage.done(&["run", "-w", "200ms", "-e", "job", "--", "true"]).code, Some(3));
    let chosen = stage.done(&["run", "--max-wait", "1ms", "-E", "9", "-e", "job", "--", "true"]);
    assert_eq!(chosen.code, Some(9), "{chosen:?}");
    let lock = stage.done(&["lock", "-n", "job", "--", "true"]);
    assert_eq!(lock.code, Some(3), "{lock:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_with_more_priority_goes_first() {
    let stage = Stage::set().await;
    let work = format!("echo on; {WAIT}");
    let stand = |who: &str, priority: &str| {
        let words =
            ["run", "-e", "job", "--identity", who, "--priority", priority, "--", "sh", "-c"];
        stage.start(&[&words[..], &[&work]].concat())
    };
    let first = stand("first", "0");
    first.program.says("on").await;
    let low = stand("low", "1");
    low.program.says("waiting for job").await;
    let high = stand("high", "2");
    high.program.says("waiting for job").await;
    first.signal(Signal::TERM);
    stage.led_by("job", "high").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_once_does_not_campaign_again() {
    let stage = Stage::set().await;
    let work = format!("echo on; {WAIT}");
    let mut job = stage.start(&["run", "--once", "-e", "job", "--", "sh", "-c", &work]);
    job.program.says("on").await;
    stage.ctl.run(&["evict", "job"]).ok();
    assert_eq!(job.program.ends().await.code(), Some(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn run_marker_exists_while_the_command_runs() {
    let stage = Stage::set().await;
    let marker = stage.file("leader");
    let work = format!("cat $TENURE_MARKER; {WAIT}");
    let words = ["run", "-e", "job", "--marker", &marker, "--", "sh", "-c", &work];
    let mut job = stage.start(&words);
    let said = job.program.says("\"name\":\"job\"").await;
    assert!(said.contains("\"token\":"), "{said}");
    // Also when no process is left above the guardian to remove it.
    job.program.kill();
    let gone = async || {
        eventually("the marker is gone", async || match fs::exists(&marker) {
            Ok(false) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    };
    gone().await;
    // And when only the supervisor is left.
    let mut job = stage.start(&[&words[..2], &["job2", "--once"], &words[3..]].concat());
    job.program.says("\"name\":\"job2\"").await;
    let [outer, inner, _] = job.chain().await;
    send(outer, Signal::KILL);
    send(inner, Signal::KILL);
    assert_eq!(job.program.ends().await.code(), Some(4));
    gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_standby_has_a_command_of_its_own_until_it_leads() {
    let stage = Stage::set().await;
    let holder = stage.start(&["run", "-e", "job", "--", "sh", "-c", &format!("echo on; {WAIT}")]);
    holder.program.says("on").await;
    let standby = format!("trap 'echo standing down; exit' TERM; echo standing by; {WAIT}");
    let work = format!("echo led; {WAIT}");
    let words = ["run", "-e", "job", "--standby-cmd", &standby, "--", "sh", "-c", &work];
    let other = stage.start(&words);
    other.program.says("standing by").await;
    holder.signal(Signal::TERM);
    other.program.says("led").await;
    let said = other.program.lines();
    let at = |what: &str| said.iter().position(|line| line.contains(what));
    assert!(at("standing down") < at("led"), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_holds_the_lead_as_long_as_was_asked_and_no_longer() {
    let stage = Stage::set().await;
    let begun = Instant::now();
    let said = stage.done(&["run", "-e", "job", "--hold-at-least", "700ms", "--", "true"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(begun.elapsed() >= Duration::from_millis(700));
    // Longer than any lease of it lasts, and still once.
    let starts = stage.file("starts");
    let work = format!("echo >> {starts}");
    let words = ["run", "-e", "job", "--ttl", "1s", "--hold-at-least", "2500ms", "--", "sh", "-c"];
    assert_eq!(stage.done(&[&words[..], &[&work]].concat()).code, Some(0));
    assert_eq!(text(&starts).lines().count(), 1);
    let words = ["run", "-e", "job", "--hold-at-most", "200ms", "--", "sh", "-c", WAIT];
    let said = stage.done(&words);
    assert_eq!(said.code, Some(124), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_starts_a_failed_command_again_under_the_same_token() {
    let stage = Stage::set().await;
    let file = stage.file("starts");
    let work = format!("echo $TENURE_TOKEN >> {file}; [ $(wc -l < {file}) -ge 3 ]");
    let words = ["run", "-e", "job", "--restart", "on-failure", "--", "sh", "-c", &work];
    assert_eq!(stage.done(&words).code, Some(0));
    let starts = text(&file);
    let starts: Vec<&str> = starts.lines().collect();
    assert!(starts.len() == 3 && starts.iter().all(|s| *s == starts[0]), "{starts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_may_start_the_command_at_once_and_tell_it_by_signals() {
    let stage = Stage::set().await;
    let [first, second] = [stage.file("1"), stage.file("2")];
    let start = |file: &str| {
        let work = format!(
            "trap 'echo won >> {file}' USR1; trap 'echo lost >> {file}; exit' USR2; \
             echo up >> {file}; {WAIT}"
        );
        let words = ["run", "-e", "job", "--won", "USR1", "--lost", "SIGUSR2", "--", "sh", "-c"];
        stage.start(&[&words[..], &[&work]].concat())
    };
    let _one = start(&first);
    contains(&first, "won").await;
    let _two = start(&second);
    contains(&second, "up").await;
    assert!(!text(&second).contains("won"));
    stage.ctl.run(&["evict", "job"]).ok();
    contains(&first, "lost").await;
    contains(&second, "won").await;
    // The first one is ended and begins again as a standby.
    contains(&first, "lost\nup").await;
    assert_eq!(text(&second).lines().collect::<Vec<_>>(), ["up", "won"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn run_may_leave_a_command_alone_in_doubt() {
    let stage = Stage::set().await;
    let file = stage.file("starts");
    let work = format!("trap 'echo lost >> {file}' USR2; echo up >> {file}; {WAIT}");
    let words = ["run", "-e", "job", "--on-doubt", "continue", "--lost", "USR2", "--", "sh", "-c"];
    let job = stage.start(&[&words[..], &[&work]].concat());
    contains(&file, "up").await;
    let [.., command] = job.chain().await;
    stage.ctl.run(&["evict", "job"]).ok();
    contains(&file, "lost").await;
    job.program.says_after(2, "leading job").await;
    assert_eq!(job.chain().await[2], command, "the same command");
    assert_eq!(text(&file).matches("up").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn run_does_not_lead_while_a_check_fails() {
    let stage = Stage::set().await;
    let sick = stage.file("sick");
    let check = format!("test ! -e {sick}");
    let work = format!("echo on; {WAIT}");
    let how = ["--health-cmd", &check, "--health-interval", "50ms", "--unhealthy-after", "2"];
    let words = [&["run", "-e", "job", "--identity", "one"], &how[..], &["--", "sh", "-c", &work]];
    let one = stage.start(&words.concat());
    one.program.says("on").await;
    let two = stage.start(&["run", "-e", "job", "--identity", "two", "--", "sh", "-c", &work]);
    two.program.says("waiting for job").await;
    fs::write(&sick, "").unwrap();
    one.program.says("giving up job: --health-cmd").await;
    one.program.says("no candidate for job").await;
    stage.led_by("job", "two").await;
    fs::remove_file(&sick).unwrap();
    one.program.says("waiting for job").await;
    // A candidate that falls ill stays one, and is passed over.
    let three = stage.start(&["run", "-e", "job", "--identity", "three", "--", "sh", "-c", &work]);
    three.program.says("waiting for job: 2 ahead").await;
    fs::write(&sick, "").unwrap();
    one.program.says("to be passed over in job: --health-cmd").await;
    two.signal(Signal::TERM);
    stage.led_by("job", "three").await;
    fs::remove_file(&sick).unwrap();
    three.signal(Signal::TERM);
    stage.led_by("job", "one").await;
}

/// Each kind of check ends a lead.
#[tokio::test(flavor = "multi_thread")]
async fn run_counts_every_check() {
    let stage = Stage::set().await;
    let nobody = format!("127.0.0.1:{}", reserve(1)[0].port);
    let url = format!("http://{nobody}/");
    // Something that answers, but not well.
    let bad = TcpListener::bind("127.0.0.1:0").unwrap();
    let bad_url = format!("http://{}/health", bad.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in bad.incoming().flatten() {
            let mut stream = stream;
            let mut head = [0; 1024];
            let _ = std::io::Read::read(&mut stream, &mut head);
            let _ = stream.write_all(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let cases: [&[&str]; 5] = [
        &["--health-tcp", &nobody],
        &["--health-http", &url],
        &["--health-http", &bad_url],
        &["--max-rss", "1K"],
        &["--health-cmd", "[ $TENURE_ROLE = standby ]"],
    ];
    for check in cases {
        let how = ["--once", "--health-interval", "50ms", "--unhealthy-after", "1"];
        let words = [&["run", "-e", "job"], &how[..], check, &["--", "sh", "-c", WAIT]].concat();
        let said = stage.done(&words);
        assert_eq!(said.code, Some(4), "{check:?}: {said:?}");
        assert!(said.err.contains(&format!("giving up job: {}", check[0])), "{said:?}");
    }
    let words = ["run", "-e", "job", "-w", "300ms", "--min-disk-free", "900T", "--", "true"];
    let said = stage.done(&words);
    assert!(said.code == Some(3) && said.err.contains("--min-disk-free"), "{said:?}");
    let words = ["lock", "-n", "job", "--health-cmd", "false", "--", "true"];
    assert_eq!(stage.done(&words).code, Some(3));
}

/// A holder that did not say that it has stopped is cut off before the next one starts; one that resigned is not.
#[tokio::test(flavor = "multi_thread")]
async fn run_fences_a_deposed_holder_first() {
    let stage = Stage::set().await;
    let fenced = stage.file("fenced");
    let cmd = format!("echo $TENURE_FENCE_IDENTITY $TENURE_FENCE_REASON >> {fenced}");
    let after = |cmd: &str| {
        let work = "echo fenced: $(cat $0)";
        let words = ["run", "-e", "job", "--fence-cmd", cmd, "--", "sh", "-c", work, &fenced];
        stage.done(&words)
    };
    // There was no leader before; then one that resigned.
    assert_eq!(after(&cmd).out.trim(), "fenced:");
    assert_eq!(after(&cmd).out.trim(), "fenced:");
    let old = stage.start(&["elect", "job", "--ttl", "1s", "--identity", "old"]);
    stage.led_by("job", "old").await;
    stage.ctl.run(&["evict", "job"]).ok();
    drop(old);
    assert_eq!(after(&cmd).out.trim(), "fenced: old evicted");

    let old = stage.start(&["elect", "job", "--ttl", "1s", "--identity", "old"]);
    stage.led_by("job", "old").await;
    stage.ctl.run(&["evict", "job"]).ok();
    drop(old);
    // One that fails keeps us from leading; so does one that takes too long.
    let how = ["--once", "--fence-timeout", "200ms"];
    for cmd in ["exit 1", "sleep 60"] {
        let words = [&["run", "-e", "job"], &how[..], &["--fence-cmd", cmd, "--", "echo", "led"]];
        let said = stage.done(&words.concat());
        assert!(said.code == Some(4) && !said.out.contains("led"), "{said:?}");
        assert!(said.err.contains("fencing failed, stepping aside"), "{said:?}");
    }
}

/// A lease that ran out is what fencing is for: its holder was killed with all that could have said so.
#[tokio::test(flavor = "multi_thread")]
async fn run_fences_a_holder_whose_lease_ran_out() {
    let stage = Stage::set().await;
    let fenced = stage.file("fenced");
    let words = ["run", "-e", "job", "--identity", "old", "--ttl", "1s", "--", "sh", "-c"];
    let old = stage.start(&[&words[..], &[&format!("echo on; {WAIT}")]].concat());
    old.program.says("on").await;
    for pid in old.chain().await.into_iter().chain([old.pid()]) {
        send(pid, Signal::KILL);
    }
    let cmd = format!("echo $TENURE_FENCE_IDENTITY $TENURE_FENCE_REASON >> {fenced}");
    let words =
        ["run", "-e", "job", "--fence-cmd", &cmd, "--identity", "new", "--", "cat", &fenced];
    assert_eq!(stage.done(&words).out.trim(), "old expired");
    // The same machine, back again, does not cut itself off.
    let words = ["run", "-e", "job", "--identity", "new", "--ttl", "1s", "--", "sh", "-c"];
    let again = stage.start(&[&words[..], &[&format!("echo on; {WAIT}")]].concat());
    again.program.says("on").await;
    for pid in again.chain().await.into_iter().chain([again.pid()]) {
        send(pid, Signal::KILL);
    }
    let words = ["run", "-e", "job", "--fence-cmd", "false", "--identity", "new", "--", "true"];
    assert_eq!(stage.done(&words).code, Some(0));
    let shared = ["lock", "s", "--shared", "--fence-cmd", "true", "--", "true"];
    assert_eq!(stage.done(&shared).code, Some(2));
}

/// A fencer that loses the lead while it fences has cut off no holder: the next one still knows which holder to cut
/// off.
#[tokio::test(flavor = "multi_thread")]
async fn run_fences_though_the_fencer_before_was_evicted() {
    let stage = Stage::set().await;
    let old = stage.start(&["elect", "job", "--ttl", "1s", "--identity", "old"]);
    stage.led_by("job", "old").await;
    stage.ctl.run(&["evict", "job"]).ok();
    drop(old);
    let how = ["run", "-e", "job", "--ttl", "1s", "--identity"];
    let slow = ["slow", "--once", "--fence-cmd", "sleep 60", "--", "true"];
    let mut slow = stage.start(&[&how[..], &slow].concat());
    slow.program.says("fencing old").await;
    stage.ctl.run(&["evict", "job"]).ok();
    assert_eq!(slow.program.ends().await.code(), Some(4));
    let fenced = stage.file("fenced");
    let cmd = format!("echo $TENURE_FENCE_IDENTITY >> {fenced}");
    let next = ["next", "--fence-cmd", &cmd, "--", "cat", &fenced];
    let said = stage.done(&[&how[..], &next].concat());
    assert!(said.out.lines().any(|line| line == "old"), "{said:?}");
}

/// One of Pacemaker's agents reads what to do from its stdin.
#[tokio::test(flavor = "multi_thread")]
async fn run_tells_a_fence_agent_on_its_stdin() {
    let stage = Stage::set().await;
    let [agent, told] = [stage.file("fence_test"), stage.file("told")];
    fs::write(&agent, format!("#!/bin/sh\ncat > {told}\n")).unwrap();
    fs::set_permissions(&agent, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let old = stage.start(&["elect", "job", "--ttl", "1s", "--identity", "db-2"]);
    stage.led_by("job", "db-2").await;
    stage.ctl.run(&["evict", "job"]).ok();
    drop(old);
    let words = ["run", "-e", "job", "--fence-cmd", &agent, "--fence-option", "ip=10.0.0.9", "--"];
    assert_eq!(stage.done(&[&words[..], &["true"]].concat()).code, Some(0));
    assert_eq!(text(&told), "action=off\nplug=db-2\nnodename=db-2\nip=10.0.0.9\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_feeds_a_watchdog_while_the_lease_is_sure() {
    let stage = Stage::set().await;
    let device = stage.file("watchdog");
    fs::write(&device, "").unwrap();
    let how = ["--watchdog", &device, "--watchdog-timeout"];
    let words = [&["run", "-e", "job"], &how[..], &["400ms", "--", "sleep", "1"]].concat();
    assert_eq!(stage.done(&words).code, Some(0));
    let fed = text(&device);
    // A file remembers only what was written from its beginning on.
    assert!(fed.ends_with('V') && fed.matches('.').count() >= 5, "{fed}");
    // One that cannot be opened is said once, and not tried for ever.
    let words = ["run", "-e", "job", "--watchdog", "/dev/nope", "--watchdog-timeout", "1s", "--"];
    assert_eq!(stage.done(&[&words[..], &["true"]].concat()).code, Some(1));
    let words = [&["run", "-e", "job"], &how[..], &["9s", "--", "true"]].concat();
    let said = stage.done(&words);
    assert!(said.code == Some(2) && said.err.contains("at most half of --ttl"), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_are_exclusive_shared_or_counted() {
    let stage = Stage::set().await;
    let work = format!("echo in; {WAIT}");
    let readers: Vec<Supervised> = (0..2)
        .map(|_| stage.start(&["lock", "doc", "--shared", "--", "sh", "-c", &work]))
        .collect();
    for reader in &readers {
        reader.program.says("in").await;
    }
    assert_eq!(stage.done(&["lock", "-n", "doc", "--", "true"]).code, Some(3));
    let seats: Vec<Supervised> = (0..2)
        .map(|_| {
            let work = format!("echo seat $TENURE_SLOT; {WAIT}");
            stage.start(&["lock", "seats", "--permits", "2", "--", "sh", "-c", &work])
        })
        .collect();
    for seat in &seats {
        seat.program.says("seat").await;
    }
    let third = ["lock", "-n", "seats", "--permits", "2", "--", "true"];
    assert_eq!(stage.done(&third).code, Some(3));
    seats[0].signal(Signal::TERM);
    eventually("a free seat", async || {
        let said = stage.done(&third);
        if said.code == Some(0) { Ok(()) } else { Err(format!("{said:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_without_a_command_is_held_until_interrupted() {
    let stage = Stage::set().await;
    let mut holder = stage.start(&["lock", "door"]);
    eventually("a token", async || {
        let said = holder.program.lines();
        let token = said.first().and_then(|line| line.parse::<i64>().ok());
        token.ok_or(format!("{said:?}"))
    })
    .await;
    assert_eq!(stage.done(&["lock", "-n", "door", "--", "true"]).code, Some(3));
    holder.signal(Signal::INT);
    assert_eq!(holder.program.ends().await.code(), Some(0));
    assert_eq!(stage.done(&["lock", "-n", "door", "--", "true"]).code, Some(0));
    let mut killed =
        stage.start(&["lock", "door", "--ttl", "300s", "--identity", "it", "--fast-release"]);
    stage.led_by("door", "it").await;
    killed.program.kill();
    // Its work may go on, in the shell that wanted the lock: others wait, unless they do not mind.
    let careful = stage.done(&["lock", "-n", "door", "--", "true"]);
    assert_eq!(careful.code, Some(3), "{careful:?}");
    let careless = stage.start(&["elect", "door", "--identity", "next"]);
    stage.led_by("door", "next").await;
    drop(careless);
    let odd = stage.done(&["lock", "door", "--marker", "m", "--hold-at-most", "1s"]);
    assert!(odd.code == Some(2) && odd.err.contains("--marker, --hold-at-most"), "{odd:?}");
}

/// The reader of our talk may have gone, or may read no further; neither ends anything.
#[tokio::test(flavor = "multi_thread")]
async fn run_goes_on_when_its_output_is_not_read() {
    let stage = Stage::set().await;
    let starts = stage.file("starts");
    // As long as there is something to read, and no longer: `$$` becomes the run itself.
    let stays = "while kill -0 $$ 2> /dev/null; do sleep 0.1; done";
    for (name, reader) in [("gone", "true"), ("still", stays)] {
        let work = format!("echo $TENURE_TOKEN >> {starts}.{name}; {WAIT}");
        let script = format!(
            "exec {} --endpoints {} run -e {name} -- sh -c '{work}' 2> >({reader})",
            tools::tenure().display(),
            stage.cluster.endpoints(),
        );
        let mut run = std::process::Command::new("bash").args(["-c", &script]).spawn().unwrap();
        let pid = run.id();
        for round in 1..=20 {
            eventually(&format!("{name}: start {round}"), async || {
                let count = text(format!("{starts}.{name}")).lines().count();
                if count >= round { Ok(()) } else { Err(format!("{count} starts")) }
            })
            .await;
            // More talk than a pipe holds would come of more of these; a line is enough for a closed one.
            stage.ctl.run(&["evict", name]).ok();
        }
        send(pid, Signal::TERM);
        let code = run.wait().unwrap().code();
        assert!(code.is_some_and(|code| code != 101), "{name}: {code:?}");
    }
}

/// What the standard output is matters only to the command.
#[tokio::test(flavor = "multi_thread")]
async fn run_lets_a_closed_pipe_end_the_command() {
    let stage = Stage::set().await;
    let script = format!(
        "{} --endpoints {} run -q -e job -- sh -c 'while echo y; do :; done 2>/dev/null' | head -1",
        tools::tenure().display(),
        stage.cluster.endpoints()
    );
    let out = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stdout), "y\n");
    // And with a stdin that was closed.
    let script = format!(
        "{} --endpoints {} run -q -e job -- cat <&-",
        tools::tenure().display(),
        stage.cluster.endpoints()
    );
    let out = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(out.status.code().is_some(), "{out:?}");
    assert_eq!(stage.done(&["run", "-n", "-e", "job", "--", "true"]).code, Some(0));
}
