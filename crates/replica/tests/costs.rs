//! What a client's command may cost: processor time and memory in proportion to its bytes, to what it answers and changes, and
//! to the keys that its spans cover.
//!
//! A command is applied by every member, and while it is, the member takes no messages. So the constants here are what keeps a
//! request from being a weapon. Time is this thread's, not the clock's, and generous: what was found before cost hundreds of times
//! more than these allow.
#![allow(clippy::unwrap_used)]

mod words;

use std::time::Duration;

use bytes::Bytes;
use proptest::{collection::vec, prelude::*, sample::select};
use rustix::time::{ClockId, clock_gettime};
use tenure_api::{
    Compare, CompareResult, CompareTarget, DeleteRange, LeaseId, Member, MemberId, Op, OpResult,
    Put, Range, Revision, Span, Txn, op::PutLease,
};
use tenure_damage::{bytes_taken, hold};
use tenure_replica::{
    Answer, Input, Moment, Operation, Outcome, Recovered, Replica, ReplicaConfig, Reply, Request,
    codec::Codec,
    command::{
        AdminCommand, Command, ElectionCommand, JoinSpec, SessionEnding, SessionRequest, Successor,
    },
    election::{CANDIDACIES_MAX, METADATA_BYTES_MAX, Mode, NAMES_MAX, VALUE_BYTES_MAX},
    mvcc::{TXN_OPS_MAX, check_txn},
};

/// The keys of the store, and the candidates of one election.
const KEYS: usize = 1_000;
const CANDIDATES: i64 = 300;
/// The largest request that a client can send.
const REQUEST_BYTES_MAX: usize = 1_536 << 10;

/// What a unit of work may take: a byte of the command or its answer; a key or candidate counts as so many.
const NANOS_FOR_EACH: u64 = 2_000;
const BYTES_FOR_EACH: usize = 64;
const UNITS_OF_A_KEY: usize = 64;
/// What any command may take.
const ANYHOW: Duration = Duration::from_millis(150);
const BYTES_ANYHOW: usize = 4 << 20;

/// A member on its own, whose disk is always done at once.
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
            house.step(vec![Input::Wake]);
        }
        for _ in 0..500 {
            house.step(vec![Input::Wake]);
        }
        house.does(Command::LeaseGrant { id: LeaseId(7), ttl_secs: 3600 });
        for key in 0..KEYS {
            let lease = PutLease::Set((key % 2 == 0).then_some(LeaseId(7)));
            let (key, value) = (format!("k/{key:06}").into(), Some("value".into()));
            house.does(Command::Put(Put { key, value, lease, prev_kv: false }));
        }
        for id in 1000..1000 + CANDIDATES {
            house.does(open(id));
            house.does(join(id, 1, JoinSpec::one("crowd".into(), Mode::Exclusive)));
        }
        house
    }

    /// One call, and those that follow from it at this moment.
    fn step(&mut self, mut inputs: Vec<Input>) -> Vec<Answer> {
        self.now = self.now + Duration::from_millis(10);
        let mut answers = Vec::new();
        loop {
            let effects = self.replica.handle(self.now, std::mem::take(&mut inputs));
            assert!(effects.fatal.is_none(), "{:?}", effects.fatal);
            inputs.extend(effects.persist.iter().map(|write| Input::Persisted(write.number)));
            answers.extend(effects.answers);
            if inputs.is_empty() {
                return answers;
            }
        }
    }

    fn does(&mut self, command: Command) -> Answer {
        self.requests += 1;
        let request = Request::anonymous(Operation::Write(command));
        let mut answers = self.step(vec![Input::Request(self.requests, request)]);
        for _ in 0..1000 {
            if let Some(answer) = answers.pop() {
                return answer;
            }
            answers = self.step(vec![Input::Wake]);
        }
        panic!("it is never answered");
    }

    /// Does it, and holds what that took against what it may take.
    fn does_at_a_fair_cost(&mut self, command: Command) -> Result<(), TestCaseError> {
        let words = {
            let mut words = format!("{command:?}");
            words.truncate(300);
            words
        };
        let before = self.amount();
        let mut units = command.to_bytes().len() + UNITS_OF_A_KEY * self.covered(&command);
        let begun = thread_time();
        let (answer, bytes) = bytes_taken(|| self.does(command));
        let took = thread_time() - begun;
        units += UNITS_OF_A_KEY * before.abs_diff(self.amount()) + answered(&answer);
        let may = ANYHOW + Duration::from_nanos(NANOS_FOR_EACH * units as u64);
        prop_assert!(took <= may, "{took:?}, {may:?} allowed for {units} units: {words}");
        let may = BYTES_ANYHOW + BYTES_FOR_EACH * units;
        prop_assert!(bytes <= may, "{bytes} bytes, {may} allowed for {units} units: {words}");
        Ok(())
    }

    /// Keys, candidates and sessions.
    fn amount(&self) -> usize {
        let state = self.replica.state();
        let candidates = state.elections.elections().map(|(_, one)| one.candidates().len());
        let held: usize = candidates.sum();
        state.store.live_in(&Span::From(Bytes::new())).count() + held + state.leases.len()
    }

    /// Keys in the spans of a transaction, each time they are named; candidates of the elections that a command is about.
    fn covered(&self, command: &Command) -> usize {
        let state = self.replica.state();
        let keys = |span: &Span| state.store.live_in(span).count();
        let in_election = |name: &Bytes| {
            state.elections.election(name).map_or(0, |election| election.candidates().len())
        };
        match command {
            Command::Txn(txn) => covered_by(txn, &keys),
            Command::DeleteRange(delete) => keys(&delete.span),
            Command::Compact(_) => KEYS,
            Command::Election(ElectionCommand::Request { request, .. }) => match request {
                SessionRequest::Join(join) => join.names.iter().map(in_election).sum(),
                SessionRequest::Leave { name, .. }
                | SessionRequest::Proclaim { name, .. }
                | SessionRequest::Health { name, .. }
                | SessionRequest::Yield { name, .. } => in_election(name),
            },
            Command::Election(ElectionCommand::Admin(command)) => match command {
                AdminCommand::Transfer { name, .. }
                | AdminCommand::Evict { name, .. }
                | AdminCommand::Freeze(name)
                | AdminCommand::Resume(name) => in_election(name),
            },
            Command::Election(ElectionCommand::End { id, .. }) | Command::LeaseRevoke(id) => {
                let session = state.elections.session(*id);
                session.map_or(0, |session| session.candidates.iter().map(in_election).sum())
            }
            _ => 0,
        }
    }
}

