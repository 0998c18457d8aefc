//! A run in about a dozen lines: which process led when, the faults, and the first breach of each promise.
//!
//! It reads the events of the trace. What happens at one moment is one line. A run with more lines than a reader wants keeps
//! its beginning, its end and every breach.

use std::{cell::RefCell, collections::BTreeSet, rc::Rc, time::Duration};

use serde_json::Value;
use tenure_replica::Moment;

use super::Promise;
use crate::engine::{Trace, TraceEvent};

/// How many lines a timeline has before some are left out.
const LINES_MAX: usize = 16;
/// How many lines at the beginning and at the end are never left out.
const FIRST_LINES: usize = 7;
const LAST_LINES: usize = 4;
/// A shorter time without a leader is not worth a word.
const VACANCY_MIN: Duration = Duration::from_millis(1);

/// One moment of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineLine {
    pub at: Moment,
    pub text: String,
    /// Whether a promise was broken then.
    pub is_breach: bool,
}

/// What happened in a run, moment by moment.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// The promises of the algorithm. What breaks no promise is no breach.
    promised: Vec<&'static str>,
    lines: Vec<TimelineLine>,
    /// The processes that believe to lead, paused ones among them.
    leading: BTreeSet<String>,
    paused: BTreeSet<String>,
    vacant_since: Moment,
    /// The processes whose writes were refused, once since they last became leader.
    refused: BTreeSet<String>,
    started: BTreeSet<String>,
}

impl Timeline {
    /// A trace that fills a timeline of an algorithm with these promises.
    pub fn recorded(promises: &[Promise]) -> (Trace, Rc<RefCell<Timeline>>) {
        let promised = promises.iter().filter_map(|promise| promise.key()).collect();
        let timeline = Rc::new(RefCell::new(Timeline { promised, ..Timeline::default() }));
        let recorded = Rc::clone(&timeline);
        (Trace::events_read_by(move |at, event| recorded.borrow_mut().record(at, event)), timeline)
    }

    /// The processes that act as leaders.
    fn acting(&self) -> Vec<&str> {
        self.leading.difference(&self.paused).map(String::as_str).collect()
    }

    fn record(&mut self, at: Moment, event: &TraceEvent) {
        let led = !self.acting().is_empty();
        let who = event.who.clone().unwrap_or_default();
        let mut is_breach = false;
        let text = match event.kind {
            "start" => (!self.started.insert(who.clone())).then(|| format!("{who} starts again")),
            "lead" => {
                self.leading.insert(who.clone());
                self.refused.remove(&who);
                let vacant = at.since(self.vacant_since);
                let after = match led {
                    false if vacant >= VACANCY_MIN && at > Moment::ZERO => {
                        format!(", after {} without a leader", seconds(vacant))
                    }
                    _ => String::new(),
                };
                Some(format!("{who} {}{after}", event.text))
            }
            "step_down" => {
                self.leading.remove(&who);
                Some(format!("{who} stops leading"))
            }
            "crash" => {
                self.paused.remove(&who);
                let led = if self.leading.remove(&who) { ", the leader," } else { "" };
                Some(format!("{who}{led} is dead"))
            }
            "pause" => {
                let led = if self.leading.contains(&who) { ", the leader," } else { "" };
                let text = format!("{who}{led} is paused");
                self.paused.insert(who).then_some(text)
            }
            "resume" => {
                self.paused.remove(&who);
                let still = if self.leading.contains(&who) { " and believes to lead" } else { "" };
                Some(format!("{who} resumes{still}"))
            }
            "fault" => Some(event.text.replacen("**", "fault:", 1)),
            "breach" => {
                let promise = field(event, "promise").and_then(Value::as_str);
                is_breach = self.promised.iter().any(|promised| Some(*promised) == promise);
                let how = event.text.trim_start_matches("!! ");
                Some(if is_breach { format!("BROKEN: {how}") } else { how.to_owned() })
            }
            // Of a leader that has been replaced, the first write that is refused.
            "written" if self.is_refused(event) => Some(format!("the {who} {}", event.text)),
            _ => None,
        };
        if led && self.acting().is_empty() {
            self.vacant_since = at;
        }
        let Some(text) = text else { return };
        match self.lines.last_mut().filter(|last| last.at == at) {
            Some(last) => {
                last.text += &format!("; {text}");
                last.is_breach |= is_breach;
            }
            None => self.lines.push(TimelineLine { at, text, is_breach }),
        }
    }

