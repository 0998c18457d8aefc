//! A job that runs in one of many replicas, whichever leads.
//!
//! ```sh
//! cargo run -p tenure --example singleton_job -- one
//! cargo run -p tenure --example singleton_job -- two
//! ```
//!
//! The job ends before the leadership is given up: on SIGTERM it finishes the step it is at, and then
//! resigns, so that the next replica begins at once and never beside it. If the process dies, the
//! next one begins when its session has run out.
//!
//! `TENURE_ENDPOINTS` names another cluster than 127.0.0.1:2379, tenure or etcd.

use std::{env, error::Error, time::Duration};

use tenure::{Election, Engine, Leadership, Session};
use tokio::signal::unix::{Signal, SignalKind, signal};

const TTL: Duration = Duration::from_secs(2);
/// How long a step may take. Shorter than the TTL, or no step could ever begin.
const STEP_TAKES: Duration = Duration::from_millis(100);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let name = env::args().nth(1).ok_or("usage: singleton_job NAME")?;
    let endpoints = env::var("TENURE_ENDPOINTS").unwrap_or_else(|_| "127.0.0.1:2379".to_owned());
    let engine = Engine::etcd(&endpoints)?;
    let mut stop = signal(SignalKind::terminate())?;
    loop {
        let session = Session::open(&engine, TTL).await?;
        let candidacy = Election::new(&session, "singleton_job")?.candidate(name.as_str());
        println!("{name} waits");
        let elected = tokio::select! {
            elected = candidacy.campaign() => elected,
            _ = stop.recv() => return Ok(()), // what is dropped is withdrawn
        };
        let leadership = match elected {
            Ok(leadership) => leadership,
            Err(error) => {
                println!("{name} was not elected: {error}");
                continue;
            }
        };
        println!("{name} works under token {}", leadership.token());
        let told_to_stop = work(&name, &leadership, &mut stop).await;
        println!("{name} has stopped");
        if told_to_stop {
            leadership.resign().await?;
            return Ok(());
        }
    }
}

/// Steps on until the leadership is in doubt, or somebody says stop. Says whether somebody did.
async fn work(name: &str, leadership: &Leadership, stop: &mut Signal) -> bool {
    let mut steps: u64 = 0;
    loop {
        let token = match leadership.may_act(STEP_TAKES) {
            Ok(token) => token,
            Err(doubt) => {
                println!("{name} is in doubt: {doubt}");
                return false;
            }
        };
        step().await;
        steps += 1;
        println!("{name} did step {steps} under {token}");
        tokio::select! {
            biased;
            _ = stop.recv() => return true,
            loss = leadership.lost() => {
                println!("{name} lost it: {loss}");
                return false;
            }
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
        }
    }
}

/// The work. Here it does nothing that needs fencing; see `primary_standby` for work that does.
async fn step() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}
