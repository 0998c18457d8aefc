//! What happened: one line for each event, in plain words or as JSON.
//!
//! Lines are built only when somebody wants to read them; a checksum of the bare numbers is always
//! kept, so that two runs of one seed can be compared for nothing.
//!
//! The JSON form is complete enough to draw from: every message has a number, the moment of its sending
//! and those of its arrivals (none, if it is lost); every state of every process is given when it
//! changes. Moments are microseconds since the start of the run. `docs/LAB.md` lists the fields.

use std::fmt;

use serde_json::{Map, Value, json};
use tenure_replica::Moment;

/// How the lines shall look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Plain words.
    Text,
    /// One JSON object a line.
    Json,
}

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Event {
    /// To whom; none if to the world.
    pub who: Option<String>,
    /// What kind of thing, in one word.
    pub kind: &'static str,
    /// In plain words.
    pub text: String,
    /// What else a program wants to know.
    pub fields: Vec<(&'static str, Value)>,
}

impl Event {
    pub fn new(kind: &'static str, text: impl Into<String>) -> Event {
        Event { who: None, kind, text: text.into(), fields: vec![] }
    }

    #[must_use]
    pub fn of(mut self, who: impl fmt::Display) -> Event {
        self.who = Some(who.to_string());
        self
    }

    #[must_use]
    pub fn with(mut self, field: &'static str, value: impl Into<Value>) -> Event {
        self.fields.push((field, value.into()));
        self
    }

    /// Its line, without the end of it.
    pub fn line(&self, form: Form, now: Moment) -> String {
        let micros = now.since_start().as_micros() as u64;
        match form {
            Form::Text => {
                let who = self.who.as_deref().map_or(String::new(), |who| format!("{who} "));
                format!("{:>5}.{:06} {who}{}", micros / 1_000_000, micros % 1_000_000, self.text)
            }
            Form::Json => {
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

/// Takes lines as they come.
type Reader = Box<dyn FnMut(&str)>;

/// The story of a run.
#[derive(Default)]
pub struct Trace {
    reader: Option<(Form, Reader)>,
    /// All lines so far, if they are to be kept.
    pub text: Option<String>,
    pub checksum: u64,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("checksum", &self.checksum).finish_non_exhaustive()
    }
}

impl Trace {
    /// `TENURE_TRACE` asks for the lines, to be printed if the run fails.
    pub fn from_environment() -> Trace {
        let text = std::env::var_os("TENURE_TRACE").map(|_| String::new());
        Trace { reader: None, text, checksum: 0 }
    }

    /// Hands every line to a reader.
    pub fn told_to(form: Form, reader: impl FnMut(&str) + 'static) -> Trace {
        Trace { reader: Some((form, Box::new(reader))), text: None, checksum: 0 }
    }

    /// Whether anybody reads.
    pub fn is_read(&self) -> bool {
        self.reader.is_some() || self.text.is_some()
    }

    /// Whether a program reads, that wants what would tire people.
    pub fn is_drawn(&self) -> bool {
        matches!(self.reader, Some((Form::Json, _)))
    }

    /// Something happened.
    pub fn event(&mut self, now: Moment, event: impl FnOnce() -> Event) {
        if !self.is_read() {
            return;
        }
        let event = event();
        if let Some((form, reader)) = &mut self.reader {
            reader(&event.line(*form, now));
        }
        if let Some(text) = &mut self.text {
            text.push_str(&event.line(Form::Text, now));
            text.push('\n');
        }
    }

    pub fn number(&mut self, number: u64) {
        self.checksum = (self.checksum.rotate_left(5) ^ number).wrapping_mul(0x0100_0000_01b3);
    }
}

impl Drop for Trace {
    /// A run that fails leaves its story behind, if one was asked for.
    fn drop(&mut self) {
        if let Some(text) = self.text.as_ref().filter(|_| std::thread::panicking()) {
            eprintln!("{text}");
        }
    }
}
