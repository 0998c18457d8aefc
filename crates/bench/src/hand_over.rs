//! Let one leader go and see how soon the next one is told.
//!
//! Resigning and revoking go through etcd's services, at both servers with the same hands. The others
//! etcd cannot do, or not on purpose: a transfer to a chosen successor, the death of the leader's process,
//! and its silence.

use std::process::Stdio;
use std::time::Duration;

use http::Uri;
use prost::Message;
use rustix::process::{Pid, Signal, kill_process};
use tenure::api::wire::tenure::v1::TransferRequest;
use tenure::api::wire::{etcdserverpb, v3electionpb as pb};
use tenure::grpc::Client;
use tenure::{Election, Leadership, Session, SessionOptions};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::BenchTarget;
use crate::connection::{Connection, Fault, framed, path};
use crate::lease_grant::grant;
use crate::load::connect;
use crate::report::Report;
use crate::stage::{Limit, Stage};
use tenure::api::duration::duration;

/// Nobody renews these.
const LEASE_TTL_SECS: i64 = 3600;

/// How leaders go.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How the leader goes
    #[arg(long, value_enum)]
    by: By,
    /// How often
    #[arg(long, default_value_t = 100)]
    rounds: u64,
    /// Time to live of the leader's session, where it dies or falls silent
    #[arg(long, default_value = "10s", value_parser = duration)]
    ttl: Duration,
    /// What all names begin with
    #[arg(long, default_value = "bench-hand-over/")]
    key_prefix: String,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum By {
    /// It resigns
    Resign,
    /// Its lease is revoked
    Revoke,
    /// A successor is chosen, and it makes room: the time in which nobody leads
    Transfer,
    /// Its process is killed, with fast release
    Death,
    /// Its process is stopped, and nobody closes its connection
    Silence,
}

/// Runs it.
pub(crate) async fn run(args: Args, target: &BenchTarget) -> anyhow::Result<Report> {
    let stage = Stage::begin(Duration::ZERO, Limit::Operations(args.rounds));
    match args.by {
        By::Resign | By::Revoke => relay(&args, target, &stage).await?,
        By::Transfer => transfers(&args, target, &stage).await?,
        By::Death | By::Silence => deaths(&args, target, &stage).await?,
    }
    Ok(Report::of("hand-over", &target.endpoints, 2, 2, &stage))
}

/// Two candidates, each of which leads when the other goes.
async fn relay(args: &Args, target: &BenchTarget, stage: &Stage) -> anyhow::Result<()> {
    let name = format!("{}relay", args.key_prefix);
    let members = target.endpoints.len();
    let mut one = Runner::new(&name, connect(&target.endpoints[0], target).await?).await?;
    let mut two =
        Runner::new(&name, connect(&target.endpoints[1 % members], target).await?).await?;
    let mut leader = one.campaign().await.map_err(setup)?;
    while let Some(leave) = stage.leave(Instant::now()) {
        let waiting = tokio::spawn(async move {
            let told = two.campaign().await;
            (two, told, Instant::now())
        });
        one.two_in_line().await.map_err(setup)?;
        let gone = Instant::now();
        match args.by {
            By::Revoke => {
                one.revoke().await.map_err(setup)?;
                one.renew_lease().await.map_err(setup)?;
            }
            _ => one.resign(leader).await.map_err(setup)?,
        }
        let (next, told, at) = waiting.await?;
        let (told, result) = match told {
            Ok(told) => (told, Ok(())),
            Err(fault) => anyhow::bail!("the next was not told: {}", fault.text()),
        };
        stage.done(leave, at - gone, result);
        leader = told;
        two = std::mem::replace(&mut one, next);
    }
    // The next run must not stand behind this one.
    one.revoke().await.map_err(setup)?;
    two.revoke().await.map_err(setup)
}

fn setup(fault: Fault) -> anyhow::Error {
    anyhow::anyhow!("{}", fault.text())
}

struct Runner {
    name: String,
    connection: Connection,
    campaign: Uri,
    lease: i64,
}

impl Runner {
    async fn new(name: &str, connection: Connection) -> anyhow::Result<Runner> {
        let campaign = connection.method(path::CAMPAIGN);
        let mut runner = Runner { name: name.to_owned(), connection, campaign, lease: 0 };
        runner.renew_lease().await.map_err(setup)?;
        Ok(runner)
    }

    async fn renew_lease(&mut self) -> Result<(), Fault> {
        let method = self.connection.method(path::LEASE_GRANT);
        self.lease = grant(&mut self.connection, &method, LEASE_TTL_SECS).await?.id;
        Ok(())
    }

    async fn campaign(&mut self) -> Result<pb::LeaderKey, Fault> {
        let request = pb::CampaignRequest {
            name: self.name.clone().into(),
            lease: self.lease,
            value: "bench".into(),
        };
        let answer = self.connection.unary(&self.campaign, framed(&request)).await?;
        let answer = pb::CampaignResponse::decode(answer)
            .map_err(|error| Fault::Transport(error.to_string()))?;
        answer.leader.ok_or(Fault::Status("no leader in the answer".into()))
    }

