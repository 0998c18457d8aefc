//! What one call of a member does: so much, and the rest in the next. Meanwhile it takes no messages.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use tenure_api::{Member, MemberId, Op, Put, Range, Span, Txn, op::PutLease};
use tenure_replica::{
    Answer, Consistency, Effects, Input, Moment, Operation, Read, Recovered, Replica,
    ReplicaConfig, Reply, Request, command::Command,
};

const KEYS: u64 = 5_000;

/// A member on its own, with a disk that is always done at once.
struct House {
    replica: Replica,
    now: Moment,
    requests: u64,
}

impl House {
    fn new() -> House {
        let me = MemberId(1);
        let member = Member {
            id: me,
            name: "one".into(),
            peer_urls: vec![],
            client_urls: vec![],
            is_learner: false,
        };
        let recovered = Recovered { boot: 1, ..Recovered::default() };
        let replica = Replica::new(Moment::ZERO, ReplicaConfig::new(me, vec![member]), recovered);
        let mut house = House { replica, now: Moment::ZERO, requests: 0 };
        while house.replica.status().leader.is_none() {
            house.now = house.now + Duration::from_millis(10);
            house.settle(vec![Input::Wake]);
        }
        for n in 0..KEYS {
            let put = house.request(Operation::Write(Command::Put(put(n))));
            house.settle(vec![put]);
        }
        house
    }

    fn request(&mut self, op: Operation) -> Input {
        self.requests += 1;
        Input::Request(self.requests, Request::anonymous(op))
    }

    /// Calls until there is nothing to do at this moment; answers how many answers each call gave, if it gave any.
    fn settle(&mut self, mut inputs: Vec<Input>) -> Vec<Vec<Answer>> {
        let mut calls = Vec::new();
        loop {
            let effects: Effects = self.replica.handle(self.now, std::mem::take(&mut inputs));
            assert!(effects.fatal.is_none());
            inputs.extend(effects.persist.iter().map(|persist| Input::Persisted(persist.number)));
            let is_done = inputs.is_empty() && effects.wake_at > self.now;
            if !effects.answers.is_empty() {
                calls.push(effects.answers);
            }
            if is_done {
                return calls;
            }
            // Whatever waits for company has had it.
            self.now = self.now + Duration::from_millis(1);
        }
    }
}

fn put(n: u64) -> Put {
    Put {
        key: format!("k/{n:06}").into(),
        value: Some("v".into()),
        lease: PutLease::Set(None),
        prev_kv: false,
    }
}

fn everything() -> Range {
    Range::all(Span::prefix("k/".into()))
}

fn all_were_read(calls: &[Vec<Answer>]) -> usize {
    let keys = |answer: &Answer| match answer.result.as_ref().unwrap() {
        Reply::Range(found) => assert_eq!(found.count as u64, KEYS),
        other => panic!("{other:?}"),
    };
    calls.iter().flatten().map(keys).count()
}

#[test]
fn reads_of_much_are_answered_in_many_calls() {
    const READS: usize = 200;
    for consistency in [Consistency::Serializable, Consistency::Linearizable] {
        let mut house = House::new();
        let read = |_| house.request(Operation::Read(Read::Range(everything()), consistency));
        let reads = (0..READS).map(read).collect();
        let calls = house.settle(reads);
        assert_eq!(all_were_read(&calls), READS);
        let most = calls.iter().map(Vec::len).max().unwrap();
        assert!((1..10).contains(&most), "{consistency:?}: {most} in one call");
    }
}

#[test]
fn transactions_of_much_weight_are_applied_in_many_calls() {
    const TXNS: u64 = 200;
    let mut house = House::new();
    let txn = |n| {
        let success = vec![Op::Range(everything()), Op::Put(put(n))];
        Operation::Write(Command::Txn(Txn { success, ..Txn::default() }))
    };
    let txns = (0..TXNS).map(|n| house.request(txn(n))).collect();
    let mut calls = house.settle(txns);
    // The last ones wait for company that does not come.
    for _ in 0..10 {
        house.now = house.now + Duration::from_millis(1);
        calls.extend(house.settle(vec![Input::Wake]));
    }
    assert_eq!(calls.iter().map(Vec::len).sum::<usize>(), TXNS as usize);
    // As many as a batch takes, however many keys there are.
    let most = calls.iter().map(Vec::len).max().unwrap();
    assert!(most <= 2048 / 33 + 1, "{most} in one call");
}
