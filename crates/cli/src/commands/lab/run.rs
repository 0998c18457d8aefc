//! One run: a story of an algorithm, or a scenario of the shipped replica.

use std::io::{Read, Write, stdout};
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};
use tenure_lab::algorithms::{self, Story, StoryOutcome};
use tenure_lab::cluster::{catalogue, scenario::Scenario};
use tenure_lab::engine::{RunCounts, Trace};
use tenure_lab::faults::FaultScript;
use tenure_lab::invariants;
use tenure_lab::stage::{Timeline, seconds};

use super::name::{Kind, RunName, unknown};
use super::text::{width, wrapped};
use super::{RunArgs, TraceForm, explain, failure};
use crate::commands::version::COMMIT;
use crate::exit::{Exit, usage};
use crate::output::Format;

pub(super) fn run(args: &RunArgs, format: Format) -> anyhow::Result<Exit> {
    let script = args.faults.as_deref().map(read).transpose()?;
    play(&args.scenario, args.seed, script.as_ref(), args.trace, format)
}

pub(super) fn replay(run: &RunName, format: Format) -> anyhow::Result<Exit> {
    if let Some(commit) = run.commit.as_deref().filter(|commit| *commit != COMMIT) {
        eprintln!("this is commit {COMMIT}, the run was of {commit}: it may differ");
    }
    let form = if format == Format::Json { TraceForm::Json } else { TraceForm::Text };
    play(&run.scenario, run.seed, None, Some(form), format)
}

/// The scenario of the shipped replica that has this name.
pub(super) fn scenario(name: &str) -> Option<&'static Scenario> {
    catalogue::SCENARIOS.into_iter().find(|scenario| scenario.name == name)
}

fn play(
    name: &str,
    seed: u64,
    script: Option<&FaultScript>,
    form: Option<TraceForm>,
    format: Format,
) -> anyhow::Result<Exit> {
    let run = RunName::here(name, seed);
    let is_json = format == Format::Json || form == Some(TraceForm::Json);
    if let Some(story) = algorithms::story(name) {
        if !is_json {
            let kind = format!("a story of {}", story.algorithm.name);
            writeln!(stdout(), "{}", explain::heading(name, &kind, story.about))?;
        }
        let (recorded, timeline) = Timeline::recorded(story.algorithm.promises);
        let trace = if form.is_none() && !is_json { recorded } else { trace(form) };
        let outcome = story.play(seed, script, trace).map_err(usage)?;
        if form.is_none() && !is_json {
            tell_timeline(&timeline.borrow(), story)?;
        }
        let failed = !outcome.surprises.is_empty();
        let again = failed.then(|| failure::again(&run, script));
        return tell_story(&run, &outcome, again, form, is_json);
    }
    if let Some(scenario) = scenario(name) {
        if !is_json {
            let kind = "a scenario of the shipped replica";
            writeln!(stdout(), "{}", explain::heading(name, kind, scenario.about))?;
        }
        failure::when_it_fails(&run, script, form, format);
        let world = scenario.play_traced(seed, script, trace(form)).map_err(usage)?;
        let (virtual_s, counts) = (world.now().since_start().as_secs_f64(), world.counts.clone());
        let mut never = world.never_injected();
        never.extend(counts.missing(invariants::of_every_run(scenario)));
        // Drops the trace, too, whose last lines come before the result.
        drop(world);
        let again = (!never.is_empty()).then(|| failure::again(&run, script));
        let held = Held { virtual_s, counts, never, again };
        return tell_scenario(&run, &held, is_json);
    }
    match algorithms::algorithm(name) {
        // Nothing was played: the exit code must not say that all is well.
        Some(algorithm) => Err(usage(format!(
            "{name} is an algorithm, not a story\n\n{}",
            explain::stories(algorithm).trim_end()
        ))),
        None => Err(unknown(name, &[Kind::Story, Kind::Scenario])),
    }
}

fn read(path: &Path) -> anyhow::Result<FaultScript> {
    let mut text = String::new();
    if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).context("cannot read stdin")?;
    } else {
        text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
    }
    text.parse().map_err(|error| usage(format!("{}: {error}", path.display())))
}

/// Writes lines to stdout as they come. A reader may close the pipe.
fn trace(form: Option<TraceForm>) -> Trace {
    let Some(form) = form else { return Trace::default() };
    // Line by line: a run that fails ends its process, and its last lines are those that matter.
    Trace::read_by(form.into(), move |line| {
        if writeln!(stdout(), "{line}").is_err() {
            std::process::exit(i32::from(Exit::Done.code()));
        }
    })
}

