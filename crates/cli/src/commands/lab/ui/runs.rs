//! One run for a browser: its events as lines, within limits.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use serde_json::{Value, json};
use tenure_lab::algorithms::{self, Setup, Story};
use tenure_lab::engine::{Trace, TraceFormat};
use tenure_lab::faults::{FaultScript, SCRIPT_LINE, ScriptError};
use tenure_lab::tours::{CueEvent, TOUR_SEED, tour_of};

use super::super::list::{algorithm_json, story_json};
use super::super::name::RunName;
use super::super::run::result_json;

/// The most events of a run.
pub(crate) const EVENTS_MAX: usize = 300_000;
/// The most bytes of the lines of a run.
pub(crate) const TRACE_BYTES_MAX: usize = 96 << 20;
/// The most CPU time of a run.
pub(crate) const CPU_MAX: Duration = Duration::from_secs(10);

/// What is to be played.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    pub(crate) story: String,
    #[serde(default = "first_seed")]
    pub(crate) seed: u64,
    /// A fault script in place of the story's own.
    #[serde(default)]
    pub(crate) faults: Option<String>,
}

fn first_seed() -> u64 {
    1
}

/// Why there is no run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoRun {
    /// No story has this name.
    Unknown(String),
    /// The fault script cannot be read, or names what is not there.
    Script { line: Option<usize>, column: Option<usize>, why: String },
    /// It takes more than a browser's run may.
    TooMuch(String),
}

impl NoRun {
    pub(crate) fn json(&self) -> Value {
        match self {
            NoRun::Unknown(story) => {
                json!({ "error": format!("no story is called {story:?}"), "kind": "unknown" })
            }
            NoRun::Script { line, column, why } => json!({
                "error": why, "kind": "script", "line": line, "column": column,
                "expected": SCRIPT_LINE,
            }),
            NoRun::TooMuch(why) => json!({ "error": why, "kind": "limit" }),
        }
    }
}

impl From<ScriptError> for NoRun {
    fn from(error: ScriptError) -> NoRun {
        match error {
            ScriptError::Line { line, column, why, .. } => {
                NoRun::Script { line: Some(line), column: Some(column), why }
            }
            ScriptError::TooLong => {
                NoRun::Script { line: None, column: None, why: error.to_string() }
            }
        }
    }
}

/// The lines of a run: what it is, every event, the result.
pub(crate) fn play(wanted: &Wanted) -> Result<String, NoRun> {
    let story = algorithms::story(&wanted.story)
        .ok_or_else(|| NoRun::Unknown(wanted.story.chars().take(80).collect()))?;
    let script: Option<FaultScript> = wanted.faults.as_deref().map(str::parse).transpose()?;
    let own = story.own_script();
    // The story's own faults, written out by the browser, are the story's own.
    let script = script.filter(|script| *script != own);
    let run = RunName::here(story.name, wanted.seed);
    let head = head(story, &run, wanted.seed, script.as_ref().unwrap_or(&own), script.is_none());

    let lines = Rc::new(RefCell::new(Lines { text: format!("{head}\n"), events: 0 }));
    let kept = Rc::clone(&lines);
    let trace = Trace::read_by(TraceFormat::Json, move |line| kept.borrow_mut().add(line));
    let began = cpu_time();
    let go_on = || {
        let lines = lines.borrow();
        if lines.events > EVENTS_MAX || lines.text.len() > TRACE_BYTES_MAX {
            return Err(format!("the run has more than {EVENTS_MAX} events"));
        }
        match cpu_time().saturating_sub(began) > CPU_MAX {
            true => Err(format!("the run takes more than {} s of CPU time", CPU_MAX.as_secs())),
            false => Ok(()),
        }
    };
    let limit = Rc::new(RefCell::new(None));
    let noted = Rc::clone(&limit);
    let outcome = story.play_while(wanted.seed, script.as_ref(), trace, move || {
        go_on().inspect_err(|why| *noted.borrow_mut() = Some(why.clone()))
    });
    let outcome = match (outcome, limit.take()) {
        (_, Some(why)) => return Err(NoRun::TooMuch(why)),
        (Err(why), None) => return Err(NoRun::Script { line: None, column: None, why }),
        (Ok(outcome), None) => outcome,
    };
    let mut result = result_json(&run, &outcome, None);
    result["stops"] = stops(story, wanted.seed, script.is_some(), &lines.borrow().text);
    let mut text = std::mem::take(&mut lines.borrow_mut().text);
    text.push_str(&result.to_string());
    text.push('\n');
    Ok(text)
}

struct Lines {
    text: String,
    events: usize,
}

impl Lines {
    fn add(&mut self, line: &str) {
        self.events += 1;
        // The limit ends the run soon; until then nothing more is kept.
        if self.events <= EVENTS_MAX + 1 && self.text.len() <= TRACE_BYTES_MAX {
            self.text.push_str(line);
            self.text.push('\n');
        }
    }
}

