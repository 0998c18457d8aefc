//! A stock client's part in a line: a key under a lease, and one word when it is first. This is what the
//! doors of etcd's election and lock services do for those who know nothing of sessions.

use bytes::Bytes;
use tenure_api::{
    Compare, CompareResult, CompareTarget, LeaseId, Op, Put, Revision, Span, Txn, op::PutLease,
};
use tenure_replica::{
    Answer, Outcome, Reply, Request,
    command::Command,
    queue::{
        key_of,
        listeners::{LineInput, LineNews, Listener},
    },
};

use super::Client;
use crate::{
    cluster::{World, happening::Happening, member::Number},
    engine::ms,
    invariants::{held_is_true, one_answer::Open},
};

const TTL_SECS: i64 = 1;

pub struct Stock {
    name: Bytes,
    lives: i64,
    doing: Doing,
}

#[derive(Clone, Debug)]
enum Doing {
    Nothing,
    Granting(LeaseId),
    Standing(LeaseId),
    /// Its key was created at this revision, as that member says.
    Placed(LeaseId, Revision, Number),
    Awaiting(Listener, Bytes, Revision, Number),
}

impl Stock {
    pub fn new(name: &str) -> Stock {
        let name = Bytes::copy_from_slice(name.as_bytes());
        Stock { name, lives: 0, doing: Doing::Nothing }
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
        self.doing = Doing::Nothing;
        let pause = world.dice.duration(ms(20), ms(400));
        world.agenda.after(pause, Happening::Client(me));
    }
}

impl Client for Stock {
    fn turn(&mut self, me: usize, world: &mut World) {
        if world.resting {
            return;
        }
        match self.doing.clone() {
            Doing::Nothing => {
                self.lives += 1;
                let id = LeaseId((me as i64 + 1) * 1_000_000_000 + self.lives);
                self.doing = Doing::Granting(id);
                let grant = Request::Write(Command::LeaseGrant { id, ttl_secs: TTL_SECS });
                let asked = world.some_member().and_then(|to| world.ask(me, to, grant));
                if asked.is_none() {
                    self.again(me, world);
                }
            }
            Doing::Placed(lease, created, member) => {
                let Some(listener) = world.open_stream(me, member) else {
                    return self.again(me, world);
                };
                let (name, key) = (self.name.clone(), key_of(&self.name, lease));
                self.doing = Doing::Awaiting(listener, key.clone(), created, member);
                world.listen(member, LineInput::Await { listener, name, key, created });
                // Whoever waits does not renew here: it is told, held or gone, within its time to live.
                world.agenda.after(ms(4000), Happening::Client(me));
            }
            Doing::Awaiting(listener, _, _, member) => {
                world.listen(member, LineInput::Close(listener));
                self.again(me, world);
            }
            Doing::Granting(_) | Doing::Standing(_) => {}
        }
    }

    fn answered(&mut self, me: usize, world: &mut World, open: &Open, answer: &Answer) {
        match (&self.doing, &answer.result) {
            (Doing::Granting(lease), Ok(_)) => {
                let lease = *lease;
                self.doing = Doing::Standing(lease);
                let stand = Request::Write(self.stand(lease));
                if world.ask(me, open.member, stand).is_none() {
                    self.again(me, world);
                }
            }
            (Doing::Standing(lease), Ok(Reply::Wrote(Outcome::Txn(done)))) if done.succeeded => {
                self.doing = Doing::Placed(*lease, answer.revision, open.member);
                // Sometimes it is slow to ask, and its lease is over by then.
                let slow = world.dice.chance(300);
                let pause = if slow { ms(1500) } else { ms(1) };
                world.agenda.after(pause, Happening::Client(me));
            }
            _ => self.again(me, world),
        }
    }

    fn lost(&mut self, me: usize, world: &mut World, _open: &Open) {
        self.again(me, world);
    }

    fn line_news(&mut self, me: usize, world: &mut World, to: Listener, news: &LineNews) {
        let Doing::Awaiting(listener, key, created, member) = self.doing.clone() else { return };
        if listener != to {
            return;
        }
        held_is_true::judge(world, member, (&self.name, &key, created), news);
        world.counts.count(if matches!(news, LineNews::Held) {
            "stock_held"
        } else {
            "stock_gone"
        });
        self.again(me, world);
    }

    fn member_gone(&mut self, me: usize, world: &mut World, member: Number) {
        if matches!(self.doing, Doing::Awaiting(.., at) | Doing::Placed(.., at) if at == member) {
            self.again(me, world);
        }
    }
}
