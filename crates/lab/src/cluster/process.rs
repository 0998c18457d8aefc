//! Processes begin, end, stand still and find each other.

use std::time::Duration;

use tenure_replica::{Input, Moment, Replica};

use crate::{
    cluster::{
        World,
        canary::Canary,
        happening::Happening,
        member::{Member, Number, Process, Standing, id},
        story::Shown,
    },
    engine::{ms, us},
};

/// Members try to connect so often.
const CONNECT_INTERVAL: Duration = ms(20);

impl World {
    pub fn start_all(&mut self) {
        for member in self.numbers() {
            let delay = self.dice.duration(us(0), ms(20));
            self.agenda.after(delay, Happening::Start(member));
        }
    }

    pub fn start(&mut self, number: Number) {
        let now = self.now();
        let member = self.members.get_mut(&number).expect("only members are started");
        if member.process.is_some() || member.standing != Standing::In {
            return;
        }
        member.life += 1;
        // Of another life nothing was told yet.
        (member.shown, member.timer) = (Shown::default(), None);
        if self.canary == Some(Canary::VoteForgotten) {
            member.disk.durable.hard_state.vote = None;
        }
        member.config.clock_start_ms = member.clock.wall(now).as_millis() as u64;
        let recovered = member.disk.recover();
        let boot = recovered.boot;
        let log = member.disk.durable.clone();
        let checked_up_to = log.base.0;
        member.process = Some(Process {
            replica: Replica::new(Moment::ZERO, member.config.clone(), recovered),
            log,
            inbox: vec![],
            started: member.clock.monotonic(now),
            pauses: 0,
            ticket: 0,
            called_at: None,
            checked_up_to,
            applied_before: checked_up_to,
            idle_calls: 0,
            last_call: now,
        });
        self.tell_of(number, "start", || format!("starts, life {boot}"));
        self.expect_call(number, now);
        for other in self.numbers() {
            if other != number {
                let delay = self.dice.duration(us(100), ms(3));
                self.agenda.after(delay, Happening::Connect(number, other));
            }
        }
    }

    /// The process ends; its kernel closes its connections.
    pub fn crash(&mut self, number: Number) {
        let member = self.members.get_mut(&number).expect("only members crash");
        if member.process.take().is_none() {
            return;
        }
        member.disk.crash(&mut self.dice, &mut self.counts);
        self.tell_of(number, "crash", || "crashes".into());
        for other in self.numbers() {
            self.net.disbelieve(number, other);
            if self.net.disconnect(number, other) && !self.net.links.is_cut(number, other) {
                self.tell_lost(other, number);
            }
        }
        self.streams.retain(|_, (_, member)| *member != number);
        for (id, open) in self.invariants.one_answer.forget(number) {
            self.tell_unanswered(id, &open);
            self.with_client(open.client, |client, me, world| client.lost(me, world, &open));
        }
        for client in 0..self.clients.len() {
            self.with_client(client, |client, me, world| client.member_gone(me, world, number));
        }
    }

    fn tell_lost(&mut self, observer: Number, gone: Number) {
        if !self.net.disbelieve(observer, gone) {
            return;
        }
        let now = self.now();
        let at = self.net.links.arrival(now, gone, observer, &mut self.dice, &mut self.counts);
        self.arrive_at(at, observer, Input::Lost(id(gone)));
    }

    /// A connection breaks and is made again, though both processes live.
    pub fn reset(&mut self, a: Number, b: Number) {
        if self.net.disconnect(a, b) {
            self.tell_reset(a, b);
            self.tell_lost(a, b);
            self.tell_lost(b, a);
            let delay = self.dice.duration(ms(1), ms(80));
            self.agenda.after(delay, Happening::Connect(a, b));
        }
    }