fn covered_by(txn: &Txn, keys: &dyn Fn(&Span) -> usize) -> usize {
    let compared: usize = txn.compare.iter().map(|compare| 1 + keys(&compare.span)).sum();
    let step = |op: &Op| match op {
        Op::Range(range) => 1 + keys(&range.span),
        Op::DeleteRange(delete) => 1 + keys(&delete.span),
        Op::Put(_) => 1,
        Op::Txn(inner) => covered_by(inner, keys),
    };
    compared + txn.success.iter().chain(&txn.failure).map(step).sum::<usize>()
}

fn answered(answer: &Answer) -> usize {
    let found = |result: &OpResult| found_in(result);
    match &answer.result {
        Ok(Reply::Wrote(Outcome::Txn(done))) => done.responses.iter().map(found).sum(),
        Ok(Reply::Wrote(Outcome::DeleteRange(done))) => UNITS_OF_A_KEY * done.prev.len(),
        _ => 0,
    }
}

fn found_in(result: &OpResult) -> usize {
    match result {
        OpResult::Range(found) => {
            found.kvs.iter().map(|kv| kv.key.len() + kv.value.len() + UNITS_OF_A_KEY).sum()
        }
        OpResult::DeleteRange(done) => UNITS_OF_A_KEY * done.prev.len(),
        OpResult::Put(_) => 1,
        OpResult::Txn(done) => done.responses.iter().map(found_in).sum(),
    }
}

fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn open(id: i64) -> Command {
    let (id, ttl_ms, identity) = (LeaseId(id), 3_600_000, "program".to_owned());
    let (fast_release, by, secret) = (false, 1, None);
    Command::Election(ElectionCommand::Open { id, ttl_ms, identity, fast_release, by, secret })
}

fn join(session: i64, number: u64, join: JoinSpec) -> Command {
    let (session, request) = (LeaseId(session), SessionRequest::Join(join));
    Command::Election(ElectionCommand::Request { session, number, request })
}

fn end(session: i64) -> Command {
    let (id, how) = (LeaseId(session), SessionEnding::Revoked { stopped: false });
    Command::Election(ElectionCommand::End { id, how, secret: None })
}

fn txn(success: Vec<Op>) -> Txn {
    Txn { compare: vec![], success, failure: vec![] }
}

