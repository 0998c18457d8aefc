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

use super::{post::ProgramId, program::Program};
use crate::{
    cluster::World,
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
