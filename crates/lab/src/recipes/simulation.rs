//! All programs and all member services, as one client of the simulated cluster.
//!
//! Its turn comes whenever a message arrives, a timer is due or a member has answered. Then everything that is
//! ready runs, and the invariants check what programs believe.

use std::collections::BTreeMap;

use bytes::Bytes;
use tenure_replica::{
    Answer, Moment, Operation,
    command::{AdminCommand, Command, ElectionCommand, Successor},
    election::listeners::{Listener, ListenerEvent},
};
use tokio::sync::watch;

use super::{
    client_program::ClientProgram,
    member_service::MemberService,
    network::{
        CallId, ClientMessage, InFlight, ProgramId, ProgramNetwork, QueuedMessage, RpcCall,
        ServerMessage,
    },
    script::{ProgramScript, RANKED, SharedRecord},
    trace_events::{self, TracedDeadlines},
};
use crate::{
    cluster::{World, clients::SimClient, event::WorldEvent, member::MemberNumber},
    engine::{SimClock, ms, us},
    invariants::{one_answer::OpenRequest, one_holder},
};

/// The faults of programs.
pub const PROGRAM_FAULTS: [&str; 4] =
    ["program_crash", "program_pause", "program_cut", "program_reset"];

/// The administrator has resumed the election by then, counted from when programs were told to rest.
const LAST_ADMIN_AFTER: std::time::Duration = ms(1000);

pub struct Simulation {
    network: ProgramNetwork,
    record: SharedRecord,
    /// The deadlines that were traced last.
    deadlines: TracedDeadlines,
    rest: watch::Sender<bool>,
    programs: Vec<ClientProgram>,
    services: BTreeMap<MemberNumber, MemberService>,
    calls: BTreeMap<CallId, RpcCall>,
    /// Cut calls between a program and a member, and until when.
    cuts: BTreeMap<(ProgramId, MemberNumber), Moment>,
    /// When the next fault hits a program; never, if programs have no faults.
    next_fault: Option<Moment>,
    turn_due: Option<Moment>,
    healed: bool,
    /// When the administrator acts next.
    next_admin: Option<Moment>,
    admin_until: Option<Moment>,
}

impl Simulation {
    /// A simulation without programs. `rough`: faults hit programs, too.
    pub fn new(rough: bool) -> Simulation {
        Simulation {
            network: ProgramNetwork::default(),
            record: SharedRecord::default(),
            deadlines: TracedDeadlines::default(),
            rest: watch::Sender::new(false),
            programs: vec![],
            services: BTreeMap::new(),
            calls: BTreeMap::new(),
            cuts: BTreeMap::new(),
            next_fault: rough.then_some(Moment::ZERO + ms(1500)),
            turn_due: None,
            healed: false,
            next_admin: None,
            admin_until: None,
        }
    }

    /// Adds a program, which starts at that moment. Its clock runs fast by `ppm` millionths.
    pub fn add_program(&mut self, begins: Moment, ppm: i64, script: ProgramScript) {
        let clock = SimClock::new(ppm, std::time::Duration::ZERO);
        let mut program = ClientProgram::new(self.programs.len(), script, clock);
        program.restarts_at = Some(begins);
        self.programs.push(program);
    }

    /// From that moment on an administrator acts on the election with priorities.
    pub fn admin_from(&mut self, moment: Moment) {
        self.next_admin = Some(moment);
    }

    fn expect_turn(&mut self, me: usize, world: &mut World, at: Moment) {
        if self.turn_due.is_none_or(|due| at < due) {
            self.turn_due = Some(at);
            world.agenda.at(at, WorldEvent::ClientTurn(me));
        }
    }

    fn soon(&mut self, me: usize, world: &mut World) {
        let at = world.now() + world.dice.duration(us(2), us(60));
        self.expect_turn(me, world, at);
    }

