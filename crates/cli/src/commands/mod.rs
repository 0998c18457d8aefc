//! The verbs, a file for each.

mod alarm;
mod auth;
mod bench;
mod certs;
mod compact;
mod completions;
mod debug;
mod defrag;
mod del;
mod doctor;
mod election;
mod endpoint;
mod fence;
mod get;
mod hold;
mod import;
mod lab;
mod lease;
mod man;
mod member;
mod move_leader;
mod once;
mod opening;
mod progress;
mod put;
mod queue;
mod role;
mod run;
mod schedule;
mod serve;
mod sidecar;
mod snapshot;
mod status;
mod stop;
mod txn;
mod up;
mod user;
mod version;
mod watch;
mod web;

pub(crate) use progress::columns;

use std::future::Future;

use clap::Subcommand;

use crate::args::ClientArgs;
use crate::exit::Exit;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a server
    Serve(Box<serve::Flags>),
    /// Run a command while leading, on one of many machines
    Run(Box<run::Run>),
    /// Run a command while holding a lock
    Lock(Box<run::Lock>),
    /// Run a command once for all hosts that ask for it: a nightly job
    Once(Box<once::Once>),
    /// Run the jobs of a file, on one of many machines at a time: a crontab for all of them
    Schedule(schedule::Schedule),
    /// Run several members here, to try and to break
    Up(up::Args),
    /// Become a candidate and lead until interrupted
    Elect(election::elect::Args),
    /// See who leads, and whenever that changes
    Observe(election::observe::Args),
    /// Show who leads
    Leader(election::look::Name),
    /// Show the leader and the waiting candidates, in order
    Candidates(election::look::Name),
    /// Show who led before, and why that ended
    History(election::look::Name),
    /// Exit 0 if this host, or this command's own tenure, leads; 3 if not
    IsLeader(election::is_leader::Args),
    /// Show all elections and locks
    Locks(election::locks::Args),
    /// Show all sessions
    Sessions,
    /// Compare who believes to lead with who does
    Doctor(doctor::Args),
    /// Make the leader hand over to the next candidate
    Resign(election::resign::Args),
    /// Make a candidate the next leader
    Transfer(election::rule::Transfer),
    /// Take a leadership, a lock or a candidacy away
    Evict(election::rule::Evict),
    /// Let no candidate lead until resumed
    Freeze(election::rule::Name),
    /// End a freeze
    Resume(election::rule::Name),
    /// Answer over HTTP who leads, for a container beside it
    Sidecar(Box<sidecar::Args>),
    /// Stand before a service and refuse the writes of holders that were replaced
    Fence(Box<fence::Args>),
    /// Write a key, on a condition if you like
    Put(put::Args),
    /// Read a key or a range of keys
    Get(get::Args),
    /// Delete a key or a range of keys
    Del(del::Args),
    /// Compare, then do one or the other, all at once (read from stdin)
    Txn(txn::Args),
    /// See keys change
    Watch(watch::Args),
    /// Grant, renew, inspect and revoke leases
    #[command(subcommand)]
    Lease(lease::Command),
    /// Make, show, check and renew certificates for members and clients
    #[command(subcommand)]
    Certs(certs::Command),
    /// See and change users
    #[command(subcommand)]
    User(user::Command),
    /// See and change roles, and what they allow
    #[command(subcommand)]
    Role(role::Command),
    /// Let users and roles count, or see whether they do
    #[command(subcommand)]
    Auth(auth::Command),
    /// See and change who belongs to the cluster
    #[command(subcommand)]
    Member(member::Command),
    /// Show how the members are
    Status,
    /// Back up and restore: save, status, restore
    #[command(subcommand)]
    Snapshot(snapshot::Command),
    /// Ask every member how it is, or for a checksum of its keys
    #[command(subcommand)]
    Endpoint(endpoint::Command),
    /// Show or lower what needs a person
    #[command(subcommand)]
    Alarm(alarm::Command),
    /// Forget history before a revision
    #[command(visible_alias = "compaction")]
    Compact(compact::Args),
    /// Make another member the raft leader
    MoveLeader(move_leader::Args),
    /// Give space back (etcd only: here there is nothing to do)
    Defrag(defrag::Args),
    /// Make a member's data directory of an etcd snapshot
    Import(import::Args),
    /// Look into the files of a member that does not run
    #[command(subcommand)]
    Debug(debug::Command),
    /// Run, break and check election algorithms in virtual time
    #[command(subcommand)]
    Lab(lab::Command),
    /// Load a cluster and measure it
    Bench(bench::Args),
    /// Write completions for a shell
    Completions(completions::Args),
    /// Write man pages
    Man(man::Args),
    /// Show the versions of this program and of the API it speaks
    Version,
}

