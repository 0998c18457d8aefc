//! Leases that clients keep alive, by etcd's API, at whichever member answers.
//!
//! A lease must not be gone before its time to live has passed since the last acknowledged renewal was *sent*. One
//! that could not be renewed in time may go, and is replaced.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use tenure::grpc::Client;
use tokio::task::JoinHandle;

use super::{Check, Stop, holders::Held};
use crate::{
    pb,
    torture::{Ground, truth::LeaseAnswers},
};

/// How many clients keep one lease each at a time.
const KEEPERS: usize = 4;
const TTL_SECONDS: i64 = 3;
const TTL: Duration = Duration::from_secs(TTL_SECONDS as u64);
const RENEW_EVERY: Duration = Duration::from_millis(300);
/// How long a member may take before the next is asked.
const PATIENCE: Duration = Duration::from_millis(400);
const FAILED_PAUSE: Duration = Duration::from_millis(20);

/// Keepers at work.
pub(super) struct Leases {
    keepers: Vec<JoinHandle<Kept>>,
}

/// What they have seen.
#[derive(Debug, Default)]
pub(super) struct Kept {
    leases: usize,
    renewals: usize,
    /// Gone after they could not be renewed in time.
    ran_out: usize,
    early: Vec<String>,
    /// What was said of each.
    pub(super) told: BTreeMap<i64, LeaseAnswers>,
}

impl Leases {
    pub(super) fn start(ground: &Ground, stop: &Stop) -> Leases {
        let keepers = (0..KEEPERS).map(|number| {
            let mut clients: VecDeque<Client> =
                (0..ground.count()).map(|at| ground.client(at).clone()).collect();
            clients.rotate_left(number % ground.count());
            tokio::spawn(keep(number, clients, stop.clone()))
        });
        Leases { keepers: keepers.collect() }
    }

    pub(super) async fn stop(self) -> Kept {
        let mut all = Kept::default();
        for keeper in self.keepers {
            let one = keeper.await.expect("a keeper does not panic");
            all.leases += one.leases;
            all.renewals += one.renewals;
            all.ran_out += one.ran_out;
            all.early.extend(one.early);
            all.told.extend(one.told);
        }
        all
    }
}

impl Kept {
    /// None ended early, of these and of the library's sessions.
    pub(super) fn judge(&self, holders: &Held) -> Check {
        let mut wrong = self.early.clone();
        wrong.extend(holders.early.iter().cloned());
        let mut check = Check::new(
            "sessions ended early: 0",
            &[
                ("leases", self.leases),
                ("renewals", self.renewals),
                ("ran out", self.ran_out),
                ("sessions", holders.sessions),
            ],
            wrong,
        );
        let lost = holders.lost.iter().map(|(why, count)| (format!("lost because {why}"), *count));
        check.against.extend(lost);
        check
    }
}

async fn keep(number: usize, mut clients: VecDeque<Client>, stop: Stop) -> Kept {
    let mut kept = Kept::default();
    while !stop.told() {
        let sent = Instant::now();
        let grant = pb::LeaseGrantRequest { ttl: TTL_SECONDS, id: 0 };
        let Ok(granted) = clients[0].lease().grant(grant).await else {
            clients.rotate_left(1);
            tokio::time::sleep(FAILED_PAUSE).await;
            continue;
        };
        kept.leases += 1;
        kept.told.insert(granted.id, LeaseAnswers::default());
        let key = format!("leased/{number}/{:x}", granted.id);
        renew(granted.id, &key, sent, &mut clients, &stop, &mut kept).await;
    }
    kept
}

/// Renews a lease until it is gone or there is no more need for it.
async fn renew(
    lease: i64,
    key: &str,
    granted: Instant,
    clients: &mut VecDeque<Client>,
    stop: &Stop,
    kept: &mut Kept,
) {
    let mut confirmed = granted;
    let mut written = false;
    let mut rounds = 0usize;
    while !stop.told() {
        rounds += 1;
        let sent = Instant::now();
        let answer = renew_once(&clients[0], lease).await;
        let told = kept.told.entry(lease).or_default();
        match answer {
            Some(0) => {
                told.gone = true;
                return gone(kept, format!("lease {lease:x}"), confirmed);
            }
            Some(_) => {
                told.confirmed += 1;
                confirmed = sent;
                kept.renewals += 1;
            }
            None => {
                told.unknown += 1;
                clients.rotate_left(1);
                tokio::time::sleep(FAILED_PAUSE).await;
                continue;
            }
        }
        if !written {
            let put = pb::PutRequest { key: key.to_owned().into(), lease, ..Default::default() };
            written = clients[0].kv().put(put).await.is_ok();
        } else if rounds.is_multiple_of(4) {
            let range = pb::RangeRequest { key: key.to_owned().into(), ..Default::default() };
            if clients[0].kv().range(range).await.is_ok_and(|found| found.kvs.is_empty()) {
                return gone(kept, format!("key {key}"), confirmed);
            }
        }
        tokio::time::sleep(RENEW_EVERY).await;
    }
}

/// It is gone, and was so at some moment before now.
fn gone(kept: &mut Kept, what: String, confirmed: Instant) {
    let lived = confirmed.elapsed();
    if lived < TTL {
        kept.early.push(format!("{what} was gone {lived:?} after a confirmed renewal was sent"));
    } else {
        kept.ran_out += 1;
    }
}

/// One renewal on a stream of its own: the TTL, or nothing if no member answered.
async fn renew_once(client: &Client, lease: i64) -> Option<i64> {
    let once = async { client.lease().renewals(lease).await.ok()?.answer().await.ok() };
    let answer = tokio::time::timeout(PATIENCE, once).await.ok()??;
    Some(answer.ttl)
}
