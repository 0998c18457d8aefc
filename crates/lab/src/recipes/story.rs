//! What is told of programs: what they believe and until when, and what they have to say.
//!
//! A program knows its own clock only; the town tells its moments by the world's. Nothing here is done unless
//! somebody reads.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tenure::{
    FencingToken,
    backend::{Mode, Sight},
    clock,
};
use tenure_api::{LeaseId, Revision};
use tenure_replica::Moment;

use super::{
    post::{Ask, CallId, Down, ProgramId, Up},
    program::Program,
};
use crate::{
    cluster::{World, member::Number},
    engine::Event,
    invariants::one_holder::{Belief, OneHolder},
};

/// Something that a program has written down.
#[derive(Debug)]
pub enum Note {
    Said(Event),
    Believes(u64, Told),
    Stops(u64, Told),
}

/// A belief, as far as it can be told.
#[derive(Clone, Debug)]
pub struct Told {
    program: ProgramId,
    name: String,
    mode: Mode,
    token: FencingToken,
    slot: Option<u32>,
    session: Option<LeaseId>,
    until: Option<clock::Moment>,
}

impl From<&Belief> for Told {
    fn from(belief: &Belief) -> Told {
        Told {
            program: belief.program,
            name: belief.name.clone(),
            mode: belief.mode,
            token: belief.token,
            slot: belief.slot,
            session: belief.session,
            until: (belief.until)(),
        }
    }
}

/// What was last told of each belief's end: a renewal moves it.
#[derive(Debug, Default)]
pub struct Ends(BTreeMap<u64, Option<clock::Moment>>);

impl Ends {
    /// Tells what programs have written down, in that order.
    pub fn tell(&mut self, notes: Vec<Note>, programs: &[Program], world: &mut World) {
        for note in notes {
            match note {
                Note::Said(event) => world.tell_event(|| event),
                Note::Believes(belief, told) => {
                    self.0.insert(belief, told.until);
                    tell_belief("believe", &told, programs, world);
                }
                Note::Stops(belief, told) => {
                    self.0.remove(&belief);
                    tell_belief("disbelieve", &told, programs, world);
                }
            }
        }
    }

    /// Tells again of beliefs whose end has moved. People have read of them before.
    pub fn tell_moved(&mut self, holders: &OneHolder, programs: &[Program], world: &mut World) {
        if !world.trace.is_drawn() {
            return;
        }
        for (belief, believed) in holders.beliefs() {
            let told = Told::from(believed);
            if self.0.insert(belief, told.until) != Some(told.until) {
                tell_belief("believe", &told, programs, world);
            }
        }
    }
}

fn tell_belief(kind: &'static str, told: &Told, programs: &[Program], world: &mut World) {
    world.tell_event(|| {
        let (name, token) = (&told.name, told.token);
        let text = match kind {
            "believe" => format!("believes to hold {name} with token {token}"),
            _ => format!("does not believe to hold {name} with token {token} any more"),
        };
        let until = told.until.map(|until| programs[told.program].global(until));
        Event::new(kind, text)
            .of(format!("p{}", told.program))
            .with("name", name.as_str())
            .with("token", token.get())
            .with("until", until.map(|until| until.since_start().as_micros() as u64))
            .with("mode", mode(told.mode))
            .with("permit", told.slot)
            .with("session", told.session.map(|session| session.0))
    });
}

fn mode(mode: Mode) -> Value {
    match mode {
        Mode::Exclusive => json!("exclusive"),
        Mode::Shared => json!("shared"),
        Mode::Permit { of } => json!(format!("one of {of}")),
    }
}

/// Who an observer takes for the leader from now on.
pub fn seen(name: &str, revision: Revision, sight: &Sight) -> Event {
    let leader = match sight {
        Sight::Leads(tenure) | Sight::Proclaims(tenure) => Some(tenure),
        Sight::NoLeader | Sight::Gap => None,
    };
    Event::new("observe", format!("sees {sight:?} at {revision}"))
        .with("name", name)
        .with("leader", leader.and_then(|tenure| tenure.identity.clone()))
        .with("token", leader.map(|tenure| tenure.token.get()))
        .with("revision", revision.0)
}

/// Who says something to whom on which call, as which message.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub call: CallId,
    pub program: ProgramId,
    pub member: Number,
    /// From the program to the member.
    pub up: bool,
    pub number: u64,
}

impl Way {
    /// From whom, to whom.
    fn ends(&self) -> (String, String) {
        let (program, member) = (format!("p{}", self.program), format!("m{}", self.member));
        if self.up { (program, member) } else { (member, program) }
    }
}

/// Something leaves: in a word, and as it is.
pub fn tell_sent(
    said: Option<(&'static str, String)>,
    way: Way,
    arrives: Moment,
    world: &mut World,
) {
    let Some((kind, text)) = said else { return };
    world.tell_event(|| {
        let ((from, to), call) = (way.ends(), way.call);
        Event::new("send", format!("-> {to} call {call} {text}"))
            .of(from)
            .with("to", to)
            .with("message", way.number)
            .with("kind", kind)
            .with("call", call)
            .with("arrives", [arrives.since_start().as_micros() as u64])
    });
}

/// It arrives, perhaps later than was thought. People have read what it is.
pub fn tell_received(way: Way, world: &mut World) {
    if !world.trace.is_drawn() {
        return;
    }
    world.tell_event(|| {
        let ((from, to), call) = (way.ends(), way.call);
        Event::new("receive", format!("hears from {from}, call {call}"))
            .of(to)
            .with("from", from)
            .with("message", way.number)
            .with("call", call)
    });
}

/// What goes up, in a word and as it is.
pub fn up(what: &Up) -> (&'static str, String) {
    match what {
        Up::Ask(ask) => {
            let kind = match ask {
                Ask::Session(_) => "session",
                Ask::End(_) => "end session",
                Ask::Candidates(_) => "candidates",
                Ask::Observe(_) => "observe",
                Ask::Write(_) => "write",
            };
            (kind, format!("asks {ask:?}"))
        }
        Up::Says(says) => ("say", format!("says {says:?}")),
        Up::HangUp { gone } => ("hang up", format!("hangs up, gone {gone}")),
    }
}

/// What comes down.
pub fn down(what: &Down) -> (&'static str, String) {
    let kind = match what {
        Down::Accepted => "accepted",
        Down::Session(_) => "session",
        Down::Observed(_) => "observed",
        Down::Ended(_) => "ended",
        Down::Candidates(_) => "candidates",
        Down::Wrote(_) => "wrote",
        Down::Failed(_) => "failed",
        Down::HangUp => "hang up",
    };
    (kind, format!("{what:?}"))
}

/// Something happens to a program's process.
pub fn tell_of(
    program: ProgramId,
    kind: &'static str,
    text: impl FnOnce() -> String,
    world: &mut World,
) {
    world.tell_event(|| Event::new(kind, text()).of(format!("p{program}")));
}

/// Chance has picked on a program.
pub fn tell_fault(
    program: ProgramId,
    what: &'static str,
    cut_off: &[Number],
    until: Moment,
    world: &mut World,
) {
    let now = world.now();
    world.tell_event(|| {
        let members: Vec<String> = cut_off.iter().map(|member| format!("m{member}")).collect();
        Event::new("fault", format!("fault {what} until {:?}", until.since_start()))
            .of(format!("p{program}"))
            .with("action", what)
            .with("members", members)
            .with("lasts", until.since(now).as_micros() as u64)
    });
}
