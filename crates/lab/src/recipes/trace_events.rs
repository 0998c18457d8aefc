//! The trace events of programs: what they believe and until when, and what happens to them.
//!
//! A program knows its own clock only; the trace has moments of true time. Nothing here is done unless the trace
//! is read.

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
    client_program::ClientProgram,
    network::{CallId, ClientMessage, ProgramId, RpcRequest, ServerMessage},
};
use crate::{
    cluster::{World, member::MemberNumber},
    engine::TraceEvent,
    invariants::one_holder::{Belief, OneHolder},
};

/// Something that a program has recorded.
#[derive(Debug)]
pub enum RecordedEvent {
    Said(TraceEvent),
    Believes(u64, TracedBelief),
    Stops(u64, TracedBelief),
}

/// A belief, as traced.
#[derive(Clone, Debug)]
pub struct TracedBelief {
    program: ProgramId,
    name: String,
    mode: Mode,
    token: FencingToken,
    slot: Option<u32>,
    session: Option<LeaseId>,
    until: Option<clock::Moment>,
}

impl From<&Belief> for TracedBelief {
    fn from(belief: &Belief) -> TracedBelief {
        TracedBelief {
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

/// The deadline of each belief that was traced last. A renewal moves it.
#[derive(Debug, Default)]
pub struct TracedDeadlines(BTreeMap<u64, Option<clock::Moment>>);

impl TracedDeadlines {
    /// Traces what programs have recorded, in that order.
    pub fn trace(
        &mut self,
        record: Vec<RecordedEvent>,
        programs: &[ClientProgram],
        world: &mut World,
    ) {
        for event in record {
            match event {
                RecordedEvent::Said(event) => world.trace_event(|| event),
                RecordedEvent::Believes(belief, told) => {
                    self.0.insert(belief, told.until);
                    trace_belief("believe", &told, programs, world);
                }
                RecordedEvent::Stops(belief, told) => {
                    self.0.remove(&belief);
                    trace_belief("disbelieve", &told, programs, world);
                }
            }
        }
    }

    /// Traces beliefs whose deadline has moved. Text traces have their begin only.
    pub fn trace_moved(
        &mut self,
        holders: &OneHolder,
        programs: &[ClientProgram],
        world: &mut World,
    ) {
        if !world.trace.is_drawn() {
            return;
        }
        for (belief, believed) in holders.beliefs() {
            let told = TracedBelief::from(believed);
            if self.0.insert(belief, told.until) != Some(told.until) {
                trace_belief("believe", &told, programs, world);
            }
        }
    }
}

fn trace_belief(
    kind: &'static str,
    told: &TracedBelief,
    programs: &[ClientProgram],
    world: &mut World,
) {
    world.trace_event(|| {
        let (name, token) = (&told.name, told.token);
        let text = match kind {
            "believe" => format!("believes to hold {name} with token {token}"),
            _ => format!("does not believe to hold {name} with token {token} any more"),
        };
        let until = told.until.map(|until| programs[told.program].global(until));
        TraceEvent::new(kind, text)
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
        Mode::Permit(of) => json!(format!("one of {of}")),
    }
}

/// The leader that an observer sees from now on.
pub fn seen(name: &str, revision: Revision, sight: &Sight) -> TraceEvent {
    let leader = sight.leader();
    TraceEvent::new("observe", format!("sees {sight:?} at {revision}"))
        .with("name", name)
        .with("leader", leader.map(|tenure| tenure.identity.clone()))
        .with("token", leader.map(|tenure| tenure.token.get()))
        .with("revision", revision.0)
}

/// The ends, direction, call and number of a message.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    pub call: CallId,
    pub program: ProgramId,
    pub member: MemberNumber,
    /// From the program to the member.
    pub up: bool,
    pub number: u64,
}

impl Route {
    /// Sender and receiver.
    fn ends(&self) -> (String, String) {
        let (program, member) = (format!("p{}", self.program), format!("m{}", self.member));
        if self.up { (program, member) } else { (member, program) }
    }
}

/// Traces a message that is sent: its kind, and its content.
pub fn trace_sent(
    said: Option<(&'static str, String)>,
    route: Route,
    arrives: Moment,
    world: &mut World,
) {
    let Some((kind, text)) = said else { return };
    world.trace_event(|| {
        let ((from, to), call) = (route.ends(), route.call);
        TraceEvent::new("send", format!("-> {to} call {call} {text}"))
            .of(from)
            .with("to", to)
            .with("message", route.number)
            .with("kind", kind)
            .with("call", call)
            .with("arrives", [arrives.since_start().as_micros() as u64])
    });
}

/// Traces the arrival of a message, which may be later than planned. Text traces have the sending only.
pub fn trace_received(route: Route, world: &mut World) {
    if !world.trace.is_drawn() {
        return;
    }
    world.trace_event(|| {
        let ((from, to), call) = (route.ends(), route.call);
        TraceEvent::new("receive", format!("hears from {from}, call {call}"))
            .of(to)
            .with("from", from)
            .with("message", route.number)
            .with("call", call)
    });
}

/// Kind and content of a program's message.
pub fn up(what: &ClientMessage) -> (&'static str, String) {
    match what {
        ClientMessage::Request(ask) => {
            let kind = match ask {
                RpcRequest::Session(_) => "session",
                RpcRequest::End(_) => "end session",
                RpcRequest::Candidates(_) => "candidates",
                RpcRequest::Observe(_) => "observe",
                RpcRequest::Write(_) => "write",
            };
            (kind, format!("asks {ask:?}"))
        }
        ClientMessage::SessionRequest(says) => ("say", format!("says {says:?}")),
        ClientMessage::Close { gone } => ("hang up", format!("hangs up, gone {gone}")),
    }
}

/// Kind and content of a member's message.
pub fn down(what: &ServerMessage) -> (&'static str, String) {
    let kind = match what {
        ServerMessage::Accepted => "accepted",
        ServerMessage::Session(_) => "session",
        ServerMessage::Observed(_) => "observed",
        ServerMessage::Ended(_) => "ended",
        ServerMessage::Candidates(_) => "candidates",
        ServerMessage::Wrote(_) => "wrote",
        ServerMessage::Failed(_) => "failed",
        ServerMessage::Close => "hang up",
    };
    (kind, format!("{what:?}"))
}

/// Traces an event of a program's process.
pub fn trace_of(
    program: ProgramId,
    kind: &'static str,
    text: impl FnOnce() -> String,
    world: &mut World,
) {
    world.trace_event(|| TraceEvent::new(kind, text()).of(format!("p{program}")));
}

/// Traces a fault of a program.
pub fn trace_fault(
    program: ProgramId,
    what: &'static str,
    cut_off: &[MemberNumber],
    until: Moment,
    world: &mut World,
) {
    let now = world.now();
    world.trace_event(|| {
        let members: Vec<String> = cut_off.iter().map(|member| format!("m{member}")).collect();
        TraceEvent::new("fault", format!("fault {what} until {:?}", until.since_start()))
            .of(format!("p{program}"))
            .with("action", what)
            .with("members", members)
            .with("lasts", until.since(now).as_micros() as u64)
    });
}
