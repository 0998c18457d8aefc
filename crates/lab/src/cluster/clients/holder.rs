//! A client with a lease and a key on it, who renews while it lives, and then dies or gives it back.

use std::time::Duration;

use tenure_api::{Failure, LeaseId, Put, op::PutLease};
use tenure_replica::{Answer, Moment, Request, command::Command};

use super::Client;
use crate::{
    cluster::{World, happening::Happening},
    engine::ms,
    invariants::one_answer::Open,
};

pub struct Holder {
    /// What each of its leases lives.
    pub ttl_secs: i64,
    doing: Doing,
    lives: i64,
    turn_due: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Doing {
    Nothing,
    Granting(LeaseId),
    Attaching(LeaseId),
    /// Renews so often before it stops.
    Holding(LeaseId, u64),
    Revoking(LeaseId),
}

impl Holder {
    pub fn new(ttl_secs: i64) -> Holder {
        Holder { ttl_secs, doing: Doing::Nothing, lives: 0, turn_due: Moment::ZERO }
    }

    fn command(&self, world: &mut World) -> Option<Command> {
        Some(match self.doing {
            Doing::Nothing => return None,
            Doing::Granting(id) => Command::LeaseGrant { id, ttl_secs: self.ttl_secs },
            Doing::Attaching(lease) => Command::Put(Put {
                key: format!("s/{lease}").into(),
                value: Some(world.fresh_value().into()),
                lease: PutLease::Set(Some(lease)),
                prev_kv: false,
            }),
            Doing::Holding(lease, _) => Command::LeaseRenew(lease),
            Doing::Revoking(lease) => Command::LeaseRevoke(lease),
        })
    }

    /// What comes after a request that was done.
    fn advance(&mut self, world: &mut World) {
        self.doing = match self.doing {
            Doing::Granting(lease) => Doing::Attaching(lease),
            Doing::Attaching(lease) => Doing::Holding(lease, world.dice.between(0, 12)),
            Doing::Holding(lease, 0) if world.dice.chance(300) => Doing::Revoking(lease),
            Doing::Holding(_, 0) | Doing::Revoking(_) | Doing::Nothing => Doing::Nothing,
            Doing::Holding(lease, left) => Doing::Holding(lease, left - 1),
        };
    }

    fn next_turn(&mut self, me: usize, world: &mut World, delay: Duration) {
        self.turn_due = world.now() + delay;
        world.agenda.after(delay, Happening::Client(me));
    }
}

impl Client for Holder {
    fn turn(&mut self, me: usize, world: &mut World) {
        if world.resting || world.now() < self.turn_due {
            return;
        }
        if self.doing == Doing::Nothing {
            self.lives += 1;
            self.doing = Doing::Granting(LeaseId((me as i64 + 1) * 1000 + self.lives));
        }
        let command = self.command(world).expect("it does something by now");
        let member = world.some_member();
        if member.and_then(|member| world.ask(me, member, Request::Write(command))).is_none() {
            self.next_turn(me, world, ms(30));
        }
    }

    fn answered(&mut self, me: usize, world: &mut World, _open: &Open, answer: &Answer) {
        let renewing = matches!(self.doing, Doing::Holding(..));
        let delay = match answer.result {
            Ok(_) => {
                self.advance(world);
                if renewing { ms(self.ttl_secs as u64 * 1000 / 3) } else { ms(5) }
            }
            // A grant whose answer was lost has been done after all.
            Err(Failure::LeaseExists) => {
                self.advance(world);
                ms(5)
            }
            Err(Failure::LeaseNotFound) => {
                self.doing = Doing::Nothing;
                ms(50)
            }
            Err(_) => ms(40),
        };
        self.next_turn(me, world, delay);
    }

    fn lost(&mut self, me: usize, world: &mut World, _open: &Open) {
        self.next_turn(me, world, ms(20));
    }
}
