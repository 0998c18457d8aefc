//! `tenure lab`, as people and programs use it.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tenure_e2e::tools;

fn lab(args: &[&str]) -> Output {
    Command::new(tools::tenure()).arg("lab").args(args).output().unwrap()
}

fn lab_with(args: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(tools::tenure())
        .arg("lab")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The lines of a JSON trace.
fn events(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn lab_runs_everything_that_it_lists() {
    let list = json(&lab(&["list", "-w", "json"]));
    let shown = text(&lab(&["list"]).stdout);
    for kind in ["algorithms", "stories", "scenarios"] {
        let all = list[kind].as_array().unwrap();
        assert!(!all.is_empty(), "no {kind}");
        for one in all {
            assert!(shown.contains(one["name"].as_str().unwrap()), "{one} is not shown");
        }
    }
    for story in list["stories"].as_array().unwrap() {
        let name = story["name"].as_str().unwrap();
        let run = lab(&["run", name, "-w", "json"]);
        assert_eq!(run.status.code(), Some(0), "{name}: {}", text(&run.stdout));
        let result = json(&run);
        let broken = |promise: &&Value| promise["kept"] == false;
        let found = result["promises"].as_array().unwrap().iter().filter(broken).count();
        assert_eq!(found, story["breaks"].as_array().unwrap().len(), "{name}: {result}");
    }
    for scenario in list["scenarios"].as_array().unwrap() {
        let name = scenario["name"].as_str().unwrap();
        let run = lab(&["run", name, "-w", "json"]);
        assert_eq!(run.status.code(), Some(0), "{name}: {}", text(&run.stdout));
    }
}

#[test]
fn story_is_told_in_a_sentence_and_a_timeline() {
    let run = lab(&["run", "redlock-pause"]);
    assert_eq!(run.status.code(), Some(0));
    let told = text(&run.stdout);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[0], "redlock-pause, a story of redlock");
    assert!(lines[1].starts_with("  All five servers and their clocks are right."), "{told}");
    for part in
        ["5.000 s  fault: pause leader for 20s", "BROKEN: a and", "the end: ", "--trace text"]
    {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    assert!(lines.len() < 25, "{told}");
    let traced = text(&lab(&["run", "redlock-pause", "--trace", "text"]).stdout);
    assert!(traced.lines().count() > 1000 && !traced.contains("the end: "));
}

#[test]
fn lab_lists_the_stories_of_an_algorithm_that_is_to_be_run() {
    let list = text(&lab(&["list", "redlock"]).stdout);
    assert!(list.contains("redlock-pause") && !list.contains("bully"), "{list}");
    let family = json(&lab(&["list", "raft", "-w", "json"]));
    let names: Vec<_> = family["algorithms"].as_array().unwrap().iter().collect();
    assert!(
        names.len() > 4
            && names.iter().all(|one| one["name"].as_str().unwrap().starts_with("raft"))
    );
    let run = lab(&["run", "redlock"]);
    assert_eq!(run.status.code(), Some(2), "nothing was played");
    let said = text(&run.stderr);
    assert!(said.contains("redlock-pause: All five servers"), "{said}");
    let unknown = lab(&["list", "redlok"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("did you mean redlock?"), "{unknown:?}");
}

#[test]
fn story_is_explained_without_a_run() {
    let told = text(&lab(&["explain", "redlock-clock-jump"]).stdout);
    for part in [
        "at 4s clock s3 jumps +20s           its wall clock is set",
        "  broken  at most one believes to lead",
        "  kept    a leader at the end",
        "Kleppmann",
        "tenure lab run redlock-clock-jump",
    ] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    for name in ["redlock", "partitions"] {
        assert_eq!(json(&lab(&["explain", name, "-w", "json"]))["name"], name);
    }
    assert_eq!(lab(&["explain", "nothing"]).status.code(), Some(2));
}

/// The story breaks the promise of one leader in a pause; so does the experiment.
#[test]
fn comparison_shows_the_two_leaders_that_a_story_shows() {
    let compared = json(&lab(&["compare", "redlock", "etcd-recipe", "--seeds", "3", "-w", "json"]));
    let rows = compared["algorithms"].as_array().unwrap();
    assert_eq!(rows[0]["doubles_in_pause"], 3, "{}", rows[0]);
    assert_eq!(rows[0]["stale_in_pause"], 3, "{}", rows[0]);
    let shown = text(&lab(&["compare", "redlock", "--seeds", "3"]).stdout);
    assert!(shown.contains("| an instant") && shown.contains("an instant: two leaders"), "{shown}");
}

#[test]
fn trace_can_be_drawn_from() {
    for name in ["bully-partition", "tenure-pause", "elections", "recipes-programs"] {
        let lines = events(&lab(&["run", name, "--trace", "json"]));
        let of = |kind: &str| lines.iter().filter(|line| line["event"] == kind).count();
        for kind in ["send", "state", "timer", "fault", "result"] {
            assert!(of(kind) > 0, "{name} has no {kind}");
        }
        let sent = lines.iter().find(|line| line["event"] == "send").unwrap();
        assert!(sent["arrives"].is_array() && sent["message"].is_u64(), "{sent}");
        let states = lines.iter().filter(|line| line["event"] == "state");
        assert!({ states }.any(|line| line["state"]["role"] == "leader"), "{name}: nobody leads");
        let beliefs = of("lead") + of("believe");
        assert!(beliefs > 0, "{name}: nobody believes anything");
        let mut last = 0;
        for line in &lines[..lines.len() - 1] {
            let at = line["at"].as_u64().unwrap();
            assert!(at >= last, "time goes back");
            last = at;
        }
    }
}

#[test]
fn run_is_the_same_again_by_its_name() {
    let result = json(&lab(&["run", "rough", "--seed", "5", "-w", "json"]));
    let name = result["run"].as_str().unwrap();
    assert!(name.ends_with("/rough/5"), "{name}");
    let (first, second) = (lab(&["replay", name]), lab(&["replay", name]));
    assert!(first.stdout.len() > 10_000 && first.stdout == second.stdout);
    let other = lab(&["replay", "0123456789ab/rough/5"]);
    assert!(text(&other.stderr).contains("it may differ"), "{}", text(&other.stderr));
}

#[test]
fn faults_of_a_user_say_what_they_break() {
    let script = "# The leader is gone for a while.\nat 2s pause e for 3s\n";
    let run = lab_with(&["run", "bully-crash", "--faults", "-"], script);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    assert!(text(&run.stdout).contains("  broken  at most one believes to lead"));
    let wrong =
        lab_with(&["run", "bully-crash", "--faults", "-"], "at 2s pause e\nat 3s explode\n");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("line 2, column 7: there is no such fault: explode"));
    let nobody = lab_with(&["run", "bully-crash", "--faults", "-"], "at 2s pause zoe\n");
    assert_eq!(nobody.status.code(), Some(2));
    assert!(
        text(&nobody.stderr).contains("there is no process zoe; the processes are a, b, c, d, e")
    );
    let unknown = lab(&["run", "bully-crsh"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("did you mean bully-crash?"));
}

#[test]
fn run_that_proves_nothing_fails() {
    let felt = lab_with(&["run", "calm", "--faults", "-"], "at 1s crash leader for 200ms\n");
    assert_eq!(felt.status.code(), Some(0), "{}", text(&felt.stderr));
    let late = "at 1s crash leader for 200ms\nat 10m isolate m1 for 1s\n";
    let never = lab_with(&["run", "calm", "--faults", "-"], late);
    assert_eq!(never.status.code(), Some(1), "{}", text(&never.stderr));
    let said = text(&never.stdout);
    assert!(said.contains("NEVER HAPPENED, so the run proves nothing about: isolate"), "{said}");
}

#[test]
fn story_that_surprises_says_how_to_see_it_again() {
    let late = "at 1s crash leader for 200ms\nat 10m isolate a for 1s\n";
    for (name, surprise) in [("bully-crash", "NOT AS EXPECTED"), ("calm", "NEVER HAPPENED")] {
        let late = if name == "calm" { late.replace(" a ", " m1 ") } else { late.to_owned() };
        let run = lab_with(&["run", name, "--seed", "3", "--faults", "-"], &late);
        assert_eq!(run.status.code(), Some(1), "{}", text(&run.stderr));
        let said = text(&run.stdout);
        assert!(said.contains(surprise), "{said}");
        let again = said.lines().find_map(|line| line.split("again:   tenure lab ").nth(1));
        let again: Vec<&str> = again.unwrap_or_else(|| panic!("{said}")).split(' ').collect();
        let second = lab(&again);
        assert_eq!(second.status.code(), Some(1), "{again:?}: {}", text(&second.stderr));
        assert!(text(&second.stdout).contains(surprise), "{again:?}");
        let result = json(&lab_with(&["run", name, "--faults", "-", "-w", "json"], &late));
        assert!(result["failed"] == true && result["again"].is_string(), "{result}");
    }
}

#[test]
fn algorithms_are_compared_by_measuring() {
    let compared = json(&lab(&["compare", "bully", "ring", "--seeds", "3", "-w", "json"]));
    let rows = compared["algorithms"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert!(row["failover_us"].as_u64().unwrap() > 0, "{row}");
        assert_eq!(row["partition_leads"], "both", "{row}");
    }
    let shown = text(&lab(&["compare", "bully", "ring", "--seeds", "3"]).stdout);
    assert!(shown.starts_with("| algorithm") && shown.contains("| bully"), "{shown}");
    assert!(!shown.contains("(00") && !shown.contains("Some("), "{shown}");
    assert_eq!(lab(&["compare", "bulli"]).status.code(), Some(2));
}

#[test]
fn soak_says_what_it_did() {
    let soaked = lab(&["soak", "--minutes", "0.05", "--scenario", "calm", "-w", "json"]);
    assert_eq!(soaked.status.code(), Some(0), "{}", text(&soaked.stderr));
    let soaked = json(&soaked);
    assert!(soaked["virtual_s"].as_f64().unwrap() > 1.0, "{soaked}");
    assert!(soaked["operations"].as_u64().unwrap() > 20, "{soaked}");
}

/// What is said when an invariant breaks, seen with a bug that was planted. Release builds have none.
#[test]
fn lab_cuts_a_failure_down_to_what_matters_and_plays_it_again() {
    let canary = |args: &[&str]| {
        let mut command = Command::new(tools::tenure());
        command.arg("lab").args(args).env("TENURE_LAB_CANARY", "ReadUnasked").output().unwrap()
    };
    let breaks = |seed: &str, more: &[&str]| {
        let quiet = Command::new(tools::tenure())
            .args(["lab", "run", "partitions", "--seed", seed])
            .args(more)
            .env("TENURE_LAB_CANARY", "ReadUnasked")
            .env("TENURE_LAB_TRYING", "1")
            .output()
            .unwrap();
        quiet.status.code() == Some(1)
    };
    // One that needs a fault: now and then an unasked read is too old without any.
    let no_faults = tempfile::NamedTempFile::new().unwrap();
    let no_faults = ["--faults", no_faults.path().to_str().unwrap()];
    let seed = (1..=60)
        .map(|seed| seed.to_string())
        .find(|seed| breaks(seed, &[]) && !breaks(seed, &no_faults));
    let seed = seed.expect("an unasked read is found");
    let failed = canary(&["run", "partitions", "--seed", &seed]);
    assert_eq!(failed.status.code(), Some(1));
    let said = text(&failed.stderr);
    assert!(said.contains("FAILED: run") && said.contains("invariant"), "{said}");
    let again = said.lines().find(|line| line.contains("--faults")).unwrap();
    let file = again.split("--faults ").nth(1).unwrap().split(' ').next().unwrap();
    let left = std::fs::read_to_string(file).unwrap();
    let count = left.lines().count();
    assert!((1..=10).contains(&count), "this much matters?\n{left}");
    let shown =
        canary(&["run", "partitions", "--seed", &seed, "--faults", file, "--trace", "json"]);
    assert_eq!(shown.status.code(), Some(1), "{}", text(&shown.stderr));
    let lines = events(&shown);
    let [.., last, broken, result] = &lines[..] else { panic!("there is no trace") };
    assert_eq!(broken["event"], "broken", "{broken}");
    let invariant = broken["invariant"].as_str().unwrap();
    assert!(said.contains(&format!("invariant {invariant}: ")), "{broken}");
    assert!(broken["how"].as_str().unwrap().contains(invariant), "{broken}");
    assert!(broken["at"].as_u64() >= last["at"].as_u64(), "{broken} comes before {last}");
    assert_eq!(result["event"], "result", "{result}");
    assert!(result["failed"] == true && result["broken"] == invariant, "{result}");
}
