//! What happens when an invariant breaks: say what, how to see it again, and which blows matter.
//!
//! The worlds of the lab end a broken run by a panic, wherever it is found. The hook that is set here says
//! what is known, finds the few blows that matter by playing shorter scripts, each in a process of its own
//! (a run that panics takes its process with it), and ends this one.

use std::io::Write;
use std::process::{Command, Stdio};

use tenure_lab::cluster::canary::plant_for_good;
use tenure_lab::cluster::strike::blows_so_far;
use tenure_lab::faults::{Script, shrink};

use super::name::RunName;
use crate::exit::Exit;

/// Set in the processes that try shorter scripts.
const TRYING: &str = "TENURE_LAB_TRYING";
/// What they say before what broke.
const BROKEN: &str = "broken: ";
/// So many shorter scripts are tried.
const TRIES_MAX: usize = 1000;

/// Names a planted bug, in builds that have them.
const CANARY: &str = "TENURE_LAB_CANARY";

/// From now on, whatever breaks is that run's.
pub(super) fn when_it_fails(run: &RunName, script: Option<&Script>) {
    if let Ok(canary) = std::env::var(CANARY)
        && !plant_for_good(&canary)
    {
        eprintln!("{CANARY}: there is no {canary} in this build");
    }
    let (run, script) = (run.clone(), script.cloned());
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload_as_str().unwrap_or("it cannot be said").to_owned();
        if std::env::var_os(TRYING).is_some() {
            println!("{BROKEN}{}", kind(&text));
        } else {
            report(&run, &text, script.as_ref());
        }
        std::process::exit(i32::from(Exit::Error.code()));
    }));
}

fn report(run: &RunName, text: &str, script: Option<&Script>) {
    eprintln!("FAILED: run {run}\n{text}\n");
    let blows = blows_so_far();
    let fell = script.unwrap_or(&blows);
    eprintln!("{} blows had fallen; looking for those that matter", fell.steps.len());
    let mut tries = 0;
    let short = shrink(fell, TRIES_MAX, |shorter| {
        tries += 1;
        eprint!("\r{tries} tries, {} blows … ", shorter.steps.len());
        fails(run, shorter, &kind(text))
    });
    eprintln!("\r{tries} tries, {} blows are left:   \n\n{short}", short.steps.len());
    let (scenario, seed) = (&run.scenario, run.seed);
    let path = std::env::temp_dir().join(format!("tenure-{scenario}-{seed}.faults"));
    let kept = std::fs::write(&path, short.to_string()).is_ok();
    match script {
        None => eprintln!("the whole run again:   tenure lab replay {run}"),
        Some(_) => eprintln!("the whole run again:   the same command with --trace text"),
    }
    if kept {
        let path = path.display();
        eprintln!(
            "only what matters:     tenure lab run {scenario} --seed {seed} --faults {path} --trace text"
        );
    }
}

/// What broke, without what differs from run to run: an invariant's name, or the first words without their
/// figures.
fn kind(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    match first.strip_prefix("invariant ") {
        Some(rest) => rest.split(':').next().unwrap_or_default().to_owned(),
        None => {
            let words = first.split(':').take(2).collect::<Vec<_>>().join(":");
            words.chars().filter(|c| !c.is_ascii_digit()).take(80).collect()
        }
    }
}

/// Whether a run still fails in the same way with these blows only.
fn fails(run: &RunName, script: &Script, as_before: &str) -> bool {
    let Ok(program) = std::env::current_exe() else { return false };
    let seed = run.seed.to_string();
    let child = Command::new(program)
        .args(["lab", "run", &run.scenario, "--seed", &seed, "--faults", "-"])
        .env(TRYING, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return false };
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(script.to_string().as_bytes());
    }
    let said = child.wait_with_output().map(|output| output.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    said.lines().filter_map(|line| line.strip_prefix(BROKEN)).any(|kind| kind == as_before)
}
