//! `tenure run` on bad days: whatever happens to the lease, the network, the supervisor or the guardian,
//! two commands never run at once, and the next one runs as soon as that is sure.
//!
//! Both commands append their token to one file. Appends keep their order, so a token that comes after a
//! greater one is two at once.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tenure_e2e::{Network, Supervised, Trail, eventually_within, lives, send, tools};

use crate::stage::Stage;

/// Long enough not to be confused with the end of a lease.
const LONG_TTL: &str = "30s";
/// Short enough to be waited for.
const SHORT_TTL: &str = "2s";

fn run(stage: &Stage, ttl: &str, work: &str) -> Supervised {
    stage.start(&["run", "--election", "job", "--ttl", ttl, "--", "sh", "-c", work])
}

/// Why the first leader's tenure ended, as `tenure history` says it.
fn first_end(stage: &Stage) -> String {
    let history = stage.ctl.run(&["history", "job"]).ok();
    history.lines().next().and_then(|first| first.split('\t').nth(4)).unwrap().to_owned()
}

/// The session of the leader.
fn session(stage: &Stage) -> String {
    let leader = stage.ctl.run(&["leader", "job", "-w", "json"]).ok();
    let leader: serde_json::Value = serde_json::from_str(&leader).unwrap();
    leader["session"].as_str().unwrap().to_owned()
}

/// The command and all it has started were stopped. They must hear that the end is asked for, not only be killed.
#[tokio::test(flavor = "multi_thread")]
async fn run_wakes_stopped_processes_to_hear_of_the_end() {
    let stage = Stage::set().await;
    let child =
        "trap 'echo the child has heard; exit 0' TERM; echo ready; while :; do sleep 0.02; done";
    let leader = run(&stage, LONG_TTL, &format!("trap : TERM; ({child}); exit 3"));
    leader.program.says("ready").await;
    let [.., command] = leader.chain().await;
    let group = Pid::from_raw(command as i32).unwrap();
    kill_process_group(group, Signal::STOP).unwrap();
    leader.signal(Signal::TERM);
    leader.program.says("the child has heard").await;
}

