//! The trace events of a cluster's run.
//!
//! Nothing here is done unless the trace is read. `docs/explanation/lab.md` lists the events and their fields.

use serde_json::{Value, json};
use tenure_replica::{Message, Moment, RaftRole, RaftTimer, State};

mod requests;
mod snapshots;

use super::{World, member::MemberNumber};
use crate::engine::TraceEvent;

/// The state that was traced last, so that only changes are traced.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::cluster) struct TracedState(Value);

impl World {
    /// Traces a message; its arrivals are known already.
    pub(in crate::cluster) fn trace_send(
        &mut self,
        from: MemberNumber,
        to: MemberNumber,
        message: &Message,
        arrivals: &[Moment],
    ) {
        let number = self.next_message();
        self.trace_event(|| {
            let lost = if arrivals.is_empty() { " (lost)" } else { "" };
            let (kind, text) = describe(message);
            let arriving: Vec<u64> = arrivals.iter().map(|at| micros(*at)).collect();
            TraceEvent::new("send", format!("-> m{to} {text}{lost}"))
                .of(format!("m{from}"))
                .with("to", format!("m{to}"))
                .with("message", number)
                .with("kind", kind)
                .with("arrives", arriving)
        });
    }

    /// Traces an event of a member's process.
    pub(in crate::cluster) fn trace_of(
        &mut self,
        number: MemberNumber,
        kind: &'static str,
        text: impl FnOnce() -> String,
    ) {
        self.trace_event(|| TraceEvent::new(kind, text()).of(format!("m{number}")));
    }

    /// Traces the state of a member, if it has changed.
    pub(in crate::cluster) fn trace_state(&mut self, number: MemberNumber) {
        if !self.trace.is_read() {
            return;
        }
        let Some(process) = self.members[&number].process.as_ref() else { return };
        let status = process.replica.status();
        let (role, leader) =
            (role(status.role), status.leader.map(|leader| format!("m{}", leader.0)));
        let traced = TracedState(json!({
            "role": role,
            "term": status.term.0,
            "leader": leader,
            "committed": status.committed,
            "applied": status.applied,
        }));
        if self.members[&number].traced == traced {
            return;
        }
        let before = std::mem::replace(&mut self.member_mut(number).traced, traced.clone());
        let differs = |field: &str| before.0.get(field) != traced.0.get(field);
        let loud = differs("role") || differs("term") || differs("leader");
        self.trace_event(|| {
            let follows = leader.map_or(String::new(), |leader| format!(", leader {leader}"));
            let text = match loud {
                true => format!("is {role} in term {}{follows}", status.term),
                false => format!("has applied {} of {}", status.applied, status.committed),
            };
            TraceEvent::new("state", text).of(format!("m{number}")).with("state", traced.0)
        });
    }

    /// Traces a member's next raft timer, if it has moved.
    pub(in crate::cluster) fn trace_timer(&mut self, number: MemberNumber) {
        if !self.trace.is_drawn() {
            return;
        }
        let now = self.now();
        let member = &self.members[&number];
        let Some(process) = member.process.as_ref() else { return };
        let timer = process.replica.raft_timer().map(|(timer, due)| {
            let name = match timer {
                RaftTimer::Heartbeat => "heartbeat",
                RaftTimer::Election => "election",
            };
            (name, micros(member.global(due, process.started, now)))
        });
        if member.timer == timer {
            return;
        }
        let before = std::mem::replace(&mut self.member_mut(number).timer, timer);
        if let Some((name, _)) = before.filter(|before| timer.is_none_or(|now| now.0 != before.0)) {
            self.trace_event(|| {
                TraceEvent::new("cancel", format!("cancels its {name} alarm"))
                    .of(format!("m{number}"))
                    .with("name", name)
            });
        }
        let Some((name, due)) = timer else { return };
        self.trace_event(|| {
            TraceEvent::new("timer", format!("sets its {name} alarm"))
                .of(format!("m{number}"))
                .with("name", name)
                .with("due", due)
        });
    }

