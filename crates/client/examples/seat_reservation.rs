//! Sells a seat once. While one customer pays, nobody else is asked to.
//!
//! ```sh
//! cargo run -p tenure --example seat_reservation -- 14C alice
//! ```
//!
//! holds the seat and waits for a line on its standard input, which stands for the payment. Two things
//! can go wrong, and each has its own remedy:
//!
//! - Two customers pay for one seat. The *lock* keeps the second from beginning. It saves trouble, and
//!   cannot promise more: a customer may take so long, or the process may be stopped for so long, that
//!   the hold ends meanwhile.
//! - One seat is sold twice. The *guarded transaction* makes that impossible: it sells the seat only if
//!   this very hold lasts and the seat is not sold yet, at one revision of the store.
//!
//! `TENURE_ENDPOINTS` names another cluster than 127.0.0.1:2379, tenure or etcd.

use std::{env, error::Error, io, process::ExitCode, time::Duration};

use tenure::api::wire::etcdserverpb as pb;
use tenure::fence::{GuardedError, guarded_txn};
use tenure::grpc::{Client, Endpoint, Options};
use tenure::{AcquireError, Engine, Lock, Session};

/// How long a process may be silent before its customer's hold ends.
const TTL: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [seat, customer] = &args[..] else {
        return Err("usage: seat_reservation SEAT NAME".into());
    };
    let endpoints = env::var("TENURE_ENDPOINTS").unwrap_or_else(|_| "127.0.0.1:2379".to_owned());
    let client = Client::new(Endpoint::list(&endpoints)?, Options::default());
    let session = Session::open(&Engine::detect(&endpoints).await?, TTL).await?;

    let lock = Lock::new(&session, format!("seats/held/{seat}"))?;
    let held = match lock.try_lock().await {
        Ok(held) => held,
        Err(AcquireError::Taken { .. }) => {
            println!("{seat} is being paid for by somebody else");
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => return Err(error.into()),
    };
    println!("{seat} is held for {customer} under token {}", held.token());
    tokio::task::spawn_blocking(|| io::stdin().lines().next()).await?;

    let holder = held.holder_key();
    let code = match guarded_txn(&client, &holder, sell(seat, customer)).await {
        Ok(answer) if answer.succeeded => {
            println!("{seat} is sold to {customer}");
            ExitCode::SUCCESS
        }
        Ok(_) => {
            println!("{seat} was sold before; {customer} gets the money back");
            ExitCode::FAILURE
        }
        Err(error @ GuardedError::Deposed { .. }) => {
            println!("too late for {customer}: {error}");
            ExitCode::FAILURE
        }
        // Nobody knows whether it was sold: look, before the money is given back.
        Err(GuardedError::Client(error)) if error.outcome_unknown() => {
            println!("{seat} may be sold to {customer}: {error}");
            ExitCode::FAILURE
        }
        Err(error) => return Err(error.into()),
    };
    session.close().await;
    Ok(code)
}

/// Writes down who has the seat, if nobody has it.
fn sell(seat: &str, customer: &str) -> pb::TxnRequest {
    use pb::compare::{CompareResult, CompareTarget, TargetUnion};
    let key = format!("seats/sold/{seat}");
    let unsold = pb::Compare {
        key: key.clone().into(),
        target: CompareTarget::Create as i32,
        result: CompareResult::Equal as i32,
        target_union: Some(TargetUnion::CreateRevision(0)),
        ..Default::default()
    };
    let put =
        pb::PutRequest { key: key.into(), value: customer.to_owned().into(), ..Default::default() };
    let request = Some(pb::request_op::Request::RequestPut(put));
    pb::TxnRequest {
        compare: vec![unsold],
        success: vec![pb::RequestOp { request }],
        failure: vec![],
    }
}
