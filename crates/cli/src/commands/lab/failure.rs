//! What happens when an invariant breaks: print it, how to repeat the run, and the faults that matter.
//!
//! The lab ends a broken run by a panic, wherever that is found. The hook that is set here prints what is known, finds the
//! few faults that matter by playing shorter scripts, each in a process of its own (a run that panics ends its process),
//! and ends this one.

use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use tenure_lab::Canary;
use tenure_lab::cluster::progress::{injected_faults, moment_reached};
use tenure_lab::engine::TraceEvent;
use tenure_lab::faults::{FaultScript, shrink};

use super::TraceForm;
use super::name::RunName;
use crate::exit::Exit;
use crate::output::Format;

/// Set in the processes that try shorter scripts.
const TRYING: &str = "TENURE_LAB_TRYING";
/// The prefix of the broken invariant in their output.
const BROKEN: &str = "broken: ";
/// How many shorter scripts are tried.
const TRIES_MAX: usize = 1000;

/// Names a planted bug, in builds that have them.
const CANARY: &str = "TENURE_LAB_CANARY";

/// Attributes every failure from now on to that run.
pub(super) fn when_it_fails(
    run: &RunName,
    script: Option<&FaultScript>,
    form: Option<TraceForm>,
    format: Format,
) {
    if let Ok(name) = std::env::var(CANARY) {
        match Canary::named(&name) {
            // For the rest of the process.
            Some(canary) => std::mem::forget(canary.plant()),
            None => eprintln!("{CANARY}: this build has no planted bug {name}"),
        }
    }
    let (run, script) = (run.clone(), script.cloned());
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload_as_str().unwrap_or("unknown").to_owned();
        if std::env::var_os(TRYING).is_some() {
            println!("{BROKEN}{}", kind(&text));
        } else {
            tell(&run, &text, script.as_ref(), form, format);
            report(&run, &text, script.as_ref());
        }
        std::process::exit(i32::from(Exit::Error.code()));
    }));
}

/// A trace ends with the failure, and with a result like every other.
fn tell(
    run: &RunName,
    text: &str,
    script: Option<&FaultScript>,
    form: Option<TraceForm>,
    format: Format,
) {
    let (now, what) = (moment_reached(), kind(text));
    // This process ends anyway: a closed pipe does not matter.
    if let Some(form) = form {
        let first = text.lines().next().unwrap_or_default();
        let broken = TraceEvent::new("broken", format!("!! {first}"))
            .with("invariant", what.as_str())
            .with("how", text);
        let _ = writeln!(stdout(), "{}", broken.line(form.into(), now));
    }
    if format == Format::Json || form == Some(TraceForm::Json) {
        let line = json!({
            "event": "result",
            "run": run.to_string(),
            "virtual_s": now.since_start().as_secs_f64(),
            "failed": true,
            "broken": what,
            "how": text,
            "again": again(run, script),
        });
        let _ = writeln!(stdout(), "{line}");
    }
}

/// The command that repeats a run, with its fault script if it had one.
pub(super) fn again(run: &RunName, script: Option<&FaultScript>) -> String {
    match script {
        None => format!("tenure lab replay {run}"),
        Some(script) => keep(run, script, "")
            .map_or("the same command with --trace text".into(), |path| with_faults(run, &path)),
    }
}

fn with_faults(run: &RunName, path: &Path) -> String {
    let RunName { scenario, seed, .. } = run;
    let path = path.display();
    format!("tenure lab run {scenario} --seed {seed} --faults {path} --trace text")
}

/// Writes a fault script to a file; none if that fails.
fn keep(run: &RunName, script: &FaultScript, which: &str) -> Option<PathBuf> {
    let RunName { scenario, seed, .. } = run;
    let path = std::env::temp_dir().join(format!("tenure-{scenario}-{seed}{which}.faults"));
    let mut file = crate::files::create_anew(&path).ok()?;
    file.write_all(script.to_string().as_bytes()).ok().map(|()| path)
}

fn report(run: &RunName, text: &str, script: Option<&FaultScript>) {
    eprintln!("FAILED: run {run}\n{text}\n");
    let faults = injected_faults();
    let fell = script.unwrap_or(&faults);
    eprintln!("{} faults had been injected; looking for those that matter", fell.steps.len());
    let mut tries = 0;
    let short = shrink(fell, TRIES_MAX, |shorter| {
        tries += 1;
        eprint!("\r{tries} tries, {} faults … ", shorter.steps.len());
        fails(run, shorter, &kind(text))
    });
    eprintln!("\r{tries} tries, {} faults are left:   \n\n{short}", short.steps.len());
    eprintln!("the whole run again:   {}", again(run, script));
    if let Some(path) = keep(run, &short, "-short") {
        eprintln!("only what matters:     {}", with_faults(run, &path));
    }
}

/// The failure without what differs from run to run: an invariant's name, or the first words without their numbers.
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

/// Whether a run still fails in the same way with these faults only.
fn fails(run: &RunName, script: &FaultScript, as_before: &str) -> bool {
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
