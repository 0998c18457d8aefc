//! `tenure schedule`: each slot of each job is run once, by whichever machine leads, through takeovers.

use std::fs;

use rustix::process::Signal;
use tenure_e2e::{Ctl, Supervised, eventually, send, tools};

use crate::stage::Stage;

/// Starts a scheduler with these jobs, and a TTL that ends soon.
fn start(stage: &Stage, jobs: &str) -> Supervised {
    let file = file_of(stage, jobs);
    stage.start(&["schedule", "-f", &file, "--ttl", "2s"])
}

fn file_of(stage: &Stage, jobs: &str) -> String {
    let path = stage.file("jobs.yaml");
    fs::write(&path, format!("election: shift\njobs:\n{jobs}")).unwrap();
    path
}

/// Waits for so many lines in a file.
async fn lines(stage: &Stage, name: &str, least: usize) -> Vec<String> {
    eventually(&format!("{name} has {least} lines"), async || {
        let text = fs::read_to_string(stage.path(name)).unwrap_or_default();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if lines.len() >= least { Ok(lines) } else { Err(text) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn schedule_runs_every_slot_once_through_takeovers() {
    let stage = Stage::set().await;
    let ran = stage.path("ran");
    let jobs = format!(
        "  tick:\n    every: 1s\n    missed: run-all\n    overlap: queue\n    late-after: 1s\n    \
         command: echo $TENURE_JOB_SLOT $TENURE_TOKEN $TENURE_JOB >> {}\n",
        ran.display()
    );
    let mut schedulers: Vec<Supervised> = (0..3).map(|_| start(&stage, &jobs)).collect();
    let mut seen = 0;
    for _ in 0..2 {
        let lines = lines(&stage, "ran", seen + 3).await;
        seen = lines.len();
        // The token says who leads, by its line of talk.
        let token = lines.last().unwrap().split(' ').nth(1).unwrap().to_owned();
        let at = schedulers
            .iter()
            .position(|one| one.program.lines().join("\n").contains(&format!("token {token}:")))
            .expect("one of them leads");
        let mut leader = schedulers.remove(at);
        send(leader.pid(), Signal::KILL);
        leader.program.ends().await;
    }
    let lines = lines(&stage, "ran", seen + 3).await;
    let slots: Vec<jiff::Timestamp> =
        lines.iter().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
    for pair in slots.windows(2) {
        assert_eq!(pair[1].duration_since(pair[0]).as_secs(), 1, "{lines:?}");
    }
    assert!(lines.iter().all(|line| line.ends_with(" tick")), "{lines:?}");
    // Asked to end, it gives up the lead at once and says that all is well.
    let mut last = schedulers.pop().unwrap();
    last.signal(Signal::TERM);
    assert_eq!(last.program.ends().await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn schedule_ends_a_paused_leaders_jobs_before_another_leads() {
    let stage = Stage::set().await;
    let trail = &stage.trail;
    let work = trail.stubborn().replace('\'', "''");
    let jobs = format!("  work:\n    every: 1s\n    command: '{work}'\n    timeout: 1h\n");
    let first = start(&stage, &jobs);
    first.program.says("leading shift with token").await;
    let second = start(&stage, &jobs);
    second.program.says("waiting to lead shift").await;
    eventually("the job works", async || {
        if trail.steps().len() > 20 { Ok(()) } else { Err("not yet".into()) }
    })
    .await;
    send(first.pid(), Signal::STOP);
    second.program.says("leading shift with token").await;
    let tokens = |steps: &[(i64, String)]| {
        let mut tokens: Vec<i64> = steps.iter().map(|(token, _)| *token).collect();
        tokens.dedup();
        tokens
    };
    let steps = eventually("the second one's job works", async || {
        let steps = trail.steps();
        if tokens(&steps).len() > 1 { Ok(steps) } else { Err("not yet".into()) }
    })
    .await;
    let tokens = tokens(&steps);
    assert!(tokens.is_sorted() && tokens.len() == 2, "two worked at the same time: {tokens:?}");
    send(first.pid(), Signal::CONT);
    first.program.says("lost shift").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schedule_keeps_what_came_of_each_run() {
    let stage = Stage::set().await;
    let jobs = "  fails: {every: 1s, command: exit 3, retries: 1, overlap: queue}\n  \
                long: {every: 1s, command: sleep 1000, timeout: 1500ms}\n  \
                good: {every: 1s, command: [\"true\"]}\n";
    let _scheduler = start(&stage, jobs);
    let has = async |job: &str, outcome: &str| {
        eventually(&format!("a run of {job} that is {outcome}"), async || {
            let history = stage.history(&format!("shift/{job}"));
            let found = history.iter().find(|run| run["outcome"] == outcome).cloned();
            found.ok_or_else(|| format!("{history:?}"))
        })
        .await
    };
    let failed = has("fails", "failed").await;
    assert_eq!((&failed["exit_code"], &failed["attempts"]), (&3.into(), &2.into()), "{failed}");
    assert_eq!(has("long", "failed").await["exit_code"], 124);
    has("long", "skipped").await;
    assert_eq!(has("good", "done").await["exit_code"], 0);
    let list =
        stage.ctl.run(&["schedule", "-f", &file_of(&stage, jobs), "--list", "-w", "json"]).ok();
    let list: Vec<serde_json::Value> =
        list.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(list.len(), 3);
    assert_eq!(list[0]["next"].as_array().unwrap().len(), 3, "{list:?}");
    assert!(list[0]["last"]["slot"].is_string(), "{list:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn schedule_waits_for_its_server_and_ends_when_asked() {
    let mut stage = Stage::set().await;
    stage.cluster.members[0].kill();
    let ran = stage.path("ran");
    let jobs = format!("  tick: {{every: 1s, command: 'echo x >> {}'}}\n", ran.display());
    let mut scheduler = start(&stage, &jobs);
    scheduler.program.says("trying again").await;
    stage.cluster.members[0].start();
    lines(&stage, "ran", 1).await;
    scheduler.signal(Signal::INT);
    assert_eq!(scheduler.program.ends().await.code(), Some(0));
    // A file with mistakes is refused with all of them.
    let file = file_of(&stage, "  a: {command: x, cron: often}\n  b: {command: x, evry: 1s}\n");
    let said = stage.ctl.run(&["schedule", "-f", &file, "--check"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("evry"), "{said:?}");
}

/// What readers copy.
#[test]
fn schedule_takes_the_file_of_its_page() {
    let page = include_str!("../../../../docs/how-to/cron.md");
    let (_, from) = page.split_once("```yaml\n").unwrap();
    let (yaml, _) = from.split_once("```").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("jobs.yaml");
    fs::write(&file, yaml).unwrap();
    let ctl = Ctl::to("127.0.0.1:1").with_program(tools::tenure());
    let said = ctl.run(&["schedule", "-f", &file.display().to_string(), "--check"]);
    assert!(said.code == Some(0) && said.out.contains("3 jobs"), "{said:?}");
}
