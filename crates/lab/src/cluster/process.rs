//! Start, crash, pause and resume of members' processes, and the connections between them.

use std::time::Duration;

use tenure_disk::DiskError;
use tenure_replica::{Input, Moment, command::COMMAND_VERSION};

use crate::{
    cluster::{
        World,
        disk::is_full,
        event::WorldEvent,
        member::{MemberNumber, MembershipState, SimMember, id},
        net::{ConnectionEvent, ConnectionId, PresenceChange},
        trace_events::TracedState,
    },
    engine::{ms, us},
};

/// How often members try to connect.
const CONNECT_INTERVAL: Duration = ms(20);
/// How often a kernel repeats the end of a connection.
const END_AGAIN: Duration = ms(200);
/// How long a kernel probes a silent connection. As long as the server's `LIVENESS` allows.
const KEEPALIVE: Duration = ms(7000);

impl World {
    pub fn start_all(&mut self) {
        for member in self.numbers() {
            let delay = self.dice.duration(us(0), ms(20));
            self.agenda.after(delay, WorldEvent::Start(member));
        }
    }

    pub fn start(&mut self, number: MemberNumber) {
        let now = self.now();
        let member = self.members.get_mut(&number).expect("only members are started");
        if member.process.is_some() || member.membership != MembershipState::In {
            return;
        }
        member.life += 1;
        // Nothing was traced of this life yet.
        (member.traced, member.timer) = (TracedState::default(), None);
        // A member that starts again is upgraded to the newest build once in a while.
        if self.mixed && self.fate.chance(self.upgrades) {
            member.config.command_version = COMMAND_VERSION;
        }
        member.config.clock_start_ms = member.clock.wall(now).as_millis() as u64;
        if let Err(error) = member.start(now) {
            return self.cannot_start(number, &error);
        }
        let boot = member.disk.boot;
        self.trace_of(number, "start", || format!("starts, life {boot}"));
        self.expect_call(number, now);
        for other in self.numbers() {
            if other != number {
                for (caller, called) in [(number, other), (other, number)] {
                    let delay = self.dice.duration(us(100), ms(3));
                    self.agenda.after(delay, WorldEvent::Connect(caller, called));
                }
            }
        }
    }

    /// The disk is full or failing, or something on it is damaged. The member starts again after an operator's repair.
    fn cannot_start(&mut self, number: MemberNumber, error: &DiskError) {
        let member = self.members.get_mut(&number).expect("only members are started");
        let damaged = member.disk.refuses(error);
        if damaged {
            // Nothing was changed, so the undo of the damage restores everything.
            member.disk.device.repair();
        }
        member.disk.fails = false;
        let (full, off) = (is_full(error), member.disk.device.is_off());
        self.counts.count(match (damaged, full, off) {
            (true, _, _) => "disk_refused",
            (_, true, _) => "disk_full",
            (_, _, true) => "power_fails",
            _ => "disk_failed",
        });
        self.trace_of(number, "say", || format!("does not start: {error}"));
        let member = self.members.get_mut(&number).expect("only members are started");
        member.disk.crash(&mut self.dice, &mut self.counts);
        let delay = self.dice.duration(ms(50), ms(1000));
        self.agenda.after(delay, WorldEvent::Start(number));
    }

    /// The process ends; its kernel closes its connections.
    pub fn crash(&mut self, number: MemberNumber) {
        let member = self.members.get_mut(&number).expect("only members crash");
        if member.process.take().is_none() {
            return;
        }
        member.disk.crash(&mut self.dice, &mut self.counts);
        self.trace_of(number, "crash", || "crashes".into());
        self.net.forget(number);
        for other in self.numbers() {
            if let Some(id) = self.net.disconnect(number, other) {
                self.report_end(id, (other, number), ConnectionEvent::HungUp);
            }
            if let Some(id) = self.net.disconnect(other, number) {
                self.report_end(id, (other, number), ConnectionEvent::Broke);
            }
        }
        self.streams.retain(|_, (_, member)| *member != number);
        for (id, open) in self.invariants.one_answer.forget(number) {
            self.trace_unanswered(id, &open);
            self.with_client(open.client, |client, me, world| client.lost(me, world, &open));
        }
        for client in 0..self.clients.len() {
            self.with_client(client, |client, me, world| client.member_gone(me, world, number));
        }
    }

