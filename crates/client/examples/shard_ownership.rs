//! Workers that share out shards among themselves. Every shard has one owner, and a token.
//!
//! ```sh
//! cargo run -p tenure --example shard_ownership -- one
//! cargo run -p tenure --example shard_ownership -- two
//! ```
//!
//! Nobody assigns shards. Each worker shows that it is there by a shared hold that all workers have
//! together, so everybody can count the workers; takes free shards up to its fair share; and gives back
//! what it has too much of when others come. A shard is a lock, so it never has two owners; who is
//! stopped and comes back writes in vain, because each write shows the token of that shard.
//!
//! `TENURE_ENDPOINTS` names another cluster than 127.0.0.1:2379, tenure or etcd.

use std::{collections::BTreeMap, env, error::Error, time::Duration};

use tenure::api::wire::etcdserverpb::PutRequest;
use tenure::fence::{GuardedError, guarded_put};
use tenure::grpc::{Client, Endpoint, Options};
use tenure::{AcquireError, Engine, Held, Lock, RwLock, Session};

const SHARDS: usize = 8;
const TTL: Duration = Duration::from_secs(2);
/// Longer than one round of work on one shard takes.
const WORK_TAKES: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(50);
const WORKERS: &str = "shard_ownership/workers";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let name = env::args().nth(1).ok_or("usage: shard_ownership NAME")?;
    let endpoints = env::var("TENURE_ENDPOINTS").unwrap_or_else(|_| "127.0.0.1:2379".to_owned());
    let engine = Engine::detect(&endpoints).await?;
    let client = Client::new(Endpoint::list(&endpoints)?, Options::default());
    loop {
        let session = Session::open(&engine, TTL).await?;
        let presence = RwLock::new(&session, WORKERS)?.read().await?;
        let mut worker =
            Worker { name: name.clone(), session, client: client.clone(), owned: BTreeMap::new() };
        let why = worker.work(&engine, &presence).await;
        println!("{name} begins anew: {why}");
    }
}

struct Worker {
    name: String,
    session: Session,
    client: Client,
    owned: BTreeMap<usize, Held>,
}

impl Worker {
    /// Works until the session is lost, and says why.
    async fn work(&mut self, engine: &Engine, presence: &Held) -> Box<dyn Error> {
        loop {
            if let Err(doubt) = presence.may_act(Duration::ZERO) {
                return doubt.into();
            }
            let rounds = async {
                let workers = engine.candidates(WORKERS).await?.len();
                self.balance(SHARDS.div_ceil(workers.max(1))).await?;
                self.work_on_all().await
            };
            if let Err(error) = rounds.await {
                return error;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Gives back what is more than a fair share; takes what is free and less than one.
    async fn balance(&mut self, share: usize) -> Result<(), Box<dyn Error>> {
        let before: Vec<usize> = self.owned.keys().copied().collect();
        while self.owned.len() > share {
            // Nothing works on it now, so it can be given away.
            let Some((_, held)) = self.owned.pop_last() else { break };
            held.release().await?;
        }
        for shard in 0..SHARDS {
            if self.owned.len() >= share {
                break;
            }
            if self.owned.contains_key(&shard) {
                continue;
            }
            let lock = Lock::new(&self.session, format!("shard_ownership/shard/{shard}"))?;
            match lock.try_lock().await {
                Ok(held) => drop(self.owned.insert(shard, held)),
                Err(AcquireError::Taken { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if before != self.owned.keys().copied().collect::<Vec<_>>() {
            let owned: Vec<String> = self
                .owned
                .iter()
                .map(|(shard, held)| format!("{shard}@{}", held.token()))
                .collect();
            println!("{} owns {} shards: {}", self.name, owned.len(), owned.join(" "));
        }
        Ok(())
    }

    /// One write to each shard. A shard that was lost alone is forgotten; the session goes on.
    async fn work_on_all(&mut self) -> Result<(), Box<dyn Error>> {
        let mut lost = Vec::new();
        for (shard, held) in &self.owned {
            let Ok(token) = held.may_act(WORK_TAKES) else { break };
            let holder = held.holder_key();
            let put = PutRequest {
                key: format!("shard_ownership/data/{shard}").into(),
                value: format!("{} under {token}", self.name).into(),
                ..Default::default()
            };
            match guarded_put(&self.client, &holder, put).await {
                Ok(_) => {}
                Err(GuardedError::Deposed { .. }) => lost.push(*shard),
                Err(error) => return Err(error.into()),
            }
        }
        for shard in lost {
            println!("{} was replaced on shard {shard}", self.name);
            self.owned.remove(&shard);
        }
        Ok(())
    }
}
