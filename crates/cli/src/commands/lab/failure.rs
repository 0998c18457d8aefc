//! What happens when an invariant breaks: say what, how to see it again, and which blows matter.
//!
//! The worlds of the lab end a broken run by a panic, wherever it is found. The hook that is set here says
//! what is known, finds the few blows that matter by playing shorter scripts, each in a process of its own
//! (a run that panics takes its process with it), and ends this one.

use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use tenure_lab::cluster::canary::plant_for_good;
use tenure_lab::cluster::so_far::{blows_so_far, moment_so_far};
use tenure_lab::engine::Event;
use tenure_lab::faults::{Script, shrink};

use super::TraceForm;
use super::name::RunName;
use crate::exit::Exit;
use crate::output::Format;

/// Set in the processes that try shorter scripts.
const TRYING: &str = "TENURE_LAB_TRYING";
/// What they say before what broke.
const BROKEN: &str = "broken: ";
/// So many shorter scripts are tried.
const TRIES_MAX: usize = 1000;

/// Names a planted bug, in builds that have them.
const CANARY: &str = "TENURE_LAB_CANARY";

/// From now on, whatever breaks is that run's.
pub(super) fn when_it_fails(
    run: &RunName,
    script: Option<&Script>,
    form: Option<TraceForm>,
    format: Format,
) {
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
            tell(&run, &text, script.as_ref(), form, format);
            report(&run, &text, script.as_ref());
        }
        std::process::exit(i32::from(Exit::Error.code()));
    }));
}

/// A trace ends with what broke, and with a result as every other.
fn tell(
    run: &RunName,
    text: &str,
    script: Option<&Script>,
    form: Option<TraceForm>,
    format: Format,
) {
    let (now, what) = (moment_so_far(), kind(text));
    // This process ends anyway: if nobody reads on, so be it.
    if let Some(form) = form {
        let first = text.lines().next().unwrap_or_default();
        let broken = Event::new("broken", format!("!! {first}"))
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

/// The command that shows a run again, with the blows of one's own if there were any.
pub(super) fn again(run: &RunName, script: Option<&Script>) -> String {
    match script {
        None => format!("tenure lab replay {run}"),
        Some(script) => keep(run, script, "")
            .map_or("the same command with --trace text".into(), |path| with_blows(run, &path)),
    }
}

fn with_blows(run: &RunName, path: &Path) -> String {
    let RunName { scenario, seed, .. } = run;
    let path = path.display();
    format!("tenure lab run {scenario} --seed {seed} --faults {path} --trace text")
}

/// Writes blows to a file; none if that cannot be done.
fn keep(run: &RunName, script: &Script, which: &str) -> Option<PathBuf> {
    let RunName { scenario, seed, .. } = run;
    let path = std::env::temp_dir().join(format!("tenure-{scenario}-{seed}{which}.faults"));
    std::fs::write(&path, script.to_string()).ok().map(|()| path)
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
    eprintln!("the whole run again:   {}", again(run, script));
    if let Some(path) = keep(run, &short, "-short") {
        eprintln!("only what matters:     {}", with_blows(run, &path));
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