/// As large as they may be, and of the shape that did harm once, or could.
fn hostile_shapes() -> Vec<Command> {
    let put = |key: Vec<u8>, lease| {
        let (key, value) = (key.into(), Some(Bytes::from_static(b"v")));
        Command::Put(Put { key, value, lease, prev_kv: true })
    };
    let everything = || Range::all(Span::From(Bytes::from_static(b"\0")));
    let count = || Op::Range(Range { count_only: true, ..everything() });
    let compare = Compare {
        span: Span::From(Bytes::from_static(b"\0")),
        result: CompareResult::Greater,
        target: CompareTarget::Version(-1),
    };
    let nested = (0..64).map(|_| Op::Txn(txn(vec![count(); TXN_OPS_MAX / 64 - 1]))).collect();
    let mut deep = txn(vec![count()]);
    for _ in 0..60 {
        deep = txn(vec![Op::Txn(deep), Op::Range(everything())]);
    }
    let names = |from: usize| (0..NAMES_MAX).map(move |n| Bytes::from(format!("n{}", from + n)));
    let wide = |from: usize| JoinSpec {
        names: names(from).collect(),
        ..JoinSpec::one("unused".into(), Mode::Exclusive)
    };
    let crowd = || Bytes::from_static(b"crowd");
    let admin = |command| Command::Election(ElectionCommand::Admin(command));
    let mut shapes = vec![
        put("/".repeat(REQUEST_BYTES_MAX).into_bytes(), PutLease::Set(Some(LeaseId(7)))),
        put("a/".repeat(REQUEST_BYTES_MAX / 2).into_bytes(), PutLease::Set(Some(LeaseId(7)))),
        put(vec![0xff; REQUEST_BYTES_MAX], PutLease::Set(None)),
        Command::Txn(txn(vec![Op::Range(everything()); 128])),
        Command::Txn(Txn { compare: vec![compare; 128], ..Txn::default() }),
        Command::Txn(txn(nested)),
        Command::Txn(deep),
        open(1),
    ];
    let joins = CANDIDACIES_MAX / NAMES_MAX;
    shapes.extend((0..joins).map(|n| join(1, n as u64 + 1, wide(n * NAMES_MAX))));
    let large = JoinSpec {
        value: vec![1; VALUE_BYTES_MAX].into(),
        metadata: vec![("k".to_owned(), "v".repeat(METADATA_BYTES_MAX - 1))],
        ..JoinSpec::one("large".into(), Mode::Exclusive)
    };
    shapes.push(join(1, 100, large));
    let pushes =
        |priority| JoinSpec { priority, preempts: true, ..JoinSpec::one(crowd(), Mode::Exclusive) };
    for id in 2..8 {
        shapes.extend([open(id), join(id, 1, pushes(id as u32 * 100))]);
    }
    let to = Successor::Identity("program".to_owned());
    shapes.extend([
        admin(AdminCommand::Freeze(crowd())),
        admin(AdminCommand::Resume(crowd())),
        admin(AdminCommand::Transfer { name: crowd(), to, within_ms: 1000 }),
        admin(AdminCommand::Evict { name: crowd(), token: None }),
        end(1000),
        // All that it stands for changes hands in one command.
        end(1),
        Command::LeaseRevoke(LeaseId(7)),
        Command::Compact(Revision(1000)),
        Command::DeleteRange(DeleteRange {
            span: Span::From(Bytes::from_static(b"\0")),
            prev_kv: true,
        }),
    ]);
    shapes
}

/// What a client can ask for, and the server lets through to the replica.
fn is_a_clients(command: &Command) -> bool {
    match command {
        Command::Txn(txn) => check_txn(txn, 128).is_ok(),
        Command::Put(_)
        | Command::DeleteRange(_)
        | Command::Compact(_)
        | Command::LeaseGrant { .. }
        | Command::LeaseRevoke(_)
        | Command::LeaseRenew(_) => true,
        Command::Election(command) => !matches!(command, ElectionCommand::Overdue(..)),
        _ => false,
    }
}

#[test]
fn command_costs_are_in_proportion_for_hostile_shapes() {
    let mut house = House::new();
    for shape in hostile_shapes() {
        house.does_at_a_fair_cost(shape).unwrap();
    }
}

#[test]
fn command_costs_are_in_proportion() {
    let hostile = select(hostile_shapes());
    let command = prop_oneof![8 => words::command(), 1 => hostile];
    hold(12, vec(command.prop_filter("a client's", is_a_clients), 1..40), |commands| {
        let mut house = House::new();
        commands.into_iter().try_for_each(|command| house.does_at_a_fair_cost(command))
    });
}

/// The test must fail for what is out of proportion.
#[test]
fn command_costs_out_of_proportion_are_noticed() {
    let (_, bytes) = bytes_taken(|| drop(vec![0u8; 2 * BYTES_ANYHOW]));
    assert!(bytes > BYTES_ANYHOW);
    let begun = thread_time();
    while thread_time() - begun < ANYHOW {
        std::hint::spin_loop();
    }
}
