//! The events of a run: one line for each, as text or JSON.
//!
//! Lines are built only if there is a reader. A checksum of the bare numbers is always kept, so that two runs of
//! one seed can be compared at no cost.
//!
//! The JSON form is complete enough to draw from: every message has a number, the moment of its sending and those
//! of its arrivals (none if it is lost), and every change of a process's state is there. Moments are microseconds
//! since the start of the run. `docs/explanation/lab.md` lists the fields.

use std::fmt;

use serde_json::{Map, Value, json};
use tenure_replica::Moment;

/// The form of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// Text for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// One event of a run.
#[derive(Clone, Debug)]
pub struct TraceEvent {
    /// The process that it is about; none if it is about the run as a whole.
    pub who: Option<String>,
    /// The kind of event, in one word.
    pub kind: &'static str,
    /// The event as text.
    pub text: String,
    /// Further fields of the JSON form.
    pub fields: Vec<(&'static str, Value)>,
}

impl TraceEvent {
    pub fn new(kind: &'static str, text: impl Into<String>) -> TraceEvent {
        TraceEvent { who: None, kind, text: text.into(), fields: vec![] }
    }

    #[must_use]
    pub fn of(mut self, who: impl fmt::Display) -> TraceEvent {
        self.who = Some(who.to_string());
        self
    }

    #[must_use]
    pub fn with(mut self, field: &'static str, value: impl Into<Value>) -> TraceEvent {
        self.fields.push((field, value.into()));
        self
    }

    /// Its line, without a line break.
    pub fn line(&self, form: TraceFormat, now: Moment) -> String {
        let micros = now.since_start().as_micros() as u64;
        match form {
            TraceFormat::Text => {
                let who = self.who.as_deref().map_or(String::new(), |who| format!("{who} "));
                format!("{:>5}.{:06} {who}{}", micros / 1_000_000, micros % 1_000_000, self.text)
            }
            TraceFormat::Json => {
                let mut object = Map::new();
                object.insert("at".into(), json!(micros));
                object.insert("event".into(), json!(self.kind));
                if let Some(who) = &self.who {
                    object.insert("who".into(), json!(who));
                }
                object.insert("text".into(), json!(self.text));
                for (field, value) in &self.fields {
                    object.insert((*field).into(), value.clone());
                }
                Value::Object(object).to_string()
            }
        }
    }
}

type LineReader = Box<dyn FnMut(&str)>;
type EventReader = Box<dyn FnMut(Moment, &TraceEvent)>;

/// Takes lines, or events, as they come.
enum Reader {
    Lines(TraceFormat, LineReader),
    Events(EventReader),
}

/// The trace of a run.
#[derive(Default)]
pub struct Trace {
    reader: Option<Reader>,
    /// All lines so far, if they are kept.
    pub text: Option<String>,
    pub checksum: u64,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("checksum", &self.checksum).finish_non_exhaustive()
    }
}

impl Trace {
    /// Keeps the lines if `TENURE_TRACE` is set; they are printed if the run fails.
    pub fn from_environment() -> Trace {
        let text = std::env::var_os("TENURE_TRACE").map(|_| String::new());
        Trace { reader: None, text, checksum: 0 }
    }

    /// Hands every line to a reader.
    pub fn read_by(form: TraceFormat, reader: impl FnMut(&str) + 'static) -> Trace {
        Trace { reader: Some(Reader::Lines(form, Box::new(reader))), text: None, checksum: 0 }
    }

    /// Hands every event to a reader; those that text leaves out are left out.
    pub fn events_read_by(reader: impl FnMut(Moment, &TraceEvent) + 'static) -> Trace {
        Trace { reader: Some(Reader::Events(Box::new(reader))), text: None, checksum: 0 }
    }

    /// Whether there is a reader.
    pub fn is_read(&self) -> bool {
        self.reader.is_some() || self.text.is_some()
    }

    /// Whether the trace is read as JSON, which has events that text leaves out.
    pub fn is_drawn(&self) -> bool {
        matches!(self.reader, Some(Reader::Lines(TraceFormat::Json, _)))
    }

    /// Adds an event.
    pub fn event(&mut self, now: Moment, event: impl FnOnce() -> TraceEvent) {
        if !self.is_read() {
            return;
        }
        let event = event();
        match &mut self.reader {
            Some(Reader::Lines(form, reader)) => reader(&event.line(*form, now)),
            Some(Reader::Events(reader)) => reader(now, &event),
            None => {}
        }
        if let Some(text) = &mut self.text {
            text.push_str(&event.line(TraceFormat::Text, now));
            text.push('\n');
        }
    }

    pub fn number(&mut self, number: u64) {
        self.checksum = (self.checksum.rotate_left(5) ^ number).wrapping_mul(0x0100_0000_01b3);
    }
}

impl Drop for Trace {
    /// A run that fails prints its trace, if it was kept.
    fn drop(&mut self) {
        if let Some(text) = self.text.as_ref().filter(|_| std::thread::panicking()) {
            eprintln!("{text}");
        }
    }
}
