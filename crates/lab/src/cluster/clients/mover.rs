//! An operator who moves the leadership about.

use tenure_api::Failure;
use tenure_replica::{Answer, Request};

use super::Client;
use crate::{
    cluster::{World, happening::Happening, member::id},
    engine::ms,
    invariants::one_answer::Open,
};

pub struct Mover;

impl Client for Mover {
    fn turn(&mut self, me: usize, world: &mut World) {
        if world.resting {
            return;
        }
        let target = world.some_member();
        let asked = world
            .leader()
            .zip(target)
            .and_then(|(leader, to)| world.ask(me, leader, Request::MoveLeader(id(to))));
        if asked.is_none() {
            world.agenda.after(ms(100), Happening::Client(me));
        }
    }

    fn answered(&mut self, me: usize, world: &mut World, _open: &Open, answer: &Answer) {
        match answer.result {
            Ok(_) => world.counts.count("leader_moved"),
            Err(Failure::NotLeader | Failure::TimedOutLeaderTransfer) => {}
            Err(failure) => panic!("the leader was not moved: {failure}"),
        }
        world.agenda.after(ms(400), Happening::Client(me));
    }

    fn lost(&mut self, me: usize, world: &mut World, _open: &Open) {
        world.agenda.after(ms(100), Happening::Client(me));
    }
}
