//! Runs a command on one host, though every host's cron starts it.
//!
//! ```sh
//! 0 3 * * *  cron_guard backup "$(date +\%F)" -- /usr/local/bin/backup
//! ```
//!
//! A job runs at most once for each slot (here, a day), and never beside itself. The slot is written down
//! *before* the command starts: if the host dies in the middle, the slot is not run again. A job that can
//! bear to run twice, and not to be left out, would write it down afterwards.
//!
//! The lock is what keeps two runs apart while all is well. The guarded transaction is what keeps the
//! promise: a host that slept through its lock cannot write the slot down, and so does not start.
//! When the lock is lost while the command runs, the command is killed; if it writes anywhere, it has
//! `TENURE_TOKEN` to show there.
//!
//! Exit codes: the command's own; 0 if the slot is somebody else's; 75 (try again) if nobody knows.
//! `TENURE_ENDPOINTS` names another cluster than 127.0.0.1:2379, tenure or etcd.

use std::{
    env,
    error::Error,
    process::{ExitCode, ExitStatus},
    time::Duration,
};

use tenure::api::wire::etcdserverpb as pb;
use tenure::fence::{GuardedError, guarded_txn};
use tenure::grpc::{Client, Endpoint, Options};
use tenure::{AcquireError, Engine, Held, Lock, Session};
use tokio::process::Command;

const TTL: Duration = Duration::from_secs(5);
/// sysexits.h: EX_TEMPFAIL.
const TRY_AGAIN: u8 = 75;

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [job, slot, dashes, program, rest @ ..] = &args[..] else {
        return Err("usage: cron_guard JOB SLOT -- COMMAND…".into());
    };
    if dashes != "--" {
        return Err("usage: cron_guard JOB SLOT -- COMMAND…".into());
    }
    let endpoints = env::var("TENURE_ENDPOINTS").unwrap_or_else(|_| "127.0.0.1:2379".to_owned());
    let client = Client::new(Endpoint::list(&endpoints)?, Options::default());
    let session = Session::open(&Engine::detect(&endpoints).await?, TTL).await?;

    let held = match Lock::new(&session, format!("cron/lock/{job}"))?.try_lock().await {
        Ok(held) => held,
        Err(AcquireError::Taken { .. }) => {
            println!("{job} runs elsewhere");
            return Ok(ExitCode::SUCCESS);
        }
        Err(error) => return Err(error.into()),
    };
    let holder = held.holder_key();
    match guarded_txn(&client, &holder, claim(job, slot)).await {
        Ok(answer) if answer.succeeded => {}
        Ok(_) => {
            println!("{job} was run for {slot}");
            session.close().await;
            return Ok(ExitCode::SUCCESS);
        }
        Err(GuardedError::Deposed { .. }) => {
            println!("{job} went to somebody else");
            return Ok(ExitCode::SUCCESS);
        }
        // The slot may be claimed. To start now could be a second time.
        Err(error) => {
            eprintln!("{job} for {slot}: {error}");
            return Ok(TRY_AGAIN.into());
        }
    }
    let mut command = Command::new(program);
    command.args(rest).env("TENURE_TOKEN", held.token().to_string());
    let code = run(command, &held).await?;
    // The command has ended; now the next slot may begin.
    session.close().await;
    Ok(code)
}

/// Runs the command for as long as the lock is held.
async fn run(mut command: Command, held: &Held) -> Result<ExitCode, Box<dyn Error>> {
    let mut child = command.kill_on_drop(true).spawn()?;
    tokio::select! {
        ended = child.wait() => Ok(code(ended?).into()),
        loss = held.lost() => {
            child.kill().await?;
            eprintln!("killed: the lock was lost: {loss}");
            Ok(TRY_AGAIN.into())
        }
    }
}

fn code(status: ExitStatus) -> u8 {
    status.code().and_then(|code| code.try_into().ok()).unwrap_or(1)
}

/// Writes down that the job is run for this slot, if it was not.
fn claim(job: &str, slot: &str) -> pb::TxnRequest {
    use pb::compare::{CompareResult, CompareTarget, TargetUnion};
    let key = format!("cron/run/{job}/{slot}");
    let new = pb::Compare {
        key: key.clone().into(),
        target: CompareTarget::Create as i32,
        result: CompareResult::Equal as i32,
        target_union: Some(TargetUnion::CreateRevision(0)),
        ..Default::default()
    };
    let put = pb::PutRequest { key: key.into(), ..Default::default() };
    let request = Some(pb::request_op::Request::RequestPut(put));
    pb::TxnRequest { compare: vec![new], success: vec![pb::RequestOp { request }], failure: vec![] }
}