    pub(super) fn connect(&mut self, a: Number, b: Number) {
        let life = |number| {
            let member: &Member = &self.members[&number];
            member.process.as_ref().map(|_| member.life)
        };
        let (Some(life_a), Some(life_b)) = (life(a), life(b)) else { return };
        if self.net.is_connected(a, b) {
            return;
        }
        if !self.net.links.is_cut(a, b) && !self.net.links.is_cut(b, a) {
            for (caller, called) in [(a, b), (b, a)] {
                if self.has_let_go(called, caller) {
                    return self.hand_in(caller, Input::Removed);
                }
            }
            // One that knows the other tells it so.
            if !self.knows(a, b) && !self.knows(b, a) {
                self.agenda.after(CONNECT_INTERVAL, Happening::Connect(a, b));
                return;
            }
        }
        if self.net.links.is_cut(a, b) || self.net.links.is_cut(b, a) {
            self.agenda.after(CONNECT_INTERVAL, Happening::Connect(a, b));
            return;
        }
        self.net.connect((a, life_a), (b, life_b));
        self.tell_connect(a, b);
        let now = self.now();
        for (observer, peer) in [(a, b), (b, a)] {
            // Whoever did not hear of the end of the connection before hears of it now.
            if self.net.believe(observer, peer) {
                let at =
                    self.net.links.arrival(now, peer, observer, &mut self.dice, &mut self.counts);
                self.arrive_at(at, observer, Input::Lost(id(peer)));
            }
            let at = self.net.links.arrival(now, peer, observer, &mut self.dice, &mut self.counts);
            self.arrive_at(at, observer, Input::Connected(id(peer)));
        }
    }

    /// Whether a member takes another's calls. One that joins has its list from the others.
    fn knows(&self, member: Number, other: Number) -> bool {
        let process = self.members[&member].process.as_ref();
        process.is_some_and(|process| {
            let state = process.replica.state();
            state.members.is_empty()
                || state.members.contains_key(&id(other))
                || state.departing.contains_key(&id(other))
        })
    }

    fn has_let_go(&self, member: Number, other: Number) -> bool {
        let process = self.members[&member].process.as_ref();
        process.is_some_and(|process| {
            let state = process.replica.state();
            state.removed.contains(&id(other)) && !state.departing.contains_key(&id(other))
        })
    }

    /// It has heard from another member that it was removed.
    pub(super) fn retire(&mut self, number: Number) {
        assert!(self.truth.removed.contains_key(&id(number)), "m{number} is still needed");
        self.tell_of(number, "say", || "was removed and stops".into());
        self.counts.count("removed_stops");
        self.crash(number);
        self.member_mut(number).standing = Standing::Gone;
    }

    /// A member hangs up on one that was removed.
    pub(super) fn dismiss(&mut self, member: Number, removed: Number) {
        self.reset(member, removed);
    }

    fn arrive_at(&mut self, at: Moment, to: Number, input: Input) {
        let life = self.members[&to].life;
        self.agenda.at(at, Happening::Arrive { to, life, input: Box::new(input) });
    }

    /// Hands something to a member out of thin air.
    pub fn hand_in(&mut self, to: Number, input: Input) {
        self.arrive(to, self.members[&to].life, input);
    }

    pub(super) fn arrive(&mut self, to: Number, life: u64, input: Input) {
        let soon = self.now() + self.dice.duration(us(5), us(40));
        let member = self.members.get_mut(&to).expect("only members are told anything");
        if member.life != life {
            return;
        }
        let Some(process) = member.process.as_mut() else { return };
        process.inbox.push(input);
        if process.pauses == 0 {
            self.expect_call(to, soon);
        }
    }

    /// The member's loop will run at that moment, if not earlier.
    pub(super) fn expect_call(&mut self, number: Number, at: Moment) {
        let now = self.now();
        let member = self.members.get_mut(&number).expect("only members are called");
        let life = member.life;
        let Some(process) = member.process.as_mut() else { return };
        let at = at.max(now + member.slow);
        if process.called_at.is_none_or(|expected| at < expected) {
            process.ticket += 1;
            process.called_at = Some(at);
            let ticket = process.ticket;
            self.agenda.at(at, Happening::Call { member: number, life, ticket });
        }
    }

    /// The process stands still for a while; its kernel goes on taking things in for it.
    pub fn pause(&mut self, number: Number, duration: Duration) {
        let member = self.members.get_mut(&number).expect("only members are paused");
        let life = member.life;
        let Some(process) = member.process.as_mut() else { return };
        self.counts.count("paused");
        process.pauses += 1;
        process.called_at = None;
        process.ticket += 1;
        self.tell_of(number, "pause", || format!("stands still for {duration:?}"));
        self.agenda.after(duration, Happening::Resume { member: number, life });
    }

    pub(super) fn resume(&mut self, number: Number, life: u64) {
        let now = self.now();
        let member = self.members.get_mut(&number).expect("only members are paused");
        let Some(process) = member.process.as_mut().filter(|_| member.life == life) else { return };
        process.pauses = process.pauses.saturating_sub(1);
        if process.pauses == 0 {
            self.tell_of(number, "resume", || "goes on".into());
            self.expect_call(number, now);
        }
    }
}
