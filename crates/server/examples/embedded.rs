//! Three replicas of one application that elect a leader among themselves, with no separate service: each
//! runs a tenure member inside its own process.
//!
//! ```text
//! cargo run -p tenure-server --example embedded -- 1 /tmp/replica-1
//! cargo run -p tenure-server --example embedded -- 2 /tmp/replica-2
//! cargo run -p tenure-server --example embedded -- 3 /tmp/replica-3
//! ```
//!
//! Two of them are enough to elect one. Stop the leader with Ctrl-C: another one leads.

use std::{env, error::Error, time::Duration};

use tenure::{Election, Engine, Session};
use tenure_server::{Config, Server};

/// Where replica `n` listens; a real application would read that from its settings.
fn client(n: u16) -> String {
    format!("127.0.0.1:{}", 23790 + n)
}

fn peer(n: u16) -> String {
    format!("http://127.0.0.1:{}", 23800 + n)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let me: u16 = args.next().ok_or("which replica: 1, 2 or 3?")?.parse()?;
    let data_dir = args.next().ok_or("where may it keep its data?")?;
    let all: Vec<String> = (1..=3).map(|n| format!("replica-{n}={}", peer(n))).collect();
    let config = Config {
        name: format!("replica-{me}"),
        data_dir: data_dir.into(),
        listen_client_urls: vec![format!("http://{}", client(me))],
        advertise_client_urls: vec![format!("http://{}", client(me))],
        listen_peer_urls: vec![peer(me)],
        initial_advertise_peer_urls: vec![peer(me)],
        initial_cluster: all.join(","),
        ..Config::default()
    };
    let server = Server::start(config).await?;
    println!("replica {me} is there");
    let stop = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    tokio::select! {
        stopped = server.run_until(stop) => Ok(stopped?),
        failed = lead(me) => failed,
    }
}

/// Leads whenever it can. A session through all replicas outlives the one it was opened at.
async fn lead(me: u16) -> Result<(), Box<dyn Error>> {
    let everywhere: Vec<String> = (1..=3).map(client).collect();
    let engine = Engine::tenure(&everywhere.join(","))?;
    loop {
        let Ok(session) = Session::open(&engine, Duration::from_secs(3)).await else {
            // Nobody leads the log yet: another replica has to come.
            tokio::time::sleep(Duration::from_millis(200)).await;
            continue;
        };
        let election = Election::new(&session, "application")?;
        if let Ok(leadership) = election.candidate(client(me)).campaign().await {
            println!("replica {me} leads with token {}", leadership.token());
            println!("replica {me} leads no more: {}", leadership.lost().await);
        }
    }
}