    /// Traces the agreed elections and leases, if an entry has changed them.
    pub(in crate::cluster) fn trace_elections(&mut self) {
        if !self.trace.is_read() {
            return;
        }
        // JSON only: every renewal moves an end.
        let with_ends = self.trace.is_drawn();
        let history = |lease| self.truth.leases.get(&lease).filter(|_| with_ends);
        let ends = |lease| history(lease).map(|history| history.renewed + history.ttl);
        let traced = TracedState(elections(self.truth.state(), ends));
        if self.traced_elections == traced {
            return;
        }
        self.traced_elections = traced.clone();
        self.trace_event(|| {
            TraceEvent::new("elections", "elections and leases changed").with("state", traced.0)
        });
    }

    /// Traces that a client believes to lead from now on, until that moment at the latest; or believes no more, though
    /// it would have until then.
    pub(in crate::cluster) fn trace_belief(
        &mut self,
        believes: bool,
        client: usize,
        name: &[u8],
        token: tenure_api::Revision,
        until: Moment,
    ) {
        self.trace_event(|| {
            let name = String::from_utf8_lossy(name);
            let (kind, text) = match believes {
                true => ("believe", format!("believes to lead {name} with token {token}")),
                false => ("disbelieve", format!("does not believe to lead {name}")),
            };
            TraceEvent::new(kind, text)
                .of(format!("c{client}"))
                .with("name", name)
                .with("token", token.0)
                .with("until", micros(until))
        });
    }
}

fn micros(at: Moment) -> u64 {
    at.since_start().as_micros() as u64
}

fn role(role: RaftRole) -> &'static str {
    match role {
        RaftRole::Leader => "leader",
        RaftRole::Follower => "follower",
        RaftRole::Candidate => "candidate",
    }
}

/// A message as one word and as text.
fn describe(message: &Message) -> (String, String) {
    match message {
        Message::Audited(index, digest) => {
            ("Audited".into(), format!("Audited {index}: {digest:x}"))
        }
        Message::Forward(batch) => ("Forward".into(), format!("Forward {} bytes", batch.len())),
        Message::Raft(m) => {
            let refused = if m.reject { " reject" } else { "" };
            let (kind, term) = (m.kind, m.term);
            let text = format!(
                "{kind:?} term {term} log {}/{} commit {} entries {}{refused}",
                m.index,
                m.log_term,
                m.commit,
                m.entries.len(),
            );
            (format!("{kind:?}"), text)
        }
    }
}

/// Elections and leases as JSON, with the ends of leases where they are known.
pub(crate) fn elections(
    state: &State,
    ends: impl Fn(tenure_api::LeaseId) -> Option<Moment>,
) -> Value {
    let elections: Vec<Value> = state
        .elections
        .elections()
        .map(|(name, election)| {
            let candidates: Vec<Value> = election
                .candidates()
                .iter()
                .map(|candidate| {
                    let session = candidate.session();
                    let known = session.and_then(|id| state.elections.session(id));
                    json!({
                        "session": session.map(|id| id.0),
                        "identity": known.map(|session| session.identity.clone()),
                        "token": candidate.created.0,
                        "holds": candidate.told && candidate.holds(),
                    })
                })
                .collect();
            json!({
                "name": String::from_utf8_lossy(name),
                "frozen": election.is_frozen(),
                "delayed": election.is_delayed(),
                "candidates": candidates,
            })
        })
        .collect();
    let leases: Vec<Value> = state
        .leases
        .iter()
        .map(|(id, lease)| {
            let known = state.elections.session(id);
            let mut traced = json!({
                "id": id.0,
                "ttl_s": lease.ttl_secs,
                "identity": known.map(|session| session.identity.clone()),
            });
            if let Some(end) = ends(id) {
                traced["ends"] = json!(micros(end));
            }
            traced
        })
        .collect();
    json!({ "elections": elections, "leases": leases })
}
