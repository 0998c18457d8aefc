//! An operator who evicts, transfers, freezes and resumes as it pleases.

use bytes::Bytes;
use tenure_replica::{
    Answer, Request,
    command::{Command, LineCommand, Rule, Successor},
};

use super::Client;
use crate::{
    cluster::{World, happening::Happening},
    engine::ms,
    invariants::one_answer::Open,
};

pub struct Ruler {
    pub name: &'static str,
}

impl Client for Ruler {
    fn turn(&mut self, me: usize, world: &mut World) {
        if world.resting {
            return;
        }
        let name = Bytes::from_static(self.name.as_bytes());
        // Before it rests, everybody may lead again.
        let rule = match world.dice.below(100) {
            _ if !world.rough => Rule::Resume(name),
            0..30 => Rule::Evict { name, token: None },
            30..70 => {
                let to = Successor::Identity(format!("c{}", world.dice.below(20)));
                let within_ms = world.dice.between(20, 600);
                Rule::Transfer { name, to, within_ms }
            }
            70..78 => Rule::Freeze(name),
            _ => Rule::Resume(name),
        };
        let request = Request::Write(Command::Line(LineCommand::Rule(rule)));
        let member = world.some_member();
        if member.and_then(|member| world.ask(me, member, request)).is_none() {
            world.agenda.after(ms(50), Happening::Client(me));
        }
    }

    fn answered(&mut self, me: usize, world: &mut World, _open: &Open, answer: &Answer) {
        world.counts.count(if answer.result.is_ok() { "ruled" } else { "not_ruled" });
        let pause = world.dice.duration(ms(50), ms(600));
        world.agenda.after(pause, Happening::Client(me));
    }

    fn lost(&mut self, me: usize, world: &mut World, _open: &Open) {
        world.agenda.after(ms(100), Happening::Client(me));
    }
}
