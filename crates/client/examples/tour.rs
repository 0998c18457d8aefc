//! Every step of the guide to the library, `docs/tutorials/rust-library.md`, as one program.
//!
//! ```sh
//! cargo run -p tenure --example tour
//! ```
//!
//! It opens a session, leads, observes, writes fenced, is refused as a former leader, takes a lock and lets an
//! elector do some work. `TENURE_ENDPOINTS` names another cluster than 127.0.0.1:2379, tenure or etcd. The blocks of
//! the guide are functions of this file; `crates/client/tests/guide.rs` compares them, and runs all of it.

use std::env;
use std::error::Error;
use std::ops::ControlFlow;
use std::time::Duration;

use tenure::api::wire::etcdserverpb::PutRequest;
use tenure::elector::{ElectorConfig, Ended, LeaderElector};
use tenure::fence::{Gate, GateLimits, GuardedError, HolderKey, Refusal, guarded_put};
use tenure::grpc::{Client, Endpoint, Options};
use tenure::{AcquireError, Election, Engine, FencingToken, Leadership, Lock, Observer};
use tenure::{ReleaseError, Session, Sight};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let endpoints = env::var("TENURE_ENDPOINTS").unwrap_or_else(|_| "127.0.0.1:2379".to_owned());
    tour(&endpoints).await
}

/// All steps in a row.
pub(crate) async fn tour(endpoints: &str) -> Result<(), Box<dyn Error>> {
    let session = open(endpoints).await?;
    let client = Client::new(Endpoint::list(endpoints)?, Options::default());

    let first = lead(&session).await?;
    let election = Election::new(&session, "tour/leader")?;
    let second = election.candidate("10.0.0.7:8080").campaign().await?;
    observe(session.engine()).await?;
    assert!(write(&client, &second.holder_key(), "17").await?);
    check(first, second.token()).await?;
    let former = second.holder_key();
    lead_until_done(second).await?;
    assert!(!write(&client, &former, "18").await?, "a former leader writes nothing");

    with_lock(&session).await?;
    work_as_leader(session.engine().clone()).await?;
    session.close().await;
    Ok(())
}

async fn open(endpoints: &str) -> Result<Session, Box<dyn Error>> {
    let engine = Engine::detect(endpoints).await?;
    let session = Session::open(&engine, Duration::from_secs(10)).await?;
    println!("session {} lives for {:?} without a renewal", session.id(), session.ttl());
    Ok(session)
}

async fn lead(session: &Session) -> Result<FencingToken, Box<dyn Error>> {
    let election = Election::new(session, "tour/leader")?;
    let leadership = election.candidate("10.0.0.7:8080").campaign().await?;
    for page in 1..=3 {
        // An error if a second of work might not be over before another process may lead.
        let token = leadership.may_act(Duration::from_secs(1))?;
        println!("page {page} under token {token}");
    }
    let token = leadership.token();
    leadership.resign().await?;
    Ok(token)
}

async fn lead_until_done(leadership: Leadership) -> Result<(), ReleaseError> {
    tokio::select! {
        loss = leadership.lost() => {
            println!("stopped: {loss}");
            Ok(())
        }
        _ = leadership.drain() => leadership.resign().await,
        () = work() => leadership.resign().await,
    }
}

async fn work() {
    println!("working");
}

async fn observe(engine: &Engine) -> Result<(), Box<dyn Error>> {
    let mut observer = Observer::open(engine, "tour/leader")?;
    loop {
        let (revision, sight) = observer.next().await?;
        match sight {
            Sight::Leads(leader) | Sight::Proclaims(leader) => {
                let address = String::from_utf8_lossy(&leader.value);
                println!("{} leads at {address} under token {}", leader.identity, leader.token);
                return Ok(());
            }
            Sight::NoLeader => println!("no leader since revision {revision}"),
            Sight::Gap => println!("changes may have been missed; the present state follows"),
        }
    }
}

async fn write(client: &Client, holder: &HolderKey, value: &str) -> Result<bool, GuardedError> {
    let put = PutRequest {
        key: "tour/next".into(),
        value: value.as_bytes().to_vec().into(),
        ..Default::default()
    };
    match guarded_put(client, holder, put).await {
        Ok(_) => Ok(true),
        Err(GuardedError::Deposed { token, .. }) => {
            println!("token {token} was replaced: stop");
            Ok(false)
        }
        // The write may have happened: read before you write again.
        Err(error) => Err(error),
    }
}

async fn check(older: FencingToken, newer: FencingToken) -> Result<(), Refusal> {
    let gate = Gate::in_memory(GateLimits::default());
    // A new leader shows its token before it reads what it will build upon.
    gate.raise(newer).await?;
    if let Err(Refusal::Stale { token, in_force }) = gate.enter(older).await {
        println!("refused: {token} is older than {in_force}");
    }
    let passage = gate.enter(newer).await?;
    // Write here, and let go of the passage when the write is done.
    drop(passage);
    Ok(())
}

async fn with_lock(session: &Session) -> Result<(), Box<dyn Error>> {
    let lock = Lock::new(session, "tour/report")?;
    let held = match lock.lock_within(Duration::from_secs(5)).await {
        Ok(held) => held,
        Err(error) => {
            println!("{error}: {}", advice(&error));
            return Ok(());
        }
    };
    println!("writing under token {}", held.token());
    held.release().await?;
    Ok(())
}

fn advice(error: &AcquireError) -> &'static str {
    match error {
        AcquireError::SessionOver { .. } => "open another session, and be a candidate again",
        AcquireError::CandidacyLost { .. } => "be a candidate again with the same session",
        AcquireError::Taken { .. } | AcquireError::TimedOut { .. } => "try again later",
        AcquireError::Frozen { .. } => "wait until an operator resumes the name",
        // A bad name, another kind of lock under the same name, an engine that cannot do it.
        _ => "change the program: asking again gets the same answer",
    }
}

async fn work_as_leader(engine: Engine) -> Result<(), Box<dyn Error>> {
    let config =
        ElectorConfig { value: Some(b"10.0.0.7:8080".to_vec()), ..ElectorConfig::new("tour/job")? };
    let elector = LeaderElector::new(engine, config)?;
    let ended = elector
        .run(|scope| async move {
            let mut steps = 0;
            while !scope.is_cancelled()
                && let Ok(token) = scope.may_act(Duration::from_secs(1))
            {
                steps += 1;
                println!("step {steps} under token {token}");
                if steps == 3 {
                    return ControlFlow::Break(steps); // all is done: resign, and end `run`
                }
            }
            ControlFlow::Continue(()) // do it again with the next leadership
        })
        .await;
    if let Ended::Done(steps) = ended {
        println!("{steps} steps were done");
    }
    Ok(())
}