    /// Reports the end of a connection to a member. While the link is cut nothing passes, but kernels repeat it, and in the
    /// end a keepalive fails.
    fn report_end(
        &mut self,
        id: ConnectionId,
        (observer, peer): (MemberNumber, MemberNumber),
        event: ConnectionEvent,
    ) {
        let now = self.now();
        let mut at = self.event_arrives(now, (observer, peer), event);
        if self.net.links.is_cut(peer, observer) {
            at = now + END_AGAIN;
            let (life, given_up) = (self.members[&observer].life, now + KEEPALIVE);
            let ends = (observer, peer);
            let what = WorldEvent::EndUnseen { ends, life, id, event, given_up };
            return self.agenda.at(at, what);
        }
        let life = self.members[&observer].life;
        self.agenda.at(at, WorldEvent::Connection { ends: (observer, peer), life, id, event });
    }

    pub(super) fn end_unseen(
        &mut self,
        (observer, peer): (MemberNumber, MemberNumber),
        life: u64,
        (id, event): (ConnectionId, ConnectionEvent),
        given_up: Moment,
    ) {
        let now = self.now();
        if self.net.links.is_cut(peer, observer) && now < given_up {
            let what = WorldEvent::EndUnseen { ends: (observer, peer), life, id, event, given_up };
            return self.agenda.at(now + END_AGAIN, what);
        }
        self.on_connection_event((observer, peer), life, id, event);
    }

    /// When a socket event arrives. The end of an incoming connection comes after all messages on it; events of an outgoing
    /// one keep no order with messages.
    fn event_arrives(
        &mut self,
        now: Moment,
        (observer, peer): (MemberNumber, MemberNumber),
        event: ConnectionEvent,
    ) -> Moment {
        let (links, dice) = (&mut self.net.links, &mut self.dice);
        match event {
            ConnectionEvent::Called | ConnectionEvent::HungUp => {
                links.arrival(now, peer, observer, dice, &mut self.counts)
            }
            ConnectionEvent::Answered | ConnectionEvent::Broke => {
                now + links.delay(peer, observer, dice)
            }
        }
    }

    /// A member's socket reports an event, and the member gets the input that follows from it.
    pub(super) fn on_connection_event(
        &mut self,
        (observer, peer): (MemberNumber, MemberNumber),
        life: u64,
        connection: ConnectionId,
        event: ConnectionEvent,
    ) {
        let member = &self.members[&observer];
        if member.life != life || member.process.is_none() {
            return;
        }
        if matches!(event, ConnectionEvent::Called) && !self.net.is_connected(observer, peer) {
            // The other member has connected, so it is up.
            self.agenda.after(Duration::ZERO, WorldEvent::Connect(observer, peer));
        }
        for told in self.net.on_event((observer, peer), connection, event) {
            let input = match told {
                PresenceChange::Connected => Input::Connected(id(peer)),
                PresenceChange::Lost => Input::Lost(id(peer)),
            };
            self.arrive(observer, life, input);
        }
    }

    /// Breaks both connections of two members, which are made again. Both processes live on.
    pub fn reset(&mut self, a: MemberNumber, b: MemberNumber) {
        self.reset_one_way(a, b);
        self.reset_one_way(b, a);
    }

    /// Breaks the connection that one member made to another; it is made again. The other connection stays.
    pub fn reset_one_way(&mut self, caller: MemberNumber, called: MemberNumber) {
        if let Some(id) = self.net.disconnect(caller, called) {
            self.trace_reset(caller, called);
            self.report_end(id, (called, caller), ConnectionEvent::HungUp);
            self.report_end(id, (caller, called), ConnectionEvent::Broke);
            let delay = self.dice.duration(ms(1), ms(80));
            self.agenda.after(delay, WorldEvent::Connect(caller, called));
        }
    }

    /// One member connects to another.
    pub(super) fn connect(&mut self, caller: MemberNumber, called: MemberNumber) {
        let life = |number| {
            let member: &SimMember = &self.members[&number];
            member.process.as_ref().map(|_| member.life)
        };
        let (Some(life_caller), Some(life_called)) = (life(caller), life(called)) else { return };
        if self.net.is_connected(caller, called) {
            return;
        }
        // The answer needs the way back.
        let links = &self.net.links;
        let again = WorldEvent::Connect(caller, called);
        if links.is_cut(caller, called) || links.is_cut(called, caller) {
            return self.agenda.after(CONNECT_INTERVAL, again);
        }
        if self.has_let_go(called, caller) {
            return self.hand_in(caller, Input::Removed);
        }
        if self.has_let_go(caller, called) {
            return;
        }
        // One of the two must know the other.
        if !self.knows(caller, called) && !self.knows(called, caller) {
            return self.agenda.after(CONNECT_INTERVAL, again);
        }
        let connection = self.net.connect((caller, life_caller), (called, life_called));
        self.trace_connect(caller, called);
        let now = self.now();
        let seen = self.event_arrives(now, (called, caller), ConnectionEvent::Called);
        let (ends, id) = ((called, caller), connection);
        let what =
            WorldEvent::Connection { ends, life: life_called, id, event: ConnectionEvent::Called };
        self.agenda.at(seen, what);
        let answered = self.event_arrives(seen, (caller, called), ConnectionEvent::Answered);
        let ends = (caller, called);
        let what = WorldEvent::Connection {
            ends,
            life: life_caller,
            id,
            event: ConnectionEvent::Answered,
        };
        self.agenda.at(answered, what);
    }

