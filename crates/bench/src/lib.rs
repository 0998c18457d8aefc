//! Load a cluster and measure it.
//!
//! Speaks the etcd v3 API, so that it measures tenure and a real etcd with the same hands; only what
//! etcd cannot do at all is measured by the library. The machine under test is usually this one, so the load must cost little: one thread
//! unless told otherwise, plain HTTP/2 under the requests (`connection`), and the CPU it takes is
//! part of every report.
//!
//! `load` says how hard and how long, `stage` is the clock and the tally of one run, `drive` sends
//! clients through it, `report` is what comes out. A file for each workload beside them.
//!
//! This crate deliberately reads no environment, knows no output format and decides no exit code: the
//! command `tenure bench` does. `hand-over` starts its victims as `bench hold` of the program it runs in.

mod cas;
mod connection;
mod crowd;
mod drive;
mod gap;
mod gateway;
mod get;
mod hand_over;
mod hold;
mod key;
mod lease_expiry;
mod lease_grant;
mod lease_keepalive;
mod load;
mod lock;
mod put;
mod report;
mod sessions;
mod stage;
mod watch;

use std::io::{IsTerminal, stderr};

use clap::Subcommand;
use tenure::Engine;
use tenure::grpc::{Endpoint, Options};

pub use report::Report;

/// Which load, and with how many threads.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    workload: Workload,
    /// Threads of the load itself
    #[arg(long, global = true, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    threads: u16,
}

#[derive(Debug, Subcommand)]
enum Workload {
    /// Write keys
    Put(put::Args),
    /// Read keys
    Get(get::Args),
    /// Compare and swap: every client its own key, each write on the condition of the last
    Cas(cas::Args),
    /// Watch keys while others write them
    Watch(watch::Args),
    /// Grant leases
    LeaseGrant(lease_grant::Args),
    /// Renew leases over streams
    LeaseKeepalive(lease_keepalive::Args),
    /// Let leases run out and see how late their keys go
    LeaseExpiry(lease_expiry::Args),
    /// Take a lock and give it back
    Lock(lock::Args),
    /// Let one leader go and see how soon the next one is told
    HandOver(hand_over::Args),
    /// Be a candidate in many elections and live: what that costs shows at the members
    Crowd(crowd::Args),
    /// Keep many sessions and see how close they come to their end while others do harm
    Sessions(sessions::Args),
    /// Lead until killed: the victim of `hand-over`
    #[command(hide = true)]
    Hold(hold::Args),
    /// Write without pause, move on at every failure, and measure the longest time without a write
    Gap(gap::Args),
}

/// The cluster to load.
#[derive(Clone, Debug)]
pub struct BenchTarget {
    /// Its members; at least one.
    pub endpoints: Vec<Endpoint>,
    /// How to connect to them.
    pub options: Options,
    /// The same as an engine, for the workloads that hold sessions.
    pub engine: Engine,
}

impl BenchTarget {
    /// The endpoints as they are written.
    fn addresses(&self) -> String {
        let all: Vec<String> = self.endpoints.iter().map(ToString::to_string).collect();
        all.join(",")
    }
}

/// Runs the workload to its end, with progress on stderr if that is a terminal.
pub fn run(args: Args, target: &BenchTarget) -> anyhow::Result<Report> {
    let runtime = match args.threads {
        1 => tokio::runtime::Builder::new_current_thread().enable_all().build()?,
        threads => tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads.into())
            .enable_all()
            .build()?,
    };
    let report = runtime.block_on(async {
        match args.workload {
            Workload::Put(args) => put::run(args, target).await,
            Workload::Get(args) => get::run(args, target).await,
            Workload::Cas(args) => cas::run(args, target).await,
            Workload::Watch(args) => watch::run(args, target).await,
            Workload::LeaseGrant(args) => lease_grant::run(args, target).await,
            Workload::LeaseKeepalive(args) => lease_keepalive::run(args, target).await,
            Workload::LeaseExpiry(args) => lease_expiry::run(args, target).await,
            Workload::Lock(args) => lock::run(args, target).await,
            Workload::HandOver(args) => hand_over::run(args, target).await,
            Workload::Crowd(args) => crowd::run(args, target).await,
            Workload::Sessions(args) => sessions::run(args, target).await,
            Workload::Hold(args) => hold::run(args, target).await,
            Workload::Gap(args) => gap::run(args, target).await,
        }
    })?;
    // The line of progress.
    if stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
    Ok(report)
}