    async fn resign(&mut self, leader: pb::LeaderKey) -> Result<(), Fault> {
        let method = self.connection.method(path::RESIGN);
        let request = pb::ResignRequest { leader: Some(leader) };
        self.connection.unary(&method, framed(&request)).await.map(drop)
    }

    async fn revoke(&mut self) -> Result<(), Fault> {
        let method = self.connection.method(path::LEASE_REVOKE);
        let request = etcdserverpb::LeaseRevokeRequest { id: self.lease };
        self.connection.unary(&method, framed(&request)).await.map(drop)
    }

    /// Waits until somebody stands behind the leader.
    async fn two_in_line(&mut self) -> Result<(), Fault> {
        let method = self.connection.method(path::RANGE);
        let request = framed(&etcdserverpb::RangeRequest {
            key: format!("{}/", self.name).into(),
            range_end: format!("{}0", self.name).into(),
            count_only: true,
            ..Default::default()
        });
        loop {
            let answer = self.connection.unary(&method, request.clone()).await?;
            let found = etcdserverpb::RangeResponse::decode(answer)
                .map_err(|error| Fault::Transport(error.to_string()))?;
            if found.count >= 2 {
                return Ok(());
            }
        }
    }
}

async fn session(target: &BenchTarget, identity: String) -> anyhow::Result<Session> {
    let options = SessionOptions { identity, ..SessionOptions::new(Duration::from_secs(60)) };
    Ok(Session::open_with(&target.engine, options).await?)
}

/// The time from when a leader has made room until its successor is told.
async fn transfers(args: &Args, target: &BenchTarget, stage: &Stage) -> anyhow::Result<()> {
    let name = format!("{}transfer", args.key_prefix);
    let client = Client::new(target.endpoints.clone(), target.options.clone());
    let sessions = [session(target, "a".into()).await?, session(target, "b".into()).await?];
    let elect = |session: &Session| Election::new(session, name.clone());
    let mut at = 0;
    let mut leader: Leadership = elect(&sessions[at])?.candidate("").campaign().await?;
    while let Some(leave) = stage.leave(Instant::now()) {
        let successor = ["b", "a"][at];
        let candidacy = elect(&sessions[1 - at])?.candidate("");
        let waiting = tokio::spawn(async move { (candidacy.campaign().await, Instant::now()) });
        loop {
            let listed = client.elections().candidates(name.clone()).await?;
            if listed.candidates.len() >= 2 {
                break;
            }
        }
        let request = TransferRequest {
            name: name.clone(),
            identity: successor.into(),
            within_ms: 10_000,
            ..Default::default()
        };
        client.elections().transfer(request).await?;
        leader.drain().await;
        let gone = Instant::now();
        leader.resign().await?;
        let (next, told) = waiting.await?;
        leader = next?;
        stage.done(leave, told.saturating_duration_since(gone), Ok(()));
        at = 1 - at;
    }
    Ok(())
}

/// A leader in a process of its own, which is killed or stopped.
async fn deaths(args: &Args, target: &BenchTarget, stage: &Stage) -> anyhow::Result<()> {
    let waiter = session(target, "next".into()).await?;
    let mut round = 0;
    while let Some(leave) = stage.leave(Instant::now()) {
        round += 1;
        let name = format!("{}{:?}-{round}", args.key_prefix, args.by);
        let mut victim = victim(args, target, &name)?;
        let mut said = BufReader::new(victim.stdout.take().expect("it is piped")).lines();
        anyhow::ensure!(said.next_line().await?.is_some(), "the leader's process failed");
        let candidacy = Election::new(&waiter, name.clone())?.candidate("");
        let client = Client::new(target.endpoints.clone(), target.options.clone());
        let waiting = tokio::spawn(async move { (candidacy.campaign().await, Instant::now()) });
        while client.elections().candidates(name.clone()).await?.candidates.len() < 2 {}
        let pid = victim.id().and_then(|id| Pid::from_raw(id as i32)).expect("it runs");
        let signal = if matches!(args.by, By::Death) { Signal::KILL } else { Signal::STOP };
        let gone = Instant::now();
        kill_process(pid, signal)?;
        let (next, told) = waiting.await?;
        stage.done(leave, told - gone, Ok(()));
        next?.resign().await?;
        let _ = victim.kill().await;
    }
    Ok(())
}

fn victim(args: &Args, target: &BenchTarget, name: &str) -> anyhow::Result<Child> {
    let ttl = format!("{}ms", args.ttl.as_millis());
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--endpoints", &target.addresses(), "bench", "hold", "--ttl", &ttl]);
    command.args(["--name", name]).stdout(Stdio::piped()).kill_on_drop(true);
    if matches!(args.by, By::Death) {
        command.arg("--fast-release");
    }
    Ok(command.spawn()?)
}
