//! What is told of a cluster's run, for people and for whoever draws it.
//!
//! Nothing here is done unless somebody reads. `docs/LAB.md` lists the events and their fields.

use serde_json::{Value, json};
use tenure_replica::{Message, Moment, RaftTimer, Role};

mod lines;
mod requests;
mod snapshots;

pub(crate) use lines::lines;

use super::{World, member::Number};
use crate::engine::Event;

/// What was last told of a member, so that it is told again only when it has changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::cluster) struct Shown(Value);

impl World {
    /// A message leaves; it arrives then, or never.
    pub(in crate::cluster) fn tell_send(
        &mut self,
        from: Number,
        to: Number,
        message: &Message,
        arrivals: &[Moment],
    ) {
        let number = self.next_message();
        self.tell_event(|| {
            let lost = if arrivals.is_empty() { " (lost)" } else { "" };
            let (kind, text) = describe(message);
            let arriving: Vec<u64> = arrivals.iter().map(|at| micros(*at)).collect();
            Event::new("send", format!("-> m{to} {text}{lost}"))
                .of(format!("m{from}"))
                .with("to", format!("m{to}"))
                .with("message", number)
                .with("kind", kind)
                .with("arrives", arriving)
        });
    }

    /// Something happens to a member's process.
    pub(in crate::cluster) fn tell_of(
        &mut self,
        number: Number,
        kind: &'static str,
        text: impl FnOnce() -> String,
    ) {
        self.tell_event(|| Event::new(kind, text()).of(format!("m{number}")));
    }

    /// What a member is now, if that is something else than before.
    pub(in crate::cluster) fn tell_state(&mut self, number: Number) {
        if !self.trace.is_read() {
            return;
        }
        let Some(process) = self.members[&number].process.as_ref() else { return };
        let status = process.replica.status();
        let (role, leader) =
            (role(status.role), status.leader.map(|leader| format!("m{}", leader.0)));
        let shown = Shown(json!({
            "role": role,
            "term": status.term.0,
            "leader": leader,
            "committed": status.committed,
            "applied": status.applied,
        }));
        if self.members[&number].shown == shown {
            return;
        }
        let before = std::mem::replace(&mut self.member_mut(number).shown, shown.clone());
        let differs = |field: &str| before.0.get(field) != shown.0.get(field);
        let loud = differs("role") || differs("term") || differs("leader");
        self.tell_event(|| {
            let follows = leader.map_or(String::new(), |leader| format!(", leader {leader}"));
            let text = match loud {
                true => format!("is {role} in term {}{follows}", status.term),
                false => format!("has applied {} of {}", status.applied, status.committed),
            };
            Event::new("state", text).of(format!("m{number}")).with("state", shown.0)
        });
    }

    /// When a member acts by itself if it hears nothing, if that is another moment than before.
    pub(in crate::cluster) fn tell_timer(&mut self, number: Number) {
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
            self.tell_event(|| {
                Event::new("cancel", format!("cancels its {name} alarm"))
                    .of(format!("m{number}"))
                    .with("name", name)
            });
        }
        let Some((name, due)) = timer else { return };
        self.tell_event(|| {
            Event::new("timer", format!("sets its {name} alarm"))
                .of(format!("m{number}"))
                .with("name", name)
                .with("due", due)
        });
    }

    /// The lines and leases as the log has them now, if an entry has changed them.
    pub(in crate::cluster) fn tell_lines(&mut self) {
        if !self.trace.is_read() {
            return;
        }
        // For whoever draws: every renewal moves one.
        let with_ends = self.trace.is_drawn();
        let story = |lease| self.truth.leases.get(&lease).filter(|_| with_ends);
        let ends = |lease| story(lease).map(|story| story.renewed + story.ttl);
        let shown = Shown(lines(self.truth.state(), ends));
        if self.lines_shown == shown {
            return;
        }
        self.lines_shown = shown.clone();
        self.tell_event(|| Event::new("lines", "lines and leases changed").with("state", shown.0));
    }

    /// A client believes from now on that it leads, until then at the latest.
    pub(in crate::cluster) fn tell_belief(
        &mut self,
        client: usize,
        name: &[u8],
        token: tenure_api::Revision,
        until: Moment,
    ) {
        self.tell_event(|| {
            let name = String::from_utf8_lossy(name);
            let text = format!("believes to lead {name} with token {token}");
            belief("believe", text, client, &name, token, until)
        });
    }

    /// It does not any more, and would have until then.
    pub(in crate::cluster) fn tell_disbelief(
        &mut self,
        client: usize,
        name: &[u8],
        token: tenure_api::Revision,
        until: Moment,
    ) {
        self.tell_event(|| {
            let name = String::from_utf8_lossy(name);
            let text = format!("does not believe to lead {name}");
            belief("disbelieve", text, client, &name, token, until)
        });
    }
}

fn belief(
    kind: &'static str,
    text: String,
    client: usize,
    name: &str,
    token: tenure_api::Revision,
    until: Moment,
) -> Event {
    Event::new(kind, text)
        .of(format!("c{client}"))
        .with("name", name)
        .with("token", token.0)
        .with("until", micros(until))
}

fn micros(at: Moment) -> u64 {
    at.since_start().as_micros() as u64
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Leader => "leader",
        Role::Follower => "follower",
        Role::Candidate => "candidate",
    }
}

/// A message in one word, and in a few.
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
