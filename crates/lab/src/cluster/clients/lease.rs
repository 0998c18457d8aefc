//! A client with a lease and a key on it, which renews for a while, and then dies or revokes the lease.

use std::time::Duration;

use tenure_api::{Failure, LeaseId, Put, op::PutLease};
use tenure_replica::{Answer, Moment, Operation, command::Command};

use super::SimClient;
use crate::{
    cluster::{World, event::WorldEvent},
    engine::ms,
    invariants::one_answer::OpenRequest,
};

pub struct LeaseClient {
    /// The TTL of its leases.
    pub ttl_secs: i64,
    phase: Phase,
    lives: i64,
    turn_due: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Nothing,
    Granting(LeaseId),
    Attaching(LeaseId),
    /// How many renewals are left before it stops.
    Holding(LeaseId, u64),
    Revoking(LeaseId),
}

impl LeaseClient {
    pub fn new(ttl_secs: i64) -> LeaseClient {
        LeaseClient { ttl_secs, phase: Phase::Nothing, lives: 0, turn_due: Moment::ZERO }
    }

    fn command(&self, world: &mut World) -> Option<Command> {
        Some(match self.phase {
            Phase::Nothing => return None,
            Phase::Granting(id) => Command::LeaseGrant { id, ttl_secs: self.ttl_secs },
            Phase::Attaching(lease) => Command::Put(Put {
                key: format!("s/{lease}").into(),
                value: Some(world.fresh_value().into()),
                lease: PutLease::Set(Some(lease)),
                prev_kv: false,
            }),
            Phase::Holding(lease, _) => Command::LeaseRenew(lease),
            Phase::Revoking(lease) => Command::LeaseRevoke(lease),
        })
    }

    /// The phase after a request that was done.
    fn advance(&mut self, world: &mut World) {
        self.phase = match self.phase {
            Phase::Granting(lease) => Phase::Attaching(lease),
            Phase::Attaching(lease) => Phase::Holding(lease, world.dice.between(0, 12)),
            Phase::Holding(lease, 0) if world.dice.chance(300) => Phase::Revoking(lease),
            Phase::Holding(_, 0) | Phase::Revoking(_) | Phase::Nothing => Phase::Nothing,
            Phase::Holding(lease, left) => Phase::Holding(lease, left - 1),
        };
    }

    fn next_turn(&mut self, me: usize, world: &mut World, delay: Duration) {
        self.turn_due = world.now() + delay;
        world.agenda.after(delay, WorldEvent::ClientTurn(me));
    }
}

impl SimClient for LeaseClient {
    fn turn(&mut self, me: usize, world: &mut World) {
        if world.resting || world.now() < self.turn_due {
            return;
        }
        if self.phase == Phase::Nothing {
            self.lives += 1;
            self.phase = Phase::Granting(LeaseId((me as i64 + 1) * 1000 + self.lives));
        }
        let command = self.command(world).expect("it is in a phase with a request");
        let member = world.some_member();
        if member
            .and_then(|member| world.send_request(me, member, Operation::Write(command)))
            .is_none()
        {
            self.next_turn(me, world, ms(30));
        }
    }

    fn answered(&mut self, me: usize, world: &mut World, _open: &OpenRequest, answer: &Answer) {
        let renewing = matches!(self.phase, Phase::Holding(..));
        let delay = match answer.result {
            Ok(_) => {
                self.advance(world);
                if renewing { ms(self.ttl_secs as u64 * 1000 / 3) } else { ms(5) }
            }
            // The answer to the first grant was lost.
            Err(Failure::LeaseExists) => {
                self.advance(world);
                ms(5)
            }
            Err(Failure::LeaseNotFound) => {
                self.phase = Phase::Nothing;
                ms(50)
            }
            Err(_) => ms(40),
        };
        self.next_turn(me, world, delay);
    }

    fn lost(&mut self, me: usize, world: &mut World, _open: &OpenRequest) {
        self.next_turn(me, world, ms(20));
    }
}