    fn is_refused(&mut self, event: &TraceEvent) -> bool {
        let is_refused = field(event, "taken").and_then(Value::as_bool) == Some(false);
        let writer = field(event, "from").and_then(Value::as_str);
        is_refused && writer.is_some_and(|writer| self.refused.insert(writer.to_owned()))
    }

    /// The lines that matter, one for each moment, of a run that lasted so long. None stands for lines that are left out.
    pub fn lines(&self, lasted: Duration) -> Vec<Option<TimelineLine>> {
        let mut lines = self.lines.clone();
        let text = match &self.acting()[..] {
            [] => "the end: no process leads".to_owned(),
            [leader] => format!("the end: {leader} leads"),
            leaders => format!("the end: {} believe to lead", leaders.join(" and ")),
        };
        lines.push(TimelineLine { at: Moment::after_start(lasted), text, is_breach: false });
        if lines.len() <= LINES_MAX {
            return lines.into_iter().map(Some).collect();
        }
        let last = lines.len() - LAST_LINES;
        let mut shown: Vec<Option<TimelineLine>> = vec![];
        for (at, line) in lines.into_iter().enumerate() {
            if at < FIRST_LINES || at >= last || line.is_breach {
                shown.push(Some(line));
            } else if shown.last().is_some_and(Option::is_some) {
                shown.push(None);
            }
        }
        shown
    }
}

fn field<'a>(event: &'a TraceEvent, name: &str) -> Option<&'a Value> {
    event.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value)
}

/// A duration to the millisecond.
pub fn seconds(span: Duration) -> String {
    format!("{:.3} s", span.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::{STORIES, Story, story};

    fn told(story: &Story, script: Option<&str>) -> Vec<Option<TimelineLine>> {
        let (trace, timeline) = Timeline::recorded(story.algorithm.promises);
        let script = script.map(|script| script.parse().expect("it can be read"));
        story.play(1, script.as_ref(), trace).expect("it can be played");
        timeline.borrow().lines(story.lasts)
    }

    fn texts(lines: &[Option<TimelineLine>]) -> Vec<&str> {
        lines.iter().flatten().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn timeline_of_a_pause_has_both_leaders_the_fault_and_the_breach() {
        let lines = told(story("redlock-pause").expect("it exists"), None);
        let texts = texts(&lines);
        assert_eq!(texts[0], "a leads");
        assert_eq!(texts[1], "fault: pause leader for 20s; a, the leader, is paused");
        assert!(texts[2].contains(" leads, after 8.") && texts[2].ends_with(" without a leader"));
        assert!(
            texts[3].starts_with("a resumes and believes to lead; BROKEN: a and "),
            "{texts:?}"
        );
        assert_eq!(texts[4], "BROKEN: a write of a was taken after one of a later leader");
        assert!(texts[5].starts_with("the end: "), "{texts:?}");
        assert_eq!(texts.len(), 6);
    }

    #[test]
    fn timeline_of_a_fenced_pause_has_the_refused_write_once() {
        let lines = told(story("tenure-pause").expect("it exists"), None);
        let refused = |text: &&str| text.contains("the storage refuses the write of a");
        assert_eq!(texts(&lines).into_iter().filter(refused).count(), 1, "{lines:?}");
    }

    #[test]
    fn timeline_has_about_a_dozen_lines_and_every_breach_of_every_story() {
        for story in STORIES.iter().copied().flatten() {
            let lines = told(story, None);
            assert!((1..=LINES_MAX + 4).contains(&lines.len()), "{}: {}", story.name, lines.len());
            for text in texts(&lines) {
                let debug = ["Some(", "None", "{ ", "Moment"];
                assert!(!debug.iter().any(|part| text.contains(part)), "{}: {text}", story.name);
            }
            // Those that are judged when the run ends have no moment.
            let at_once = story.breaks.iter().filter(|promise| promise.key().is_some());
            let breaches: usize =
                texts(&lines).iter().map(|text| text.matches("BROKEN").count()).sum();
            assert_eq!(breaches, at_once.count(), "{}: {lines:?}", story.name);
        }
    }

    #[test]
    fn timeline_of_a_restless_run_leaves_out_its_middle() {
        let script: String =
            (1..=19).map(|at| format!("at {at}s crash leader for 500ms\n")).collect();
        let lines = told(story("redlock-crash").expect("it exists"), Some(&script));
        assert_eq!(lines.len(), FIRST_LINES + 1 + LAST_LINES, "{lines:?}");
        assert_eq!(lines[FIRST_LINES], None);
    }
}