    /// Starts and resumes programs, and injects their next fault.
    fn update_programs(&mut self, world: &mut World) {
        let now = world.now();
        self.record.open().is_read = world.trace.is_read();
        if world.resting && !*self.rest.borrow() {
            self.rest.send_replace(true);
        }
        if self.next_fault.is_some() && !world.rough && now > Moment::ZERO + ms(2000) {
            self.heal(now);
        }
        self.cuts.retain(|_, until| *until > now);
        for id in 0..self.programs.len() {
            let program = &mut self.programs[id];
            if program.paused_until.is_some_and(|until| until <= now) {
                program.paused_until = None;
                trace_events::trace_of(id, "resume", || "resumes".into(), world);
            }
            if program.restarts_at.is_some_and(|at| at <= now) {
                let (seed, members) = (world.dice.next_u64(), world.numbers());
                let life = program.lives + 1;
                trace_events::trace_of(id, "start", || format!("starts, life {life}"), world);
                program.start(seed, members, &self.network, &self.record, &self.rest);
            }
        }
        if self.next_fault.is_some_and(|at| at <= now) && world.rough {
            self.inject_fault(world);
            let pause = world.dice.duration(ms(30), ms(500));
            self.next_fault = Some(now + pause);
        }
    }

    /// The administrator evicts, transfers, freezes and resumes at random. At the end it resumes.
    fn admin_turn(&mut self, me: usize, world: &mut World) {
        let now = world.now();
        if world.resting {
            self.admin_until.get_or_insert(now + LAST_ADMIN_AFTER);
        }
        let over = self.admin_until.is_some_and(|until| until < now);
        if over || self.next_admin.is_none_or(|at| at > now) {
            return;
        }
        let name = Bytes::from_static(RANKED.as_bytes());
        let rule = match world.dice.below(100) {
            _ if !world.rough => AdminCommand::Resume(name),
            0..30 => AdminCommand::Evict { name, token: None },
            30..70 => {
                let (id, life) =
                    (world.dice.below(self.programs.len() as u64), world.dice.between(1, 2));
                let to = Successor::Identity(format!("p{id}/{life}"));
                AdminCommand::Transfer { name, to, within_ms: world.dice.between(20, 600) }
            }
            70..78 => AdminCommand::Freeze(name),
            _ => AdminCommand::Resume(name),
        };
        let request = Operation::Write(Command::Election(ElectionCommand::Admin(rule)));
        if let Some(member) = world.some_member() {
            world.send_request(me, member, request);
            world.counts.count("ruled");
        }
        self.next_admin = Some(now + world.dice.duration(ms(50), ms(600)));
    }

    fn inject_fault(&mut self, world: &mut World) {
        let now = world.now();
        let id = world.dice.below(self.programs.len() as u64) as usize;
        let what = *world.dice.pick(&PROGRAM_FAULTS).expect("there are some");
        let until = now + world.dice.duration(ms(20), ms(2500));
        let mut cut_off = vec![];
        match what {
            "program_crash" => {
                if !self.programs[id].kill() {
                    return;
                }
                self.programs[id].restarts_at = Some(until);
                trace_events::trace_of(id, "crash", || "crashes".into(), world);
                self.close_calls(id, world);
            }
            "program_pause" => {
                if self.programs[id].awake().is_none() {
                    return;
                }
                self.programs[id].paused_until = Some(until);
                trace_events::trace_of(id, "pause", || "is paused".into(), world);
            }
            "program_cut" => {
                // From one member, or from all of them.
                let mut members = world.numbers();
                if world.dice.chance(600) {
                    members = vec![*world.dice.pick(&members).expect("there are members")];
                }
                for member in &members {
                    let cut = self.cuts.entry((id, *member)).or_insert(until);
                    *cut = (*cut).max(until);
                }
                cut_off = members;
            }
            _ => self.close_calls(id, world),
        }
        world.counts.count(what);
        trace_events::trace_fault(id, what, &cut_off, until, world);
    }

    /// Breaks all calls of a program; each side is told by its kernel.
    fn close_calls(&mut self, program: ProgramId, world: &mut World) {
        let now = world.now();
        for call in self.calls.values_mut().filter(|call| call.program == program) {
            let (up, down) = (delay(world), delay(world));
            call.send_up(now + up, ClientMessage::Close { gone: true }, world);
            call.send_down(now + down, ServerMessage::Close, world);
        }
    }

