//! `tenure schedule`: each slot of each job is run once, by whichever machine leads, through takeovers.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;
use tenure_e2e::{Cluster, Ctl, Supervised, Trail, eventually, send, tools};

struct Stage {
    cluster: Cluster,
    ctl: Ctl,
    dir: tempfile::TempDir,
}

impl Stage {
    async fn set() -> Stage {
        let cluster = Cluster::start(1).await;
        let ctl = Ctl::to(&cluster.endpoints()).with_program(tools::tenure());
        Stage { cluster, ctl, dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts a scheduler with these jobs, and a TTL that ends soon.
    fn start(&self, jobs: &str) -> Supervised {
        let file = self.jobs(jobs);
        let words = ["schedule", "-f", &file, "--ttl", "2s"];
        Supervised::start(&self.cluster.endpoints(), &words)
    }

    fn jobs(&self, jobs: &str) -> String {
        let path = self.path("jobs.yaml");
        fs::write(&path, format!("election: shift\njobs:\n{jobs}")).unwrap();
        path.display().to_string()
    }

    fn history(&self, job: &str) -> Vec<serde_json::Value> {
        let job = format!("shift/{job}");
        let said = self.ctl.run(&["once", &job, "--history", "-w", "json"]).ok();
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits for so many lines in a file.
    async fn lines(&self, name: &str, least: usize) -> Vec<String> {
        eventually(&format!("{name} has {least} lines"), async || {
            let text = fs::read_to_string(self.path(name)).unwrap_or_default();
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            if lines.len() >= least { Ok(lines) } else { Err(text) }
        })
        .await
    }
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
    let mut schedulers: Vec<Supervised> = (0..3).map(|_| stage.start(&jobs)).collect();
    let mut seen = 0;
    for _ in 0..2 {
        let lines = stage.lines("ran", seen + 3).await;
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
    let lines = stage.lines("ran", seen + 3).await;
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
    let trail = Trail::new(stage.dir.path());
    let work = trail.stubborn().replace('\'', "''");
    let jobs = format!("  work:\n    every: 1s\n    command: '{work}'\n    timeout: 1h\n");
    let first = stage.start(&jobs);
    first.program.says("leading shift with token").await;
    let second = stage.start(&jobs);
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
    let _scheduler = stage.start(jobs);
    let has = async |job: &str, outcome: &str| {
        eventually(&format!("a run of {job} that is {outcome}"), async || {
            let history = stage.history(job);
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
    let list = stage.ctl.run(&["schedule", "-f", &stage.jobs(jobs), "--list", "-w", "json"]).ok();
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
    let mut scheduler = stage.start(&jobs);
    scheduler.program.says("trying again").await;
    stage.cluster.members[0].start();
    stage.lines("ran", 1).await;
    scheduler.signal(Signal::INT);
    assert_eq!(scheduler.program.ends().await.code(), Some(0));
    // A file with mistakes is refused with all of them.
    let file = stage.jobs("  a: {command: x, cron: often}\n  b: {command: x, evry: 1s}\n");
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