fn tell_story(
    run: &RunName,
    outcome: &StoryOutcome,
    again: Option<String>,
    form: Option<TraceForm>,
    is_json: bool,
) -> anyhow::Result<Exit> {
    let ledger = &outcome.ledger;
    if is_json {
        writeln!(stdout(), "{}", result_json(run, outcome, again))?;
    } else {
        let mut out = stdout().lock();
        for verdict in &outcome.verdicts {
            let line = match &verdict.breach {
                None => format!("  kept    {}", verdict.promise),
                Some((at, how)) => {
                    let at = seconds(at.since_start());
                    format!("  broken  {}: {how} (at {at})", verdict.promise)
                }
            };
            writeln!(out, "{}", wrapped(&line, 10, width()))?;
        }
        let tenures = count(ledger.tenures.len() as u64, "tenure", "tenures");
        let two = match ledger.doubles {
            0 => "never two leaders at once".to_owned(),
            _ if ledger.double.is_zero() => "two leaders at once for an instant".to_owned(),
            _ => format!("two leaders at once for {}", seconds(ledger.double)),
        };
        writeln!(out, "  {tenures}; no leader for {}, {two}", seconds(ledger.vacant))?;
        writeln!(
            out,
            "  writes: {} taken, {} of them from a replaced leader; {} refused",
            ledger.writes_taken, ledger.stale_writes_taken, ledger.writes_refused
        )?;
        writeln!(
            out,
            "  messages: {} for elections, {} routine",
            ledger.sent(),
            ledger.routine_sent()
        )?;
        let more = match form {
            None => "; --trace text prints every event",
            Some(_) => "",
        };
        writeln!(out, "run {run}{more}")?;
        for surprise in &outcome.surprises {
            writeln!(out, "  NOT AS EXPECTED: {surprise}")?;
        }
        tell_again(&mut out, again.as_deref())?;
    }
    Ok(if outcome.surprises.is_empty() { Exit::Done } else { Exit::Error })
}

/// The last line of a story's trace.
pub(super) fn result_json(run: &RunName, outcome: &StoryOutcome, again: Option<String>) -> Value {
    let ledger = &outcome.ledger;
    let verdicts: Vec<_> = outcome
        .verdicts
        .iter()
        .map(|verdict| {
            let breach = verdict.breach.as_ref();
            json!({
                "promise": verdict.promise.to_string(),
                "key": verdict.promise.key(),
                "kept": verdict.is_kept(),
                "judged": verdict.checked,
                "broken_at_us": breach.map(|(at, _)| at.since_start().as_micros() as u64),
                "how": breach.map(|(_, how)| how),
            })
        })
        .collect();
    json!({
        "event": "result",
        "run": run.to_string(),
        "promises": verdicts,
        "surprises": outcome.surprises,
        "failed": again.is_some(),
        "again": again,
        "tenures": ledger.tenures.len(),
        "vacant_us": ledger.vacant.as_micros() as u64,
        "double_us": ledger.double.as_micros() as u64,
        "doubles": ledger.doubles,
        "writes_taken": ledger.writes_taken,
        "writes_refused": ledger.writes_refused,
        "stale_writes_taken": ledger.stale_writes_taken,
        "messages": ledger.sent(),
        "routine_messages": ledger.routine_sent(),
    })
}

/// What happened, in about a dozen lines.
fn tell_timeline(timeline: &Timeline, story: &Story) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    for line in timeline.lines(story.lasts) {
        let Some(line) = line else {
            writeln!(out, "            …")?;
            continue;
        };
        let text = format!("{:>11}  {}", seconds(line.at.since_start()), line.text);
        writeln!(out, "{}", wrapped(&text, 13, width()))?;
    }
    writeln!(out)?;
    Ok(())
}

fn count(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Prints how to repeat a run with an unexpected outcome.
fn tell_again(out: &mut impl Write, again: Option<&str>) -> std::io::Result<()> {
    again.map_or(Ok(()), |again| writeln!(out, "the whole run again:   {again}"))
}

/// A run in which no invariant broke.
struct Held {
    virtual_s: f64,
    counts: RunCounts,
    /// What the run proves nothing about.
    never: Vec<&'static str>,
    again: Option<String>,
}

fn tell_scenario(run: &RunName, held: &Held, is_json: bool) -> anyhow::Result<Exit> {
    let Held { virtual_s, counts, never, again } = held;
    if is_json {
        let counts: serde_json::Map<String, serde_json::Value> =
            counts.iter().map(|(what, count)| (what.to_owned(), json!(count))).collect();
        let line = json!({
            "event": "result",
            "run": run.to_string(),
            "virtual_s": virtual_s,
            "failed": !never.is_empty(),
            "never_happened": never,
            "again": again,
            "counts": counts,
        });
        writeln!(stdout(), "{line}")?;
    } else {
        let mut out = stdout().lock();
        writeln!(out, "run {run}: {virtual_s:.1} virtual seconds, nothing broke")?;
        for (what, count) in counts.iter() {
            writeln!(out, "  {what:<22} {count}")?;
        }
        tell_never(&mut out, never)?;
        tell_again(&mut out, again.as_deref())?;
    }
    Ok(if never.is_empty() { Exit::Done } else { Exit::Error })
}

/// An invariant that was never checked proves nothing.
pub(super) fn tell_never(out: &mut impl Write, never: &[&str]) -> std::io::Result<()> {
    if never.is_empty() {
        return Ok(());
    }
    writeln!(out, "NEVER HAPPENED, so the run proves nothing about: {}", never.join(", "))
}