    /// Whether a member accepts connections of another. One that joins accepts all.
    fn knows(&self, member: MemberNumber, other: MemberNumber) -> bool {
        let process = self.members[&member].process.as_ref();
        process.is_some_and(|process| {
            let state = process.replica.state();
            state.members.is_empty()
                || state.members.contains_key(&id(other))
                || state.departing.contains_key(&id(other))
        })
    }

    pub(super) fn has_let_go(&self, member: MemberNumber, other: MemberNumber) -> bool {
        let process = self.members[&member].process.as_ref();
        process.is_some_and(|process| {
            let state = process.replica.state();
            state.removed.contains(&id(other)) && !state.departing.contains_key(&id(other))
        })
    }

    /// The member has learned from another that it was removed.
    pub(super) fn retire(&mut self, number: MemberNumber) {
        assert!(self.truth.removed.contains_key(&id(number)), "m{number} is still needed");
        self.trace_of(number, "say", || "was removed and stops".into());
        self.counts.count("removed_stops");
        self.crash(number);
        self.member_mut(number).membership = MembershipState::Gone;
    }

    /// A member closes its connections with one that was removed, and forgets it.
    pub(super) fn dismiss(&mut self, member: MemberNumber, removed: MemberNumber) {
        self.net.forget_peer(member, removed);
        self.reset(member, removed);
    }

    /// Hands an input to a member, as if from nowhere.
    pub fn hand_in(&mut self, to: MemberNumber, input: Input) {
        self.arrive(to, self.members[&to].life, input);
    }

    pub(super) fn arrive(&mut self, to: MemberNumber, life: u64, mut input: Input) {
        let now = self.now();
        let soon = now + self.dice.duration(us(5), us(40));
        let member = self.members.get_mut(&to).expect("only members are told anything");
        if member.life != life {
            return;
        }
        let Some(started) = member.process.as_ref().map(|process| process.started) else { return };
        if let Input::Message { arrived, .. } = &mut input {
            *arrived = member.local(now, started);
        }
        let Some(process) = member.process.as_mut() else { return };
        process.inbox.push(input);
        if process.pauses == 0 {
            self.expect_call(to, soon);
        }
    }

    /// Schedules the member's next call at that moment, if none is due earlier.
    pub(super) fn expect_call(&mut self, number: MemberNumber, at: Moment) {
        let now = self.now();
        let member = self.members.get_mut(&number).expect("only members are called");
        let life = member.life;
        let Some(process) = member.process.as_mut() else { return };
        let at = at.max(now + member.slow);
        if process.called_at.is_none_or(|expected| at < expected) {
            process.ticket += 1;
            process.called_at = Some(at);
            let ticket = process.ticket;
            self.agenda.at(at, WorldEvent::Call { member: number, life, ticket });
        }
    }

    /// Pauses the process; its kernel goes on receiving.
    pub fn pause(&mut self, number: MemberNumber, duration: Duration) {
        let member = self.members.get_mut(&number).expect("only members are paused");
        let life = member.life;
        let Some(process) = member.process.as_mut() else { return };
        self.counts.count("paused");
        process.pauses += 1;
        process.called_at = None;
        process.ticket += 1;
        self.trace_of(number, "pause", || format!("is paused for {duration:?}"));
        self.agenda.after(duration, WorldEvent::Resume { member: number, life });
    }

    pub(super) fn resume(&mut self, number: MemberNumber, life: u64) {
        let now = self.now();
        let member = self.members.get_mut(&number).expect("only members are paused");
        let Some(process) = member.process.as_mut().filter(|_| member.life == life) else { return };
        process.pauses = process.pauses.saturating_sub(1);
        if process.pauses == 0 {
            self.trace_of(number, "resume", || "resumes".into());
            self.expect_call(number, now);
        }
    }
}