    fn heal(&mut self, now: Moment) {
        self.cuts.clear();
        if std::mem::replace(&mut self.healed, true) {
            return;
        }
        for program in &mut self.programs {
            program.paused_until = program.paused_until.map(|_| now);
            program.restarts_at = program.restarts_at.map(|_| now);
        }
    }

    /// Delivers all messages that arrive now. True if there were any.
    fn arrivals(&mut self, world: &mut World) -> bool {
        let now = world.now();
        let calls: Vec<CallId> = self.calls.keys().copied().collect();
        let mut any = false;
        for id in calls {
            while let Some(what) = self.next_up(id, world) {
                any = true;
                self.arrive_up(id, what, world);
            }
            while let Some(what) = self.next_down(id, world) {
                any = true;
                let ends = matches!(what, ServerMessage::Close);
                self.network.deliver(id, what);
                if ends {
                    self.calls.remove(&id);
                }
            }
        }
        debug_assert!(self.calls.values().all(|call| call.due().is_none_or(|due| due > now)));
        any
    }

    fn next_up(&mut self, id: CallId, world: &mut World) -> Option<ClientMessage> {
        let now = world.now();
        let call = self.calls.get_mut(&id)?;
        call.up.due().filter(|due| *due <= now)?;
        let member = &world.members[&call.member];
        let stands_still = member.process.as_ref().is_some_and(|process| process.pauses > 0);
        if stands_still || self.cuts.contains_key(&(call.program, call.member)) {
            // TCP tries again, and a paused process reads later.
            let again = world.dice.duration(ms(1), if stands_still { ms(3) } else { ms(60) });
            call.up.delay_until(now + again);
            return None;
        }
        let InFlight { number, what, .. } = call.up.take(now)?;
        trace_events::trace_received(call.upward(number), world);
        Some(what)
    }

    fn next_down(&mut self, id: CallId, world: &mut World) -> Option<ServerMessage> {
        let now = world.now();
        let call = self.calls.get_mut(&id)?;
        call.down.due().filter(|due| *due <= now)?;
        if self.cuts.contains_key(&(call.program, call.member)) {
            let again = world.dice.duration(ms(1), ms(60));
            call.down.delay_until(now + again);
            return None;
        }
        let InFlight { number, what, .. } = call.down.take(now)?;
        trace_events::trace_received(call.downward(number), world);
        Some(what)
    }

    fn arrive_up(&mut self, id: CallId, what: ClientMessage, world: &mut World) {
        let member = self.calls[&id].member;
        let life = world.members[&member].life;
        let ends = matches!(what, ClientMessage::Close { .. });
        if self.services.get(&member).is_none_or(|service| service.life != life) {
            let seed = world.dice.next_u64();
            self.services.remove(&member);
            if let Some(service) =
                MemberService::new(member, life, seed, self.network.clone(), world)
            {
                self.services.insert(member, service);
            }
        }
        match self.services.get_mut(&member) {
            Some(service) => service.receive(id, what),
            // Connection refused.
            None => self.network.send_to_program(id, ServerMessage::Close),
        }
        if ends {
            self.calls.remove(&id);
        }
    }

    /// Runs every program and service that is ready. True if one ran.
    fn runs(&mut self, me: usize, world: &mut World) -> bool {
        let now = world.now();
        let mut any = false;
        for program in &self.programs {
            let Some(executor) = program.awake() else { continue };
            executor.set_clock(program.local(now));
            if executor.is_ready() {
                any = true;
                executor.run();
            }
        }
        for (number, service) in &mut self.services {
            let process = world.members[number].process.as_ref();
            if process.is_none_or(|process| process.pauses > 0) {
                continue;
            }
            service.executor.set_clock(tenure::clock::Moment::after_start(now.since_start()));
            if service.executor.is_ready() {
                any = true;
                service.run(world);
            }
            any |= service.submit(me, world);
        }
        any
    }

