//! All programs and all doors, as one client of the cluster's world.
//!
//! Its turn comes whenever something arrives, a timer rings or a member has spoken. Then everybody who
//! can run does, and the judges look at what is believed.

use std::collections::BTreeMap;

use bytes::Bytes;
use tenure_replica::{
    Answer, Moment, Request,
    command::{Command, LineCommand, Rule, Successor},
    queue::listeners::{LineNews, Listener},
};
use tokio::sync::watch;

use super::{
    door::Door,
    post::{Call, CallId, Down, Parcel, Post, ProgramId, Sent, Up},
    program::Program,
    script::{Notebook, Script, THRONE},
    story::{self, Ends},
};
use crate::{
    cluster::{World, clients::Client, happening::Happening, member::Number},
    engine::{Clock, ms, us},
    invariants::{one_answer::Open, one_holder},
};

/// What may happen to programs.
pub const FAULTS: [&str; 4] = ["program_crash", "program_pause", "program_cut", "program_reset"];

/// Who rules has let everybody go on by then, counted from when programs were told to rest.
const LAST_RULE_AFTER: std::time::Duration = ms(1000);

pub struct Town {
    post: Post,
    notes: Notebook,
    /// What was told of the ends of beliefs.
    ends: Ends,
    rest: watch::Sender<bool>,
    programs: Vec<Program>,
    doors: BTreeMap<Number, Door>,
    calls: BTreeMap<CallId, Call>,
    /// Between whom nothing passes, and until when.
    cuts: BTreeMap<(ProgramId, Number), Moment>,
    /// When chance picks on the next program; never, if nothing may happen to them.
    next_trouble: Option<Moment>,
    turn_due: Option<Moment>,
    healed: bool,
    /// When somebody rules over the throne next.
    next_rule: Option<Moment>,
    ruled_until: Option<Moment>,
}

impl Town {
    /// A town of nobody. `rough`: things happen to programs, too.
    pub fn new(rough: bool) -> Town {
        Town {
            post: Post::default(),
            notes: Notebook::default(),
            ends: Ends::default(),
            rest: watch::Sender::new(false),
            programs: vec![],
            doors: BTreeMap::new(),
            calls: BTreeMap::new(),
            cuts: BTreeMap::new(),
            next_trouble: rough.then_some(Moment::ZERO + ms(1500)),
            turn_due: None,
            healed: false,
            next_rule: None,
            ruled_until: None,
        }
    }

    /// Somebody moves in, who will begin at that moment. Its clock runs so much too fast, in millionths.
    pub fn settle(&mut self, begins: Moment, ppm: i64, script: Script) {
        let clock = Clock::new(ppm, std::time::Duration::ZERO);
        let mut program = Program::new(self.programs.len(), script, clock);
        program.restarts_at = Some(begins);
        self.programs.push(program);
    }

    /// From that moment on somebody rules over the throne.
    pub fn rule_from(&mut self, moment: Moment) {
        self.next_rule = Some(moment);
    }

    fn expect_turn(&mut self, me: usize, world: &mut World, at: Moment) {
        if self.turn_due.is_none_or(|due| at < due) {
            self.turn_due = Some(at);
            world.agenda.at(at, Happening::Client(me));
        }
    }

    fn soon(&mut self, me: usize, world: &mut World) {
        let at = world.now() + world.dice.duration(us(2), us(60));
        self.expect_turn(me, world, at);
    }

    /// Programs that begin, go on, or are picked on.
    fn fates(&mut self, world: &mut World) {
        let now = world.now();
        self.notes.open().is_read = world.trace.is_read();
        if world.resting && !*self.rest.borrow() {
            self.rest.send_replace(true);
        }
        if self.next_trouble.is_some() && !world.rough && now > Moment::ZERO + ms(2000) {
            self.heal(now);
        }
        self.cuts.retain(|_, until| *until > now);
        for id in 0..self.programs.len() {
            let program = &mut self.programs[id];
            if program.paused_until.is_some_and(|until| until <= now) {
                program.paused_until = None;
                story::tell_of(id, "resume", || "goes on".into(), world);
            }
            if program.restarts_at.is_some_and(|at| at <= now) {
                let (seed, members) = (world.dice.roll(), world.numbers());
                let life = program.lives + 1;
                story::tell_of(id, "start", || format!("starts, life {life}"), world);
                program.start(seed, members, &self.post, &self.notes, &self.rest, world.canary);
            }
        }
        if self.next_trouble.is_some_and(|at| at <= now) && world.rough {
            self.trouble(world);
            let pause = world.dice.duration(ms(30), ms(500));
            self.next_trouble = Some(now + pause);
        }
    }

