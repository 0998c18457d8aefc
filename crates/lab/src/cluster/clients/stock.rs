//! A stock client in an election: a key under a lease, and one event when it is first. The server's implementation of
//! etcd's election and lock services does the same.

use bytes::Bytes;
use tenure_api::{
    Compare, CompareResult, CompareTarget, LeaseId, Op, Put, Revision, Span, Txn, op::PutLease,
};
use tenure_replica::{
    Answer, Operation, Outcome, Reply,
    command::Command,
    election::{
        key_of,
        listeners::{Listener, ListenerEvent, ListenerInput},
    },
};

use super::SimClient;
use crate::{
    cluster::{World, event::WorldEvent, member::MemberNumber},
    engine::ms,
    invariants::{held_is_true, one_answer::OpenRequest},
};

const TTL_SECS: i64 = 1;

pub struct StockClient {
    name: Bytes,
    lives: i64,
    phase: Phase,
}

#[derive(Clone, Debug)]
enum Phase {
    Nothing,
    Granting(LeaseId),
    Standing(LeaseId),
    /// The member has created its key at this revision.
    Placed(LeaseId, Revision, MemberNumber),
    Awaiting(Listener, Bytes, Revision, MemberNumber),
}

impl StockClient {
    pub fn new(name: &str) -> StockClient {
        let name = Bytes::copy_from_slice(name.as_bytes());
        StockClient { name, lives: 0, phase: Phase::Nothing }
    }

    fn stand(&self, lease: LeaseId) -> Command {
        let key = key_of(&self.name, lease);
        let absent = Compare {
            span: Span::One(key.clone()),
            result: CompareResult::Equal,
            target: CompareTarget::Create(Revision(0)),
        };
        let lease = PutLease::Set(Some(lease));
        let put = Put { key, value: Some(Bytes::new()), lease, prev_kv: false };
        Command::Txn(Txn { compare: vec![absent], success: vec![Op::Put(put)], failure: vec![] })
    }

    fn again(&mut self, me: usize, world: &mut World) {
        self.phase = Phase::Nothing;
        let pause = world.dice.duration(ms(20), ms(400));
        world.agenda.after(pause, WorldEvent::ClientTurn(me));
    }
}

impl SimClient for StockClient {
    fn turn(&mut self, me: usize, world: &mut World) {
        if world.resting {
            return;
        }
        match self.phase.clone() {
            Phase::Nothing => {
                self.lives += 1;
                let id = LeaseId((me as i64 + 1) * 1_000_000_000 + self.lives);
                self.phase = Phase::Granting(id);
                let grant = Operation::Write(Command::LeaseGrant { id, ttl_secs: TTL_SECS });
                let asked = world.some_member().and_then(|to| world.send_request(me, to, grant));
                if asked.is_none() {
                    self.again(me, world);
                }
            }
            Phase::Placed(lease, created, member) => {
                let Some(listener) = world.open_stream(me, member) else {
                    return self.again(me, world);
                };
                let (name, key) = (self.name.clone(), key_of(&self.name, lease));
                self.phase = Phase::Awaiting(listener, key.clone(), created, member);
                world.listen(member, ListenerInput::Await { listener, name, key, created });
                // It does not renew: it is told that it holds, or that its key is gone, within the TTL.
                world.agenda.after(ms(4000), WorldEvent::ClientTurn(me));
            }
            Phase::Awaiting(listener, _, _, member) => {
                world.listen(member, ListenerInput::Close(listener));
                self.again(me, world);
            }
            Phase::Granting(_) | Phase::Standing(_) => {}
        }
    }

    fn answered(&mut self, me: usize, world: &mut World, open: &OpenRequest, answer: &Answer) {
        match (&self.phase, &answer.result) {
            (Phase::Granting(lease), Ok(_)) => {
                let lease = *lease;
                self.phase = Phase::Standing(lease);
                let stand = Operation::Write(self.stand(lease));
                if world.send_request(me, open.member, stand).is_none() {
                    self.again(me, world);
                }
            }
            (Phase::Standing(lease), Ok(Reply::Wrote(Outcome::Txn(done)))) if done.succeeded => {
                self.phase = Phase::Placed(*lease, answer.revision, open.member);
                // Sometimes it waits so long that its lease is over.
                let slow = world.dice.chance(300);
                let pause = if slow { ms(1500) } else { ms(1) };
                world.agenda.after(pause, WorldEvent::ClientTurn(me));
            }
            _ => self.again(me, world),
        }
    }

    fn lost(&mut self, me: usize, world: &mut World, _open: &OpenRequest) {
        self.again(me, world);
    }

    fn election_news(&mut self, me: usize, world: &mut World, to: Listener, news: &ListenerEvent) {
        let Phase::Awaiting(listener, key, created, member) = self.phase.clone() else { return };
        if listener != to {
            return;
        }
        held_is_true::check(world, member, (&self.name, &key, created), news);
        world.counts.count(if matches!(news, ListenerEvent::Held) {
            "stock_held"
        } else {
            "stock_gone"
        });
        self.again(me, world);
    }

    fn member_gone(&mut self, me: usize, world: &mut World, member: MemberNumber) {
        if matches!(self.phase, Phase::Awaiting(.., at) | Phase::Placed(.., at) if at == member) {
            self.again(me, world);
        }
    }
}
