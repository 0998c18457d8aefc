//! An operator that evicts, transfers, freezes and resumes at random.

use bytes::Bytes;
use tenure_replica::{
    Answer, Operation,
    command::{AdminCommand, Command, ElectionCommand, Successor},
};

use super::SimClient;
use crate::{
    cluster::{World, event::WorldEvent},
    engine::ms,
    invariants::one_answer::OpenRequest,
};

pub struct AdminClient {
    pub name: &'static str,
}

impl SimClient for AdminClient {
    fn turn(&mut self, me: usize, world: &mut World) {
        if world.resting {
            return;
        }
        let name = Bytes::from_static(self.name.as_bytes());
        // Before the end it resumes, so that every candidate may lead again.
        let rule = match world.dice.below(100) {
            _ if !world.rough => AdminCommand::Resume(name),
            0..30 => AdminCommand::Evict { name, token: None },
            30..70 => {
                let to = Successor::Identity(format!("c{}", world.dice.below(20)));
                let within_ms = world.dice.between(20, 600);
                AdminCommand::Transfer { name, to, within_ms }
            }
            70..78 => AdminCommand::Freeze(name),
            _ => AdminCommand::Resume(name),
        };
        let request = Operation::Write(Command::Election(ElectionCommand::Admin(rule)));
        let member = world.some_member();
        if member.and_then(|member| world.send_request(me, member, request)).is_none() {
            world.agenda.after(ms(50), WorldEvent::ClientTurn(me));
        }
    }

    fn answered(&mut self, me: usize, world: &mut World, _open: &OpenRequest, answer: &Answer) {
        world.counts.count(if answer.result.is_ok() { "ruled" } else { "not_ruled" });
        let pause = world.dice.duration(ms(50), ms(600));
        world.agenda.after(pause, WorldEvent::ClientTurn(me));
    }

    fn lost(&mut self, me: usize, world: &mut World, _open: &OpenRequest) {
        world.agenda.after(ms(100), WorldEvent::ClientTurn(me));
    }
}