    /// Somebody evicts, transfers, freezes and resumes as they please. Before the end, everybody may lead
    /// again.
    fn rule(&mut self, me: usize, world: &mut World) {
        let now = world.now();
        if world.resting {
            self.ruled_until.get_or_insert(now + LAST_RULE_AFTER);
        }
        let over = self.ruled_until.is_some_and(|until| until < now);
        if over || self.next_rule.is_none_or(|at| at > now) {
            return;
        }
        let name = Bytes::from_static(THRONE.as_bytes());
        let rule = match world.dice.below(100) {
            _ if !world.rough => Rule::Resume(name),
            0..30 => Rule::Evict { name, token: None },
            30..70 => {
                let (id, life) =
                    (world.dice.below(self.programs.len() as u64), world.dice.between(1, 2));
                let to = Successor::Identity(format!("p{id}/{life}"));
                Rule::Transfer { name, to, within_ms: world.dice.between(20, 600) }
            }
            70..78 => Rule::Freeze(name),
            _ => Rule::Resume(name),
        };
        let request = Request::Write(Command::Line(LineCommand::Rule(rule)));
        if let Some(member) = world.some_member() {
            world.ask(me, member, request);
            world.counts.count("ruled");
        }
        self.next_rule = Some(now + world.dice.duration(ms(50), ms(600)));
    }

    fn trouble(&mut self, world: &mut World) {
        let now = world.now();
        let id = world.dice.below(self.programs.len() as u64) as usize;
        let what = *world.dice.pick(&FAULTS).expect("there are some");
        let until = now + world.dice.duration(ms(20), ms(2500));
        let mut cut_off = vec![];
        match what {
            "program_crash" => {
                if !self.programs[id].kill() {
                    return;
                }
                self.programs[id].restarts_at = Some(until);
                story::tell_of(id, "crash", || "crashes".into(), world);
                self.hang_up_all(id, world);
            }
            "program_pause" => {
                if self.programs[id].awake().is_none() {
                    return;
                }
                self.programs[id].paused_until = Some(until);
                story::tell_of(id, "pause", || "stands still".into(), world);
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
            _ => self.hang_up_all(id, world),
        }
        world.counts.count(what);
        story::tell_fault(id, what, &cut_off, until, world);
    }

    /// The connections of a program break; each side hears it from its kernel.
    fn hang_up_all(&mut self, program: ProgramId, world: &mut World) {
        let now = world.now();
        for call in self.calls.values_mut().filter(|call| call.program == program) {
            let (up, down) = (delay(world), delay(world));
            call.say_up(now + up, Up::HangUp { gone: true }, world);
            call.say_down(now + down, Down::HangUp, world);
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

    /// Everything that arrives now. Whether anything did.
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
                let ends = matches!(what, Down::HangUp);
                self.post.hear(id, what);
                if ends {
                    self.calls.remove(&id);
                }
            }
        }
        debug_assert!(self.calls.values().all(|call| call.due().is_none_or(|due| due > now)));
        any
    }

    fn next_up(&mut self, id: CallId, world: &mut World) -> Option<Up> {
        let now = world.now();
        let call = self.calls.get_mut(&id)?;
        call.up.due().filter(|due| *due <= now)?;
        let member = &world.members[&call.member];
        let stands_still = member.process.as_ref().is_some_and(|process| process.pauses > 0);
        if stands_still || self.cuts.contains_key(&(call.program, call.member)) {
            // TCP tries again, and so does a process that stood still.
            let again = world.dice.duration(ms(1), if stands_still { ms(3) } else { ms(60) });
            call.up.put_off(now + again);
            return None;
        }
        let Sent { number, what, .. } = call.up.take(now)?;
        story::tell_received(call.upward(number), world);
        Some(what)
    }

    fn next_down(&mut self, id: CallId, world: &mut World) -> Option<Down> {
        let now = world.now();
        let call = self.calls.get_mut(&id)?;
        call.down.due().filter(|due| *due <= now)?;
        if self.cuts.contains_key(&(call.program, call.member)) {
            let again = world.dice.duration(ms(1), ms(60));
            call.down.put_off(now + again);
            return None;
        }
        let Sent { number, what, .. } = call.down.take(now)?;
        story::tell_received(call.downward(number), world);
        Some(what)
    }

    fn arrive_up(&mut self, id: CallId, what: Up, world: &mut World) {
        let member = self.calls[&id].member;
        let life = world.members[&member].life;
        let ends = matches!(what, Up::HangUp { .. });
        if self.doors.get(&member).is_none_or(|door| door.life != life) {
            let seed = world.dice.roll();
            self.doors.remove(&member);
            if let Some(door) = Door::new(member, life, seed, self.post.clone(), world) {
                self.doors.insert(member, door);
            }
        }
        match self.doors.get_mut(&member) {
            Some(door) => door.take(id, what),
            // Connection refused.
            None => self.post.down(id, Down::HangUp),
        }
        if ends {
            self.calls.remove(&id);
        }
    }

