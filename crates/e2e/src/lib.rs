//! Real `tenure` processes for tests to be cruel to.
//!
//! A [`Cluster`] starts members on addresses that nothing else uses, keeps their data in a directory
//! that goes away, and can kill, stop, continue, and restart each of them. When a test fails, the
//! end of every member's log is printed; whatever happens, no process outlives its test.
//!
//! A [`Side`] is such a cluster or a real [`Etcd`], on which the same story is played ([`faults`]); a
//! [`Caller`] campaigns and locks there. [`Gateway`] speaks JSON to a member or to an etcd,
//! [`session`] speaks tenure.v1, [`Load`] writes keys meanwhile and remembers what was acknowledged,
//! [`Register`] looks for stale reads, a [`Flood`] is more than a member takes. [`Network`] puts members into network namespaces and cuts the
//! links between them, a [`Relay`] is a path that can be slow or cut, a [`Volume`] a disk that can be full. [`torture`] does
//! all of that at once, and judges what came of it.
//!
//! [`Supervised`] is `tenure run` with its command, and [`Trail`] what that leaves; a [`Sidecar`] is asked for the
//! leader; [`Fence`] is the fencing proxy and [`Upstream`] the service behind it. A [`Desk`] has terminals in which
//! a [`page`] of the docs is played; a [`Screen`] is what one command writes to, as it is seen. [`Program`] is anything
//! that talks on its standard output, [`Postgres`] a real database, [`Scrape`] reads `/metrics`, [`tools`] finds the
//! foreign programs. [`recipes`] is one suite of elections and locks for every engine.
//!
//! [`Certs`] makes certificates for members and clients that speak TLS.
//!
//! Nothing here waits for a fixed time: [`eventually`] asks again until a deadline.

mod address;
mod caller;
mod certs;
mod cluster;
mod ctl;
mod etcd;
pub mod faults;
mod fence;
mod flood;
mod gateway;
mod load;
mod member;
mod metrics;
mod network;
pub mod page;
mod postgres;
mod program;
pub mod recipes;
mod register;
mod relay;
mod screen;
pub mod session;
mod side;
pub mod sidecar;
mod supervised;
mod terminal;
pub mod tools;
pub mod torture;
mod upstream;
mod volume;
mod wait;
mod watcher;

pub use address::{Address, reserve};
pub use caller::{Caller, Observer, Waiting};
pub use certs::Certs;
pub use cluster::{Cluster, Plan, hash_everywhere};
pub use ctl::{Ctl, Said};
pub use etcd::Etcd;
pub use fence::{Answered, Fence, read_until};
pub use flood::{Flood, Make, Tally};
pub use gateway::{Gateway, Lines, Posted};
pub use load::{Load, Record};
pub use member::{Member, Spawn};
pub use metrics::{Scrape, fetch};
pub use network::Network;
pub use postgres::Postgres;
pub use program::Program;
pub use register::Register;
pub use relay::Relay;
pub use screen::Screen;
pub use side::Side;
pub use sidecar::Sidecar;
pub use supervised::{Supervised, Trail, children_of, lives, send};
pub use terminal::Desk;
pub use upstream::Upstream;
pub use volume::Volume;
pub use wait::{eventually, eventually_within};
pub use watcher::Watcher;

pub use tenure::api::wire::{
    etcdserverpb as pb, mvccpb, v3electionpb as electionpb, v3lockpb as lockpb,
};
