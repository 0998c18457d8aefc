//! A job that runs in one of many replicas, whichever leads.
//!
//! ```sh
//! cargo run -p tenure --example singleton_job -- one
//! cargo run -p tenure --example singleton_job -- two
//! ```
//!
//! The job ends before the leadership is given up: on SIGTERM it finishes the step it is at, and then resigns, so
//! that the next replica begins at once and never beside it. If the process dies or is stopped, the next one
//! begins when its session has run out; one that wakes up after that has its work dropped where it stands.
//!
//! `TENURE_ENDPOINTS` names another cluster than 127.0.0.1:2379, tenure or etcd.

use std::{env, error::Error, ops::ControlFlow, time::Duration};

use tenure::Engine;
use tenure::elector::{ElectorConfig, LeaderElector, Scope};
use tokio::signal::unix::{SignalKind, signal};

/// How long a step may take. Shorter than the renew deadline, or no step could ever begin.
const STEP_TAKES: Duration = Duration::from_millis(100);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let name = env::args().nth(1).ok_or("usage: singleton_job NAME")?;
    let endpoints = env::var("TENURE_ENDPOINTS").unwrap_or_else(|_| "127.0.0.1:2379".to_owned());
    // client-go's defaults suit most jobs; these are shorter, to see something happen.
    let config = ElectorConfig {
        value: Some(name.clone().into()),
        lease_duration: Duration::from_secs(2),
        renew_deadline: Duration::from_millis(1500),
        retry_period: Duration::from_millis(300),
        ..ElectorConfig::new("singleton_job")?
    };
    let elector = LeaderElector::new(Engine::detect(&endpoints).await?, config)?;
    let mut terminated = signal(SignalKind::terminate())?;
    let stop = elector.clone();
    tokio::spawn(async move {
        terminated.recv().await;
        stop.stop();
    });
    println!("{name} waits");
    elector.run(|scope| work(&name, scope)).await;
    Ok(())
}

/// Steps on for as long as it may. Whoever returns `Continue` works again when it leads again.
async fn work(name: &str, scope: Scope) -> ControlFlow<()> {
    println!("{name} works under token {}", scope.token());
    let _stopped = Stopped(name);
    let mut steps: u64 = 0;
    while !scope.is_cancelled()
        && let Ok(token) = scope.may_act(STEP_TAKES)
    {
        step().await;
        steps += 1;
        println!("{name} did step {steps} under {token}");
    }
    ControlFlow::Continue(())
}

/// Whatever ends the work, also if it is dropped because its time is over.
struct Stopped<'a>(&'a str);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        println!("{} has stopped", self.0);
    }
}

/// The work. Here it does nothing that needs fencing; see `primary_standby` for work that does.
async fn step() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}
