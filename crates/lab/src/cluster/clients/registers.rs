//! Clients that read and write a few keys, in every way there is.

use bytes::Bytes;
use tenure_api::{
    Compare, CompareResult, CompareTarget, DeleteRange, Op, Put, Range, Revision, Span, Txn,
    op::PutLease,
};
use tenure_replica::{Answer, Consistency, Operation, Read, Reply, command::Command};

use super::SimClient;
use crate::{
    cluster::{World, event::WorldEvent},
    engine::{ms, us},
    invariants::one_answer::OpenRequest,
};

/// Few, so that clients conflict.
const KEYS: u64 = 5;

#[derive(Default)]
pub struct RegisterClient {
    /// A key and its revision at the last read, for compare-and-set.
    seen: Option<(Bytes, Revision)>,
    newest: Revision,
}

impl RegisterClient {
    fn next_request(&mut self, world: &mut World) -> Operation {
        let key = key(world);
        match world.dice.below(100) {
            0..30 => put(&key, world),
            30..50 => self.compare_and_set(key, world),
            50..70 => get(key, Consistency::Linearizable),
            70..80 => get(key, Consistency::Serializable),
            80..87 => both(world),
            87..92 => Operation::Write(Command::DeleteRange(DeleteRange {
                span: Span::One(key),
                prev_kv: false,
            })),
            92..95 => self.compact(world),
            95..97 => Operation::Read(Read::Freshness, Consistency::Linearizable),
            97..99 => Operation::Read(Read::Leases, Consistency::Linearizable),
            _ => Operation::Read(Read::Txn(read_txn(key)), Consistency::Linearizable),
        }
    }

    /// Writes only if the key has not changed since the last read.
    fn compare_and_set(&mut self, key: Bytes, world: &mut World) -> Operation {
        let (key, expected) = self.seen.take().unwrap_or((key, Revision(0)));
        let (won, lost) = (world.fresh_value(), world.fresh_value());
        Operation::Write(Command::Txn(Txn {
            compare: vec![Compare {
                span: Span::One(key.clone()),
                result: CompareResult::Equal,
                target: CompareTarget::Mod(expected),
            }],
            success: vec![Op::Put(plain_put(key, won))],
            failure: vec![Op::Put(plain_put(Bytes::from_static(b"lost"), lost))],
        }))
    }

    fn compact(&self, world: &mut World) -> Operation {
        let behind = world.dice.between(0, 40) as i64;
        let revision = Revision((self.newest.0 - behind).max(1));
        if world.dice.chance(500) {
            Operation::CompactPhysically(revision)
        } else {
            Operation::Write(Command::Compact(revision))
        }
    }
}

fn key(world: &mut World) -> Bytes {
    format!("r{}", world.dice.below(KEYS)).into()
}

fn plain_put(key: Bytes, value: String) -> Put {
    Put { key, value: Some(value.into()), lease: PutLease::Set(None), prev_kv: false }
}

fn put(key: &Bytes, world: &mut World) -> Operation {
    Operation::Write(Command::Put(plain_put(key.clone(), world.fresh_value())))
}

fn get(key: Bytes, consistency: Consistency) -> Operation {
    Operation::Read(Read::Range(Range::all(Span::One(key))), consistency)
}

/// Two keys at one revision.
fn both(world: &mut World) -> Operation {
    let (one, two) = (world.fresh_value(), world.fresh_value());
    let puts = [(b"p/a".as_slice(), one), (b"p/b", two)];
    let success =
        puts.map(|(key, value)| Op::Put(plain_put(Bytes::copy_from_slice(key), value))).to_vec();
    Operation::Write(Command::Txn(Txn { compare: vec![], success, failure: vec![] }))
}

fn read_txn(key: Bytes) -> Txn {
    let success = vec![Op::Range(Range::all(Span::One(key)))];
    Txn { compare: vec![], success, failure: vec![] }
}

impl SimClient for RegisterClient {
    fn turn(&mut self, me: usize, world: &mut World) {
        if world.resting {
            return;
        }
        let request = self.next_request(world);
        let asked = world.some_member().and_then(|member| world.send_request(me, member, request));
        if asked.is_none() {
            world.agenda.after(ms(20), WorldEvent::ClientTurn(me));
        }
    }

    fn answered(&mut self, me: usize, world: &mut World, open: &OpenRequest, answer: &Answer) {
        self.newest = self.newest.max(answer.revision);
        if let (Operation::Read(Read::Range(range), _), Ok(Reply::Range(found))) =
            (&open.request, &answer.result)
        {
            let revision = found.kvs.first().map_or(Revision(0), |kv| kv.mod_revision);
            self.seen = Some((range.span.start().clone(), revision));
        }
        let pause = match answer.result {
            Ok(_) => world.dice.duration(us(200), ms(25)),
            Err(_) => world.dice.duration(ms(5), ms(60)),
        };
        world.agenda.after(pause * world.leisure, WorldEvent::ClientTurn(me));
    }

    fn lost(&mut self, me: usize, world: &mut World, _open: &OpenRequest) {
        world.agenda.after(ms(10), WorldEvent::ClientTurn(me));
    }
}