fn head(story: &Story, run: &RunName, seed: u64, script: &FaultScript, is_own: bool) -> Value {
    let built = (story.algorithm.build)(&Setup { seed, contenders: story.algorithm.contenders });
    json!({
        "event": "run",
        "run": run.to_string(),
        "seed": seed,
        "story": story_json(story),
        "algorithm": algorithm_json(story.algorithm),
        "processes": built.names(),
        "contenders": built.contenders(),
        "faults": script.to_string(),
        "own_faults": is_own,
    })
}

/// The stops of the story's tour. It is written for one seed, and for the story's own faults.
fn stops(story: &Story, seed: u64, has_other_faults: bool, lines: &str) -> Value {
    let Some(tour) = tour_of(story.name).filter(|_| seed == TOUR_SEED && !has_other_faults) else {
        return json!([]);
    };
    let events: Vec<Value> =
        lines.lines().skip(1).filter_map(|line| serde_json::from_str(line).ok()).collect();
    let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
    let fields: Vec<[String; 3]> = events
        .iter()
        .map(|event| ["event", "who", "text"].map(|field| text(event, field)))
        .collect();
    let cues = fields.iter().map(|[event, who, text]| CueEvent { event, who, text });
    let places = tour.find(cues).unwrap_or_default();
    let stops = places.iter().zip(tour.stops);
    stops.map(|(event, stop)| json!({ "event": event, "says": stop.says })).collect()
}

/// What this thread has used so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_lab::algorithms::STORIES;

    fn wanted(story: &str, faults: Option<&str>) -> Wanted {
        Wanted { story: story.into(), seed: 1, faults: faults.map(Into::into) }
    }

    fn values(text: &str) -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn lab_run_for_a_browser_has_head_events_and_result() {
        let lines = values(&play(&wanted("redlock-pause", None)).unwrap());
        let (head, result) = (&lines[0], lines.last().unwrap());
        assert_eq!(head["event"], "run");
        assert_eq!(head["processes"].as_array().unwrap().len(), 8);
        assert_eq!(
            (head["contenders"].as_u64(), head["own_faults"].as_bool()),
            (Some(3), Some(true))
        );
        assert_eq!(result["event"], "result");
        let stops = result["stops"].as_array().unwrap();
        assert!(stops.len() >= 5, "{stops:?}");
        for stop in stops {
            let event = stop["event"].as_u64().unwrap() as usize;
            assert!(lines[event + 1]["event"].is_string(), "the head is no event");
        }
    }

    #[test]
    fn lab_run_with_its_own_faults_written_out_is_the_same() {
        let own = algorithms::story("redlock-pause").unwrap().own_script().to_string();
        let plain = play(&wanted("redlock-pause", None)).unwrap();
        assert_eq!(play(&wanted("redlock-pause", Some(&own))).unwrap(), plain);
        let without = play(&wanted("redlock-pause", Some(""))).unwrap();
        let result = values(&without).pop().unwrap();
        assert!(result["promises"].as_array().unwrap().iter().all(|one| one["kept"] == true));
    }

    #[test]
    fn lab_run_with_a_later_fault_has_the_same_past() {
        let own = algorithms::story("bully-crash").unwrap().own_script().to_string();
        let plain = play(&wanted("bully-crash", None)).unwrap();
        let forked = play(&wanted("bully-crash", Some(&format!("{own}at 3s cut a b\n")))).unwrap();
        let before = |text: &str| {
            let events = values(text).into_iter().skip(1);
            events.take_while(|event| event["at"].as_u64() < Some(3_000_000)).collect::<Vec<_>>()
        };
        assert_eq!(before(&plain), before(&forked));
        assert_ne!(plain.lines().count(), forked.lines().count());
    }

    #[test]
    fn lab_run_says_where_a_script_is_wrong() {
        let error =
            play(&wanted("bully-crash", Some("at 1s heal\nat 2s explode e\n"))).unwrap_err();
        let json = error.json();
        assert_eq!((json["line"].as_u64(), json["column"].as_u64()), (Some(2), Some(7)));
        assert!(json["expected"].as_str().unwrap().starts_with("at TIME FAULT"));
        let error = play(&wanted("bully-crash", Some("at 1s crash nobody\n"))).unwrap_err();
        assert!(matches!(&error, NoRun::Script { why, .. } if why.contains("nobody")), "{error:?}");
        assert!(matches!(play(&wanted("no-such", None)), Err(NoRun::Unknown(_))));
    }

    #[test]
    fn lab_run_of_every_story_is_within_the_limits() {
        for story in STORIES.iter().copied().flatten() {
            let text = play(&wanted(story.name, None));
            assert!(text.is_ok(), "{}: {:?}", story.name, text.map(|text| text.len()));
        }
    }
}