/// etcdctl's bug: the lock changes hands, and the first child runs on.
async fn its_lease_is_revoked(work: impl Fn(&Trail) -> String, who: &str) {
    let stage = Stage::set().await;
    let first = run(&stage, LONG_TTL, &work(&stage.trail));
    let token = stage.trail.token_after(0).await;
    stage.trail.has(token, who).await;
    let second = run(&stage, LONG_TTL, &work(&stage.trail));
    second.program.says("waiting for job").await;

    stage.ctl.run(&["lease", "revoke", &session(&stage)]).ok();
    first.program.says("lost job: the session was revoked").await;
    let next = stage.trail.token_after(token).await;
    stage.trail.has(next, who).await;
    // The first one becomes a candidate again, and works again when the second one is gone.
    second.signal(Signal::TERM);
    let third = stage.trail.token_after(next).await;
    stage.trail.has(third, who).await;
    stage.trail.never_two();
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_lease_ends_a_polite_command_before_the_next_begins() {
    its_lease_is_revoked(Trail::polite, "m").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_lease_ends_a_command_that_ignores_signals_and_turns_away() {
    its_lease_is_revoked(Trail::stubborn, "astray").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn evicted_command_is_gone_before_the_next_begins() {
    let stage = Stage::set().await;
    let first = run(&stage, LONG_TTL, &stage.trail.stubborn());
    let token = stage.trail.token_after(0).await;
    stage.trail.has(token, "astray").await;
    let second = run(&stage, LONG_TTL, &stage.trail.stubborn());
    second.program.says("waiting for job").await;
    stage.ctl.run(&["evict", "job"]).ok();
    first.program.says("lost job: an operator took it away").await;
    stage.trail.token_after(token).await;
    stage.trail.never_two();
}

#[tokio::test(flavor = "multi_thread")]
async fn successor_is_handed_over_to_when_the_command_has_ended() {
    let stage = Stage::set().await;
    let first = run(&stage, LONG_TTL, &stage.trail.stubborn());
    let token = stage.trail.token_after(0).await;
    let words = ["run", "--election", "job", "--identity", "chosen", "--", "sh", "-c"];
    let work = stage.trail.polite();
    let words: Vec<&str> = words.into_iter().chain([work.as_str()]).collect();
    let second = Supervised::start(&stage.cluster.endpoints(), &words);
    second.program.says("waiting for job").await;
    stage.ctl.run(&["transfer", "job", "--to", "chosen", "--within", "20s"]).ok();
    first.program.says("making room in job for chosen").await;
    stage.trail.token_after(token).await;
    stage.trail.never_two();
}

/// The network is gone: no side is told anything, and each has to count.
#[tokio::test(flavor = "multi_thread")]
async fn command_that_is_cut_off_is_gone_before_its_lease_can_end() {
    let network = Network::new(2);
    let cluster = network.cluster_of(1, &[]).await;
    let dir = tempfile::tempdir().unwrap();
    let trail = Trail::new(dir.path());
    let work = trail.stubborn();
    let words = ["run", "--election", "job", "--ttl", SHORT_TTL, "--", "sh", "-c", &work];
    let endpoints = cluster.endpoints();
    let first = Supervised::start_behind(&network.inside(1), &endpoints, &words);
    let token = trail.token_after(0).await;
    trail.has(token, "astray").await;
    let second = Supervised::start(&endpoints, &words);
    second.program.says("waiting for job").await;

    network.cut(0, 1);
    first.program.says("not confirmed in time").await;
    let next = trail.token_after(token).await;
    trail.has(next, "astray").await;
    // The network is mended, and the old one becomes a candidate again, behind the others.
    network.heal();
    first.program.says("waiting for job: 1 ahead").await;
    trail.never_two();
}

/// A holder that counted by the wall clock would give up when it goes ahead, and believe for hours when it goes back.
#[tokio::test(flavor = "multi_thread")]
async fn holder_does_not_care_what_its_wall_clock_says() {
    let network = Network::new(2);
    let cluster = network.cluster_of(1, &[]).await;
    let dir = tempfile::tempdir().unwrap();
    let (trail, clock) = (Trail::new(dir.path()), dir.path().join("clock"));
    let work = trail.polite();
    let words = ["run", "--election", "job", "--ttl", SHORT_TTL, "--", "sh", "-c", &work];
    let mut before = network.inside(1);
    before.push("env".into());
    before.extend(tools::wall_clock(&clock).into_iter().map(|(mut setting, value)| {
        setting.push("=");
        setting.push(value);
        setting
    }));
    let first = Supervised::start_behind(&before, &cluster.endpoints(), &words);
    let token = trail.token_after(0).await;
    let second = Supervised::start(&cluster.endpoints(), &words);
    second.program.says("waiting for job").await;
    for jump in ["+5h", "-3h", "+700d", "+0"] {
        std::fs::write(&clock, jump).unwrap();
        trail.works_for(Duration::from_secs(1)).await;
    }
    assert_eq!(trail.steps().last().map(|(last, _)| *last), Some(token), "it has led all the time");
    assert!(!first.program.lines().iter().any(|line| line.contains("not confirmed")));

    std::fs::write(&clock, "-3h").unwrap();
    network.cut(0, 1);
    first.program.says("not confirmed in time").await;
    trail.token_after(token).await;
    trail.never_two();
}

/// A process that is stopped cannot kill.
#[tokio::test(flavor = "multi_thread")]
async fn stopped_supervisor_does_not_keep_its_command() {
    let stage = Stage::set().await;
    let first = run(&stage, SHORT_TTL, &stage.trail.stubborn());
    let token = stage.trail.token_after(0).await;
    stage.trail.has(token, "astray").await;
    let [_, _, command] = first.chain().await;
    let second = run(&stage, SHORT_TTL, &stage.trail.stubborn());
    second.program.says("waiting for job").await;
    first.program.pause();
    let next = stage.trail.token_after(token).await;
    assert!(!lives(command), "the command outlives its lease");
    assert_eq!(first_end(&stage), "stopped (renewals missing)");
    // Awake again, the supervisor finds that it leads no more, and waits.
    first.program.resume();
    first.program.says("waiting for job: 1 ahead").await;
    stage.trail.has(next, "astray").await;
    stage.trail.never_two();
}

#[tokio::test(flavor = "multi_thread")]
async fn supervisor_and_its_inner_guardian_that_are_stopped_do_not_keep_the_command() {
    let stage = Stage::set().await;
    let first = run(&stage, SHORT_TTL, &stage.trail.stubborn());
    let token = stage.trail.token_after(0).await;
    stage.trail.has(token, "astray").await;
    let [_, inner, _] = first.chain().await;
    let second = run(&stage, SHORT_TTL, &stage.trail.polite());
    second.program.says("waiting for job").await;
    first.program.pause();
    send(inner, Signal::STOP);
    stage.trail.token_after(token).await;
    stage.trail.never_two();
}

/// Whichever process is killed with -9, the next one takes over without waiting for the lease, and safely.
async fn kills_part_of_the_chain(whom: impl Fn(u32, [u32; 3]) -> Vec<u32>) -> Stage {
    let stage = Stage::set().await;
    let mut first = run(&stage, LONG_TTL, &stage.trail.stubborn());
    let token = stage.trail.token_after(0).await;
    stage.trail.has(token, "astray").await;
    let chain = first.chain().await;
    let second = run(&stage, LONG_TTL, &stage.trail.polite());
    second.program.says("waiting for job").await;
    let begun = Instant::now();
    for pid in whom(first.pid(), chain) {
        send(pid, Signal::KILL);
    }
    stage.trail.token_after(token).await;
    assert!(begun.elapsed() < Duration::from_secs(25), "it waited for the lease");
    assert!(!lives(chain[2]));
    stage.trail.never_two();
    first.program.kill();
    stage
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_supervisor_takes_its_command_along() {
    let stage = kills_part_of_the_chain(|supervisor, _| vec![supervisor]).await;
    assert_eq!(first_end(&stage), "process killed");
}

#[tokio::test(flavor = "multi_thread")]
async fn supervisor_and_its_guardian_killed_together_take_the_command_along() {
    kills_part_of_the_chain(|supervisor, [outer, ..]| vec![supervisor, outer]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn supervisor_and_its_inner_guardian_killed_together_take_the_command_along() {
    kills_part_of_the_chain(|supervisor, [_, inner, _]| vec![supervisor, inner]).await;
}

/// The supervisor lives and leads on without a command: it resigns.
#[tokio::test(flavor = "multi_thread")]
async fn killed_guardians_take_the_command_along() {
    kills_part_of_the_chain(|_, [outer, ..]| vec![outer]).await;
    kills_part_of_the_chain(|_, [_, inner, _]| vec![inner]).await;
    kills_part_of_the_chain(|_, [outer, inner, _]| vec![outer, inner]).await;
}

/// Whether the outer guardian learns first that the inner one hung up or that no process is left is chance: both are a
/// killed guardian, and neither is a command that ended without an exit code.
#[tokio::test(flavor = "multi_thread")]
async fn run_whose_command_kills_its_guardian_was_lost() {
    let stage = Stage::set().await;
    std::thread::scope(|scope| {
        for number in 0..24 {
            let (ctl, name) = (&stage.ctl, format!("job-{number}"));
            scope.spawn(move || {
                // Not in the moment in which the guardian is about to say that it has begun.
                let work = "sleep 0.3; kill -9 $PPID; sleep 60";
                let run = ["run", &name, "--once", "--", "sh", "-c", work];
                let said = ctl.run(&run);
                assert_eq!(said.code, Some(4), "{said:?}");
                assert!(said.err.contains("a guardian was killed"), "{said:?}");
            });
        }
    });
}

/// A command that is itself a `tenure run` is gone with all that is below it, guardians included.
#[tokio::test(flavor = "multi_thread")]
async fn killed_guardians_take_a_nested_run_along() {
    let stage = Stage::set().await;
    let tenure = tools::tenure().display().to_string();
    let endpoints = stage.cluster.endpoints();
    let script = format!(
        "export OUTER=$TENURE_TOKEN; exec {tenure} --endpoints {endpoints} run -e nested -- sh -c"
    );
    // The token of the outer election is what counts.
    let work = stage.trail.stubborn().replace("$TENURE_TOKEN", "$OUTER");
    let nested = format!("{script} \"$0\"");
    let words = ["run", "-e", "job", "--ttl", LONG_TTL, "--", "sh", "-c", &nested, &work];
    let first = Supervised::start(&endpoints, &words);
    let token = stage.trail.token_after(0).await;
    stage.trail.has(token, "astray").await;
    let [outer, inner, _] = first.chain().await;
    let second = run(&stage, LONG_TTL, &stage.trail.polite());
    second.program.says("waiting for job").await;
    send(outer, Signal::KILL);
    send(inner, Signal::KILL);
    stage.trail.token_after(token).await;
    stage.trail.never_two();
}

#[tokio::test(flavor = "multi_thread")]
async fn command_runs_on_while_servers_die_and_come_back() {
    let mut stage = Stage::with_members(3).await;
    let job = run(&stage, "8s", &stage.trail.polite());
    let token = stage.trail.token_after(0).await;
    let [.., command] = job.chain().await;
    // The raft leader is killed, comes back; then all members are restarted.
    let leader = stage.cluster.leader().await;
    stage.cluster.members[leader].kill();
    stage.cluster.leader_among(&[(leader + 1) % 3, (leader + 2) % 3]).await;
    stage.cluster.members[leader].start();
    stage.cluster.members[leader].ready().await;
    for member in &mut stage.cluster.members {
        member.kill();
    }
    for member in &mut stage.cluster.members {
        member.start();
    }
    stage.cluster.ready().await;
    let steps = stage.trail.steps().len();
    // Past the lease as it was when they died: what keeps it is a renewal after that.
    eventually_within(Duration::from_secs(40), "it works on", async || {
        let more = stage.trail.steps().len() - steps;
        if more > 1_000 { Ok(()) } else { Err(format!("{more} steps more")) }
    })
    .await;
    assert!(lives(command), "{:?}", job.program.lines());
    assert_eq!(stage.trail.token_after(0).await, token);
    assert_eq!(stage.trail.steps().last().unwrap().0, token);
    let leader = stage.ctl.run(&["leader", "job", "-w", "json"]).ok();
    assert!(leader.contains(&format!("\"token\":{token}")), "{leader}");
}

/// However many wait, a change wakes only the next candidate.
#[tokio::test(flavor = "multi_thread")]
async fn waiters_are_not_all_woken_by_a_change() {
    let stage = Stage::set().await;
    // Renewals every hundred seconds: nothing else wakes a waiting process.
    let ttl = "300s";
    let first = run(&stage, ttl, &stage.trail.polite());
    let token = stage.trail.token_after(0).await;
    let mut others: Vec<Supervised> = Vec::new();
    // A few at a time, or the first ones time out before the last ones have started.
    while others.len() < 500 {
        let batch: Vec<Supervised> =
            (0..20).map(|_| run(&stage, ttl, &stage.trail.polite())).collect();
        for other in &batch {
            other.program.says("waiting for job").await;
        }
        others.extend(batch);
    }
    let wakes = |all: &[Supervised]| all.iter().map(|o| switches(o.pid())).collect::<Vec<_>>();
    let earlier = wakes(&others);
    first.signal(Signal::TERM);
    stage.trail.token_after(token).await;
    let later = wakes(&others);
    let woken = earlier.iter().zip(&later).filter(|(before, after)| after > before).count();
    // Pings of their connections wake a few at any time; a herd would be all of them.
    assert!(woken < 100, "{woken} of 500 woken");
    let leads = |o: &&Supervised| o.program.lines().iter().any(|line| line.contains("leading"));
    assert_eq!(others.iter().filter(leads).count(), 1);
    stage.trail.never_two();
}

/// How often all threads of a process have waited for something.
fn switches(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |path: std::path::PathBuf| {
        let status = std::fs::read_to_string(path.join("status")).ok()?;
        let line = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok()
    };
    tasks.flatten().filter_map(|task| of(task.path())).sum()
}
