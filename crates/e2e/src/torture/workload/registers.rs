//! Clients that read, write, delete and swap a few registers, each at a member of its own.
//!
//! A register that has seen enough, or whose unknown outcomes have become many, is left for a new one.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tenure::grpc::{Client, ClientError};
use tokio::task::JoinHandle;

use super::{Check, Stop};
use crate::{
    eventually_within,
    mvccpb::KeyValue,
    pb,
    torture::{
        Chance, Ground,
        history::{Answer, Call, History, Operation, Register, Value},
        linearizable,
    },
};

/// Clients at every member, and clients that know them all.
const PER_MEMBER: usize = 4;
const ANYWHERE: usize = 2;
/// Registers in use at a time.
const REGISTERS: usize = 4;
/// After so many operations, or so many that are open, a register is left.
const OPERATIONS_MAX: usize = 800;
const OPEN_MAX: usize = 8;
/// Pause after a failure, so that a member that is gone is not hammered.
const FAILED_PAUSE: Duration = Duration::from_millis(20);
/// How long the last reads may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The prefix of all registers.
pub(super) const PREFIX: &str = "register";

/// Clients at work on registers.
pub(super) struct Registers {
    shared: Arc<Shared>,
    stop: Stop,
    clients: Vec<JoinHandle<()>>,
}

pub(super) struct Shared {
    history: History,
    next_value: AtomicU64,
    refused: AtomicUsize,
    slots: Mutex<Slots>,
}

struct Slots {
    made: usize,
    slots: Vec<Slot>,
}

#[derive(Clone, Debug)]
struct Slot {
    name: String,
    operations: usize,
    open: usize,
}

/// What came of it.
pub(super) struct Registered {
    shared: Arc<Shared>,
}

fn name_of(number: usize) -> String {
    format!("{PREFIX}/{number:05}")
}

impl Registers {
    pub(super) fn start(
        ground: &Ground,
        chance: &mut Chance,
        pause: Duration,
        stop: &Stop,
    ) -> Registers {
        let slots = (0..REGISTERS).map(|n| Slot { name: name_of(n), operations: 0, open: 0 });
        let slots = Slots { made: REGISTERS, slots: slots.collect() };
        let shared = Arc::new(Shared {
            history: History::default(),
            next_value: AtomicU64::new(1),
            refused: AtomicUsize::new(0),
            slots: Mutex::new(slots),
        });
        let at_members =
            (0..PER_MEMBER * ground.count()).map(|n| ground.client(n % ground.count()));
        let clients: Vec<Client> =
            at_members.cloned().chain((0..ANYWHERE).map(|_| ground.any())).collect();
        let clients = clients.into_iter().enumerate().map(|(number, client)| {
            let work = Work {
                number,
                client,
                shared: Arc::clone(&shared),
                chance: chance.branch(),
                seen: (String::new(), None, 0),
            };
            tokio::spawn(work.run(pause, stop.clone()))
        });
        Registers { clients: clients.collect(), stop: stop.clone(), shared }
    }

    pub(super) fn history(&self) -> &History {
        &self.shared.history
    }

    /// What all clients share.
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Ends the work, and reads every register once more.
    pub(super) async fn stop(self, ground: &Ground) -> Registered {
        self.stop.now();
        for client in self.clients {
            client.await.expect("a client does not panic");
        }
        let reader = Work {
            number: usize::MAX,
            client: ground.any(),
            shared: Arc::clone(&self.shared),
            chance: Chance::new(0),
            seen: (String::new(), None, 0),
        };
        for register in self.shared.history.registers().keys() {
            eventually_within(PATIENCE, "the last read", async || {
                let asked = self.shared.history.now();
                let (answer, _) = reader.get(register).await.map_err(|error| error.to_string())?;
                reader.note(register, asked, Call::Get, Some(answer));
                Ok(())
            })
            .await;
        }
        Registered { shared: self.shared }
    }
}

