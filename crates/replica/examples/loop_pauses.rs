//! How long one call of the replica may take: a single member with a million keys while it freezes
//! for a snapshot, compacts and sweeps, and lets a hundred thousand leases end together. Counted in
//! CPU time, so that it can be repeated on a busy machine.
//!
//! `cargo run --release -p tenure-replica --example loop_pauses`

use std::time::Duration;

use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use tenure_api::{LeaseId, Member, MemberId, Put, Revision, op::PutLease};
use tenure_replica::{
    Effects, Input, Moment, Operation, Recovered, Replica, ReplicaConfig, Request, command::Command,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const KEYS: u64 = 1_000_000;
const LEASES: i64 = 100_000;
const BATCH: u64 = 64;

/// A house with a disk that is always done at once, and a stopwatch.
struct House {
    replica: Replica,
    now: Moment,
    requests: u64,
    calls: Vec<Duration>,
    frozen: usize,
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
        let config = ReplicaConfig::new(me, vec![member]);
        let replica =
            Replica::new(Moment::ZERO, config, Recovered { boot: 1, ..Recovered::default() });
        House { replica, now: Moment::ZERO, requests: 0, calls: vec![], frozen: 0 }
    }

    fn call(&mut self, inputs: Vec<Input>) -> Effects {
        let began = cpu_time();
        let effects = self.replica.handle(self.now, inputs);
        self.calls.push(cpu_time() - began);
        effects
    }

    /// Hands inputs in and obeys until there is nothing to do at this moment.
    fn settle(&mut self, inputs: Vec<Input>) {
        let mut inputs = inputs;
        loop {
            let effects = self.call(std::mem::take(&mut inputs));
            assert!(effects.fatal.is_none());
            inputs.extend(effects.persist.iter().map(|persist| Input::Persisted(persist.number)));
            if let Some(frozen) = effects.take_snapshot {
                self.frozen += 1;
                inputs.push(Input::SnapshotSaved(frozen.mark.clone()));
                std::thread::spawn(move || drop(frozen));
            }
            if inputs.is_empty() && effects.wake_at > self.now {
                return;
            }
        }
    }

    fn wait(&mut self, long: Duration) {
        let until = self.now + long;
        while self.now < until {
            self.now = self.now + Duration::from_millis(10);
            self.settle(vec![Input::Wake]);
        }
    }

    fn write(&mut self, commands: impl Iterator<Item = Command>) {
        let requests = commands.map(|command| {
            self.requests += 1;
            Input::Request(self.requests, Request::anonymous(Operation::Write(command)))
        });
        let requests = requests.collect();
        self.settle(requests);
        self.now = self.now + Duration::from_millis(2);
    }

    fn put_all(&mut self, keys: std::ops::Range<u64>) {
        for first in keys.clone().step_by(BATCH as usize) {
            self.write((first..(first + BATCH).min(keys.end)).map(|n| put(n, None)));
        }
    }

    fn report(&mut self, what: &str) {
        self.calls.sort_unstable();
        let at = |share: f64| self.calls[((self.calls.len() - 1) as f64 * share) as usize];
        println!(
            "{what:<44} {:>8} calls  p50 {:>9.1?}  p99.9 {:>9.1?}  longest {:>9.1?}",
            self.calls.len(),
            at(0.5),
            at(0.999),
            at(1.0)
        );
        self.calls.clear();
    }
}

/// What this thread has spent: other processes do not count.
fn cpu_time() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

fn put(number: u64, lease: Option<LeaseId>) -> Command {
    Command::Put(Put {
        key: Bytes::from(format!("key/{:012}", number.wrapping_mul(0x9e37_79b9) % KEYS)),
        value: Some(Bytes::from(vec![b'v'; 256])),
        lease: PutLease::Set(lease),
        prev_kv: false,
    })
}

fn main() {
    let mut house = House::new();
    house.wait(Duration::from_millis(200));
    house.calls.clear();
    house.put_all(0..100_000);
    house.report("puts, up to 100,000 keys");
    house.put_all(100_000..KEYS);
    house.report("puts, up to 1,000,000 keys");
    house.put_all(0..400_000);
    house.report("overwrites");
    let before = house.frozen;
    house.put_all(0..3_000_000);
    println!("  ({} snapshots were taken meanwhile)", house.frozen - before);
    house.report("overwrites with snapshots");
    let newest = house.replica.state().store.revision();
    house.write(std::iter::once(Command::Compact(Revision(newest.0 - 10))));
    house.put_all(0..50_000);
    house.report("compaction of all history, and puts");
    for first in (1..=LEASES).step_by(BATCH as usize) {
        let ids = first..(first + BATCH as i64).min(LEASES + 1);
        house.write(ids.clone().map(|id| Command::LeaseGrant { id: LeaseId(id), ttl_secs: 60 }));
        house.write(ids.map(|id| put(id as u64, Some(LeaseId(id)))));
    }
    house.report("100,000 leases with a key each");
    house.wait(Duration::from_secs(65));
    house.report("100,000 leases ending together");
    assert_eq!(house.replica.state().leases.len(), 0, "all leases have ended");
}
