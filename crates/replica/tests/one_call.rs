//! What one call of a member does: so much, and the rest in the next. Meanwhile it takes no messages.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use tenure_api::{LeaseId, Member, MemberId, Op, Put, Range, Span, Txn, op::PutLease};
use tenure_replica::{
    Answer, Consistency, Effects, Input, Moment, Operation, Read, Recovered, Replica,
    ReplicaConfig, Reply, Request,
    command::{AdminCommand, Command, ElectionCommand, JoinSpec, SessionRequest},
    election::Mode,
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

    /// Makes a request, and calls until it is answered.
    fn does(&mut self, op: Operation) {
        let request = self.request(op);
        let mut calls = self.settle(vec![request]);
        while calls.is_empty() {
            self.now = self.now + Duration::from_millis(1);
            calls = self.settle(vec![Input::Wake]);
        }
        let answer = calls.into_iter().flatten().next().unwrap();
        assert!(answer.result.is_ok(), "{answer:?}");
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

/// As long as a request may be, with a lease: each of its parts could be the name of an election above it.
#[test]
fn one_call_takes_a_key_of_slashes_in_a_moment() {
    let mut house = House::new();
    let lease = LeaseId(0x1f);
    let grant = Command::LeaseGrant { id: lease, ttl_secs: 3600 };
    let requests = [
        Operation::Write(grant),
        Operation::Write(Command::Put(leased("jobs/1f".into(), lease))),
        Operation::Write(Command::Put(leased([&"/".repeat(1_000_000), "1f"].concat(), lease))),
    ];
    let begun = std::time::Instant::now();
    requests.into_iter().for_each(|request| house.does(request));
    // It takes milliseconds; looking each part up by itself is quadratic in the key.
    assert!(begun.elapsed().as_secs() < 15, "{:?}", begun.elapsed());
}

/// A freeze moves every candidate behind the mark, and so does one of higher priority.
#[test]
fn one_call_moves_many_candidates_without_looking_at_all_others_for_each() {
    const CANDIDATES: i64 = 50_000;
    let mut house = House::new();
    let election = |command| Operation::Write(Command::Election(command));
    let join = |id: i64, priority: u32| {
        let join = JoinSpec { priority, ..JoinSpec::one("jobs".into(), Mode::Exclusive) };
        let (session, request) = (LeaseId(id), SessionRequest::Join(join));
        election(ElectionCommand::Request { session, number: 1, request })
    };
    let mut requests = Vec::new();
    for id in 1..=CANDIDATES + 1 {
        let (ttl_ms, identity) = (3_600_000, id.to_string());
        let (id, fast_release, by) = (LeaseId(id), false, 1);
        requests.push(election(ElectionCommand::Open {
            id,
            ttl_ms,
            identity,
            fast_release,
            by,
            secret: None,
        }));
    }
    requests.extend((1..=CANDIDATES).map(|id| join(id, 0)));
    for few in requests.chunks(500) {
        let few = few.iter().map(|request| house.request(request.clone())).collect();
        house.settle(few);
    }
    let begun = std::time::Instant::now();
    let freeze = AdminCommand::Freeze("jobs".into());
    let requests = [join(CANDIDATES + 1, 7), election(ElectionCommand::Admin(freeze))];
    requests.into_iter().for_each(|request| house.does(request));
    // It takes three seconds; looking for each from the first on is quadratic, and took 4 s for 20,000.
    assert!(begun.elapsed().as_secs() < 15, "{:?}", begun.elapsed());
}

fn leased(key: String, lease: LeaseId) -> Put {
    let lease = PutLease::Set(Some(lease));
    Put { key: key.into(), value: Some("v".into()), lease, prev_kv: false }
}