    /// Sends the messages that were queued.
    fn send(&mut self, world: &mut World) {
        let now = world.now();
        while let Some(queued) = self.network.take() {
            let arrives = now + delay(world);
            match queued {
                QueuedMessage::Open { call, program, member, request } => {
                    let mut made = RpcCall::new(call, program, member);
                    made.send_up(arrives, ClientMessage::Request(request), world);
                    self.calls.insert(call, made);
                }
                QueuedMessage::ToMember(call, what) => {
                    if let Some(call) = self.calls.get_mut(&call) {
                        call.send_up(arrives, what, world);
                    }
                }
                QueuedMessage::ToProgram(id, what) => {
                    if let Some(call) = self.calls.get_mut(&id) {
                        call.send_down(arrives, what, world);
                    }
                }
            }
        }
    }

    fn check(&mut self, world: &mut World) {
        let now = world.now();
        let mut record = self.record.open();
        for what in std::mem::take(&mut record.counts) {
            world.counts.count(what);
        }
        self.deadlines.trace(std::mem::take(&mut record.told), &self.programs, world);
        self.deadlines.trace_moved(&record.holders, &self.programs, world);
        let programs = &self.programs;
        let clock_of =
            |program: usize| programs[program].awake().map(|_| programs[program].local(now));
        record.holders.check(clock_of, &world.truth, &mut world.counts);
        record.seen.learn(&world.truth);
    }

    fn next_due(&self, world: &World) -> Option<Moment> {
        let now = world.now();
        let calls = self.calls.values().filter_map(RpcCall::due);
        let programs = self.programs.iter().filter_map(|program| program.due(now));
        let awake = |number: &MemberNumber| {
            let process = world.members[number].process.as_ref();
            process.is_some_and(|process| process.pauses == 0)
        };
        let services = self.services.iter().filter(|(number, _)| awake(number));
        let services = services.filter_map(|(_, service)| service.executor.next_timer());
        let services = services.map(|timer| Moment::after_start(timer.since_start()));
        let fault = self.next_fault.filter(|_| world.rough);
        let over = self.admin_until.is_some_and(|until| until < now);
        let rules = self.next_admin.filter(|_| !over);
        // Paused members and the state of the cluster are looked at again soon.
        let look = Some(now + ms(5));
        let all = calls.chain(programs).chain(services).chain(fault).chain(rules).chain(look);
        all.min().map(|due| due.max(now + us(1)))
    }
}

fn delay(world: &mut World) -> std::time::Duration {
    let conditions = world.net.links.conditions;
    conditions.delay(&mut world.dice)
}

impl SimClient for Simulation {
    fn turn(&mut self, me: usize, world: &mut World) {
        if self.turn_due.is_some_and(|due| world.now() < due) {
            return;
        }
        self.turn_due = None;
        self.update_programs(world);
        self.admin_turn(me, world);
        loop {
            let arrived = self.arrivals(world);
            let ran = self.runs(me, world);
            self.send(world);
            if !arrived && !ran {
                break;
            }
        }
        self.check(world);
        if let Some(due) = self.next_due(world) {
            self.expect_turn(me, world, due);
        }
    }

    fn answered(&mut self, me: usize, world: &mut World, open: &OpenRequest, answer: &Answer) {
        if let Some(service) = self.services.get_mut(&open.member) {
            service.answered(answer);
        }
        self.soon(me, world);
    }

    fn election_news(&mut self, me: usize, world: &mut World, to: Listener, news: &ListenerEvent) {
        let member = world.streams.get(&to).map(|(_, member)| *member);
        if let Some(service) = member.and_then(|member| self.services.get_mut(&member)) {
            service.deliver_event(to, news, world);
        }
        self.soon(me, world);
    }

    fn member_gone(&mut self, me: usize, world: &mut World, member: MemberNumber) {
        if let Some(service) = self.services.remove(&member) {
            service.executor.kill();
        }
        let now = world.now();
        for call in self.calls.values_mut().filter(|call| call.member == member) {
            let down = delay(world);
            call.send_down(now + down, ServerMessage::Close, world);
        }
        self.soon(me, world);
    }

    fn settled(&mut self, world: &mut World) {
        self.check(world);
        for (id, program) in self.programs.iter().enumerate() {
            let idle = program.executor.as_ref().is_none_or(crate::engine::Executor::is_idle);
            assert!(idle, "p{id} still waits, long after all faults ended");
        }
        let record = self.record.open();
        record.seen.check(&mut world.counts);
        world.counts.count(one_holder::NAME);
    }
}
