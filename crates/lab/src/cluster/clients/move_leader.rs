//! An operator that moves raft leadership between members.

use tenure_api::Failure;
use tenure_replica::{Answer, Operation};

use super::SimClient;
use crate::{
    cluster::{World, event::WorldEvent, member::id},
    engine::ms,
    invariants::one_answer::OpenRequest,
};

pub struct MoveLeaderClient;

impl SimClient for MoveLeaderClient {
    fn turn(&mut self, me: usize, world: &mut World) {
        if world.resting {
            return;
        }
        let target = world.some_member();
        let asked = world
            .leader()
            .zip(target)
            .and_then(|(leader, to)| world.send_request(me, leader, Operation::MoveLeader(id(to))));
        if asked.is_none() {
            world.agenda.after(ms(100), WorldEvent::ClientTurn(me));
        }
    }

    fn answered(&mut self, me: usize, world: &mut World, _open: &OpenRequest, answer: &Answer) {
        match answer.result {
            Ok(_) => world.counts.count("leader_moved"),
            Err(
                // The target may be a learner, or leaving; and another move may be under way.
                Failure::NotLeader
                | Failure::TimedOutLeaderTransfer
                | Failure::TooManyRequests
                | Failure::BadLeaderTransferee,
            ) => {}
            Err(failure) => panic!("the leader was not moved: {failure}"),
        }
        let pause = world.dice.duration(ms(20), ms(400));
        world.agenda.after(pause, WorldEvent::ClientTurn(me));
    }

    fn lost(&mut self, me: usize, world: &mut World, _open: &OpenRequest) {
        world.agenda.after(ms(100), WorldEvent::ClientTurn(me));
    }
}