impl Registered {
    pub(super) fn history(&self) -> &History {
        &self.shared.history
    }

    /// Every register by itself, and every value at one revision.
    pub(super) fn linearizable(&self) -> Check {
        let history = self.history();
        let mut wrong = history.moved();
        let registers = history.registers();
        for (register, operations) in &registers {
            if let Err(violation) = linearizable::check(operations) {
                wrong.push(format!("{register}: {violation}"));
            }
        }
        let against = [
            ("operations", history.len()),
            ("registers", registers.len()),
            ("open", history.open()),
            ("refused", self.shared.refused.load(Ordering::Relaxed)),
        ];
        Check::new("registers are linearizable", &against, wrong)
    }
}

impl Shared {
    pub(super) fn history(&self) -> &History {
        &self.history
    }

    /// One of the registers that were ever in use.
    pub(super) fn any(&self, chance: &mut Chance) -> String {
        let made = self.slots.lock().unwrap_or_else(PoisonError::into_inner).made;
        name_of(chance.below(made))
    }

    /// One of the registers in use.
    fn pick(&self, chance: &mut Chance) -> (usize, String) {
        let at = chance.below(REGISTERS);
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let made = slots.made;
        let slot = &mut slots.slots[at];
        if slot.operations >= OPERATIONS_MAX || slot.open >= OPEN_MAX {
            *slot = Slot { name: name_of(made), operations: 0, open: 0 };
            slots.made += 1;
        }
        (at, slots.slots[at].name.clone())
    }

    fn count(&self, at: usize, name: &str, open: bool) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = &mut slots.slots[at];
        if slot.name == name {
            slot.operations += 1;
            slot.open += usize::from(open);
        }
    }
}

/// One client.
struct Work {
    number: usize,
    client: Client,
    shared: Arc<Shared>,
    chance: Chance,
    /// What it saw last: of which register, and at which revision.
    seen: (String, Register, i64),
}

type Told = Result<(Answer, Option<(Register, i64)>), ClientError>;

impl Work {
    async fn run(mut self, pause: Duration, stop: Stop) {
        while !stop.told() {
            tokio::time::sleep(pause).await;
            let (slot, register) = self.shared.pick(&mut self.chance);
            let call = self.call(&register);
            let asked = self.shared.history.now();
            let told = match call {
                Call::Get => self.get(&register).await,
                Call::Put(value) => self.put(&register, value).await,
                Call::Delete => self.delete(&register).await,
                Call::Swap { expected, value } => self.swap(&register, expected, value).await,
            };
            match told {
                Ok((answer, seen)) => {
                    self.note(&register, asked, call, Some(answer));
                    self.shared.count(slot, &register, false);
                    if let Some((value, revision)) = seen {
                        self.seen = (register, value, revision);
                    }
                }
                Err(error) => {
                    if error.outcome_unknown() {
                        self.note(&register, asked, call, None);
                        self.shared.count(slot, &register, true);
                    } else {
                        self.shared.history.refuse(call);
                        self.shared.refused.fetch_add(1, Ordering::Relaxed);
                    }
                    tokio::time::sleep(FAILED_PAUSE).await;
                }
            }
        }
    }

    fn call(&mut self, register: &str) -> Call {
        let value = self.shared.next_value.fetch_add(1, Ordering::Relaxed);
        match self.chance.below(20) {
            0..8 => Call::Get,
            8..13 => Call::Put(value),
            13 => Call::Delete,
            _ if self.seen.0 == register => Call::Swap { expected: self.seen.1, value },
            _ => Call::Get,
        }
    }

    fn note(&self, register: &str, asked: u64, call: Call, answer: Option<Answer>) {
        self.shared.history.add(register, Operation { client: self.number, asked, call, answer });
    }