    /// Everybody runs who can. Whether anybody did.
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
        for (number, door) in &mut self.doors {
            let process = world.members[number].process.as_ref();
            if process.is_none_or(|process| process.pauses > 0) {
                continue;
            }
            door.executor.set_clock(tenure::clock::Moment::after_start(now.since_start()));
            if door.executor.is_ready() {
                any = true;
                door.run(world);
            }
            any |= door.hand_in(me, world);
        }
        any
    }

    /// Takes to the network what was put in.
    fn send(&mut self, world: &mut World) {
        let now = world.now();
        while let Some(parcel) = self.post.take() {
            let arrives = now + delay(world);
            match parcel {
                Parcel::Dial { call, program, member, ask } => {
                    let mut made = Call::new(call, program, member);
                    made.say_up(arrives, Up::Ask(ask), world);
                    self.calls.insert(call, made);
                }
                Parcel::Up(call, what) => {
                    if let Some(call) = self.calls.get_mut(&call) {
                        call.say_up(arrives, what, world);
                    }
                }
                Parcel::Down(id, what) => {
                    if let Some(call) = self.calls.get_mut(&id) {
                        call.say_down(arrives, what, world);
                    }
                }
            }
        }
    }

    fn judge(&mut self, world: &mut World) {
        let now = world.now();
        let mut notes = self.notes.open();
        for what in std::mem::take(&mut notes.counts) {
            world.counts.count(what);
        }
        self.ends.tell(std::mem::take(&mut notes.told), &self.programs, world);
        self.ends.tell_moved(&notes.holders, &self.programs, world);
        let programs = &self.programs;
        let clock_of =
            |program: usize| programs[program].awake().map(|_| programs[program].local(now));
        notes.holders.judge(clock_of, &world.truth, &mut world.counts);
        notes.seen.learn(&world.truth);
    }

    fn next_due(&self, world: &World) -> Option<Moment> {
        let now = world.now();
        let calls = self.calls.values().filter_map(Call::due);
        let programs = self.programs.iter().filter_map(|program| program.due(now));
        let awake = |number: &Number| {
            let process = world.members[number].process.as_ref();
            process.is_some_and(|process| process.pauses == 0)
        };
        let doors = self.doors.iter().filter(|(number, _)| awake(number));
        let doors = doors.filter_map(|(_, door)| door.executor.next_timer());
        let doors = doors.map(|timer| Moment::after_start(timer.since_start()));
        let trouble = self.next_trouble.filter(|_| world.rough);
        let over = self.ruled_until.is_some_and(|until| until < now);
        let rules = self.next_rule.filter(|_| !over);
        // A member that stands still is looked at again in a moment; and so is whether all is well.
        let look = Some(now + ms(5));
        let all = calls.chain(programs).chain(doors).chain(trouble).chain(rules).chain(look);
        all.min().map(|due| due.max(now + us(1)))
    }
}

fn delay(world: &mut World) -> std::time::Duration {
    let weather = world.net.links.weather;
    weather.delay(&mut world.dice)
}

impl Client for Town {
    fn turn(&mut self, me: usize, world: &mut World) {
        if self.turn_due.is_some_and(|due| world.now() < due) {
            return;
        }
        self.turn_due = None;
        self.fates(world);
        self.rule(me, world);
        loop {
            let arrived = self.arrivals(world);
            let ran = self.runs(me, world);
            self.send(world);
            if !arrived && !ran {
                break;
            }
        }
        self.judge(world);
        if let Some(due) = self.next_due(world) {
            self.expect_turn(me, world, due);
        }
    }

    fn answered(&mut self, me: usize, world: &mut World, open: &Open, answer: &Answer) {
        if let Some(door) = self.doors.get_mut(&open.member) {
            door.answered(answer);
        }
        self.soon(me, world);
    }

    fn line_news(&mut self, me: usize, world: &mut World, to: Listener, news: &LineNews) {
        let member = world.streams.get(&to).map(|(_, member)| *member);
        if let Some(door) = member.and_then(|member| self.doors.get_mut(&member)) {
            door.told(to, news, world);
        }
        self.soon(me, world);
    }

    fn member_gone(&mut self, me: usize, world: &mut World, member: Number) {
        if let Some(door) = self.doors.remove(&member) {
            door.executor.kill();
        }
        let now = world.now();
        for call in self.calls.values_mut().filter(|call| call.member == member) {
            let down = delay(world);
            call.say_down(now + down, Down::HangUp, world);
        }
        self.soon(me, world);
    }

    fn settled(&mut self, world: &mut World) {
        self.judge(world);
        for (id, program) in self.programs.iter().enumerate() {
            let idle = program.executor.as_ref().is_none_or(crate::engine::Executor::is_idle);
            assert!(idle, "p{id} still waits for something, though all has been well for long");
        }
        let notes = self.notes.open();
        notes.seen.judge(&mut world.counts);
        world.counts.count(one_holder::NAME);
    }
}
