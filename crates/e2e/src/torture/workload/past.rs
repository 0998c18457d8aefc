//! Readers of earlier revisions, while history is compacted.

use std::{sync::Arc, time::Duration};

use tenure::grpc::Client;
use tokio::task::JoinHandle;

use super::{Stop, registers::Shared};
use crate::{
    pb,
    torture::{Chance, Ground, truth::judge::PastRead},
};

/// Pause between two reads.
const PAUSE: Duration = Duration::from_millis(30);
/// How a server says that a revision is gone, as etcd does.
const COMPACTED: &str = "required revision has been compacted";

/// One reader at every member.
pub(super) struct Past {
    readers: Vec<JoinHandle<Vec<PastRead>>>,
}

impl Past {
    pub(super) fn start(
        ground: &Ground,
        registers: &Arc<Shared>,
        chance: &mut Chance,
        stop: &Stop,
    ) -> Past {
        let readers = (0..ground.count()).map(|at| {
            let client = ground.client(at).clone();
            tokio::spawn(read(client, Arc::clone(registers), chance.branch(), stop.clone()))
        });
        Past { readers: readers.collect() }
    }

    pub(super) async fn stop(self) -> Vec<PastRead> {
        let mut all = Vec::new();
        for reader in self.readers {
            all.extend(reader.await.expect("a reader does not panic"));
        }
        all
    }
}

/// Reads one register at any revision that some answer has named.
async fn read(
    client: Client,
    registers: Arc<Shared>,
    mut chance: Chance,
    stop: Stop,
) -> Vec<PastRead> {
    let mut reads = Vec::new();
    while !stop.told() {
        tokio::time::sleep(PAUSE).await;
        let (key, newest) = (registers.any(&mut chance), registers.history().newest());
        if newest < 2 {
            continue;
        }
        let revision = 1 + chance.below(newest as usize) as i64;
        let range = pb::RangeRequest { key: key.clone().into(), revision, ..Default::default() };
        let found = match client.kv().range(range).await {
            Ok(found) => Some(found.kvs.first().map(|kv| {
                let text = String::from_utf8_lossy(&kv.value);
                text.parse().unwrap_or_else(|_| panic!("nobody wrote {text:?}"))
            })),
            Err(error) if error.to_string().contains(COMPACTED) => None,
            Err(_) => continue,
        };
        reads.push(PastRead { key, revision, found });
    }
    reads
}