impl Command {
    /// Does it.
    pub(crate) fn run(self, client: ClientArgs) -> anyhow::Result<Exit> {
        match self {
            Command::Serve(args) => serve::run(*args),
            Command::Run(args) => block_on(run::run(*args, client.settings()?)),
            Command::Lock(args) => block_on(run::lock(*args, client.settings()?)),
            Command::Once(args) => block_on(once::run(*args, client.settings()?)),
            Command::Schedule(args) => block_on(schedule::run(args, client.settings()?)),
            Command::Up(args) => up::run(args, client),
            Command::Elect(args) => block_on(election::elect::run(args, client.settings()?)),
            Command::Observe(args) => block_on(election::observe::run(args, client.settings()?)),
            Command::Leader(args) => block_on(election::look::leader(args, client.settings()?)),
            Command::Candidates(args) => {
                block_on(election::look::candidates(args, client.settings()?))
            }
            Command::History(args) => block_on(election::look::history(args, client.settings()?)),
            Command::IsLeader(args) => block_on(election::is_leader::run(args, client.settings()?)),
            Command::Locks(args) => block_on(election::locks::run(args, client.settings()?)),
            Command::Sessions => block_on(election::look::sessions(client.settings()?)),
            Command::Doctor(args) => block_on(doctor::run(args, client.settings()?)),
            Command::Resign(args) => block_on(election::resign::run(args, client.settings()?)),
            Command::Transfer(args) => block_on(election::rule::transfer(args, client.settings()?)),
            Command::Evict(args) => block_on(election::rule::evict(args, client.settings()?)),
            Command::Freeze(args) => block_on(election::rule::freeze(args, client.settings()?)),
            Command::Resume(args) => block_on(election::rule::resume(args, client.settings()?)),
            Command::Sidecar(args) => block_on(sidecar::run(*args, client.settings()?)),
            Command::Fence(args) => fence::run(*args, client),
            Command::Put(args) => block_on(put::run(args, client.settings()?)),
            Command::Get(args) => block_on(get::run(args, client.settings()?)),
            Command::Del(args) => block_on(del::run(args, client.settings()?)),
            Command::Txn(args) => block_on(txn::run(args, client.settings()?)),
            Command::Watch(args) => block_on(watch::run(args, client.settings()?)),
            Command::Lease(command) => block_on(lease::run(command, client.settings()?)),
            Command::Certs(command) => certs::run(command, client),
            Command::User(command) => block_on(user::run(command, client.settings()?)),
            Command::Role(command) => block_on(role::run(command, client.settings()?)),
            Command::Auth(command) => block_on(auth::run(command, client.settings()?)),
            Command::Member(command) => block_on(member::run(command, client.settings()?)),
            Command::Status => block_on(status::run(client.settings()?)),
            Command::Snapshot(command) => snapshot::run(command, client),
            Command::Endpoint(command) => block_on(endpoint::run(command, client.settings()?)),
            Command::Alarm(command) => block_on(alarm::run(command, client.settings()?)),
            Command::Compact(args) => block_on(compact::run(args, client.settings()?)),
            Command::MoveLeader(args) => block_on(move_leader::run(args, client.settings()?)),
            Command::Defrag(args) => block_on(defrag::run(args, client.settings()?)),
            Command::Import(args) => import::run(args),
            Command::Debug(command) => debug::run(command, client),
            Command::Lab(command) => lab::run(command, client),
            Command::Bench(args) => bench::run(args, client.settings()?),
            Command::Completions(args) => completions::run(&args),
            Command::Man(args) => man::run(&args),
            Command::Version => version::run(client),
        }
    }
}

/// A client waits more than it works: one thread is enough.
fn block_on(work: impl Future<Output = anyhow::Result<Exit>>) -> anyhow::Result<Exit> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