    fn answer(
        &self,
        header: Option<&pb::ResponseHeader>,
        before: Option<Register>,
        swapped: bool,
    ) -> Answer {
        let revision = header.map_or(0, |header| header.revision);
        Answer { at: self.shared.history.now(), before, swapped, revision }
    }

    /// What a key that was found says.
    fn read(&self, found: Option<&KeyValue>) -> (Register, i64) {
        let Some(kv) = found else { return (None, 0) };
        let text = String::from_utf8_lossy(&kv.value);
        let value: Value = text.parse().unwrap_or_else(|_| panic!("nobody wrote {text:?}"));
        self.shared.history.saw(value, kv.mod_revision);
        (Some(value), kv.mod_revision)
    }

    async fn get(&self, register: &str) -> Told {
        let range = pb::RangeRequest { key: register.to_owned().into(), ..Default::default() };
        let found = self.client.kv().range(range).await?;
        let seen = self.read(found.kvs.first());
        Ok((self.answer(found.header.as_ref(), Some(seen.0), false), Some(seen)))
    }

    async fn put(&self, register: &str, value: Value) -> Told {
        // Half of them do not ask what was there: those may be placed more freely.
        let prev_kv = value.is_multiple_of(2);
        let put = pb::PutRequest { prev_kv, ..written(register, value) };
        let done = self.client.kv().put(put).await?;
        let revision = done.header.as_ref().map_or(0, |header| header.revision);
        self.shared.history.saw(value, revision);
        let before = prev_kv.then(|| self.read(done.prev_kv.as_ref()).0);
        Ok((self.answer(done.header.as_ref(), before, false), Some((Some(value), revision))))
    }

    async fn delete(&self, register: &str) -> Told {
        let delete = pb::DeleteRangeRequest {
            key: register.to_owned().into(),
            prev_kv: true,
            ..Default::default()
        };
        let done = self.client.kv().delete_range(delete).await?;
        let before = self.read(done.prev_kvs.first()).0;
        Ok((self.answer(done.header.as_ref(), Some(before), false), Some((None, 0))))
    }

    /// By value or by revision: each value is at one revision, so both mean the same.
    async fn swap(&self, register: &str, expected: Register, value: Value) -> Told {
        use pb::compare::{CompareResult, CompareTarget, TargetUnion};
        use pb::{request_op::Request, response_op::Response};
        let (target, union) = match expected {
            Some(expected) if value.is_multiple_of(2) => {
                (CompareTarget::Value, TargetUnion::Value(expected.to_string().into()))
            }
            _ => (CompareTarget::Mod, TargetUnion::ModRevision(self.seen.2)),
        };
        let op = |request| pb::RequestOp { request: Some(request) };
        let range = pb::RangeRequest { key: register.to_owned().into(), ..Default::default() };
        let txn = pb::TxnRequest {
            compare: vec![pb::Compare {
                key: register.to_owned().into(),
                target: target as i32,
                result: CompareResult::Equal as i32,
                target_union: Some(union),
                ..Default::default()
            }],
            success: vec![op(Request::RequestPut(written(register, value)))],
            failure: vec![op(Request::RequestRange(range))],
        };
        let done = self.client.kv().txn(txn).await?;
        if done.succeeded {
            let revision = done.header.as_ref().map_or(0, |header| header.revision);
            self.shared.history.saw(value, revision);
            let answer = self.answer(done.header.as_ref(), Some(expected), true);
            return Ok((answer, Some((Some(value), revision))));
        }
        let header = done.header;
        let first = done.responses.into_iter().next().and_then(|op| op.response);
        let Some(Response::ResponseRange(found)) = first else {
            panic!("a range was answered as something else")
        };
        let seen = self.read(found.kvs.first());
        Ok((self.answer(header.as_ref(), Some(seen.0), false), Some(seen)))
    }
}

fn written(register: &str, value: Value) -> pb::PutRequest {
    pb::PutRequest {
        key: register.to_owned().into(),
        value: value.to_string().into(),
        ..Default::default()
    }
}
