//! A primary that counts, and standbys that wait for it to go: every write is fenced.
//!
//! Start it several times, with different names, and kill or stop (`kill -STOP`) the one that leads:
//!
//! ```sh
//! cargo run -p tenure --example primary_standby -- one
//! cargo run -p tenure --example primary_standby -- two
//! ```
//!
//! The count goes on where it was, and nobody who was replaced adds to it. `--careless` leaves out the
//! look at the own deadline before each write: the store refuses what comes too late all the same.
//!
//! `TENURE_ENDPOINTS` names another cluster than 127.0.0.1:2379, tenure or etcd.

use std::{env, error::Error, time::Duration};

use tenure::api::wire::etcdserverpb::RangeRequest;
use tenure::fence::GuardedError;
use tenure::grpc::Client;
use tenure::{Election, Engine, Leadership, Session};

const TTL: Duration = Duration::from_secs(2);
/// Longer than a write takes.
const WRITE_TAKES: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(20);
const COUNT: &str = "primary_standby/count";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let careless = env::args().any(|arg| arg == "--careless");
    let name = env::args().nth(1).ok_or("usage: primary_standby NAME [--careless]")?;
    let endpoints = env::var("TENURE_ENDPOINTS").unwrap_or_else(|_| "127.0.0.1:2379".to_owned());
    let engine = Engine::detect(&endpoints).await?;
    let client = engine.client().ok_or("this engine keeps no keys")?;
    loop {
        // Whoever lost a session begins anew.
        let session = Session::open(&engine, TTL).await?;
        let election = Election::new(&session, "primary_standby/leader")?;
        println!("{name} stands by");
        let leadership = match election.candidate(name.as_str()).campaign().await {
            Ok(leadership) => leadership,
            Err(error) => {
                println!("{name} was not elected: {error}");
                continue;
            }
        };
        println!("{name} leads under token {}", leadership.token());
        let why = lead(&client, &leadership, careless).await;
        println!("{name} leads no more: {why}");
    }
}

/// Counts for as long as it may, and says why it stopped.
async fn lead(client: &Client, leadership: &Leadership, careless: bool) -> String {
    // What was read before the first write stays true: only this leader's writes are accepted.
    let mut count = match read(client).await {
        Ok(count) => count,
        Err(error) => return error,
    };
    loop {
        if !careless && let Err(doubt) = leadership.may_act(WRITE_TAKES) {
            return doubt.to_string();
        }
        let value = format!("{} under {}", count + 1, leadership.token());
        match leadership.put(COUNT, value).await {
            Ok(_) => count += 1,
            Err(error @ GuardedError::Deposed { .. }) => return format!("refused: {error}"),
            // It may have been written or not: the next leader, or we, must look.
            Err(error) => return error.to_string(),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn read(client: &Client) -> Result<u64, String> {
    let range = RangeRequest { key: COUNT.into(), ..Default::default() };
    let found = client.kv().range(range).await.map_err(|error| error.to_string())?;
    let Some(kv) = found.kvs.first() else { return Ok(0) };
    let text = String::from_utf8_lossy(&kv.value);
    let count = text.split(' ').next().and_then(|count| count.parse().ok());
    count.ok_or_else(|| format!("{COUNT} holds no count: {text:?}"))
}
