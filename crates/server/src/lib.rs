//! The host of a replica: disk, peers, a clock, and the etcd v3 API for its clients.
//!
//! [`Server::start`] puts it together from a [`Config`]. It decides nothing that matters: what a
//! member does is decided in `tenure-replica`, which this crate feeds and obeys.

mod admission;
pub mod audit;
mod auth;
pub mod backup;
pub mod browsers;
mod called;
pub mod config;
mod etcd_db;
pub mod grpc;
pub mod http;
pub mod import;
mod io;
mod liveness;
pub mod log_rows;
mod metrics;
pub mod node;
pub mod peer;
mod server;
pub mod traces;

pub use admission::Admitted;
pub use auth::{RecoveryError, TokenSettingError, prepare_recovery};
pub use config::Config;
pub use etcd_db::DatabaseError;
pub use node::Stopped;
pub use server::{ListenError, Server, StartError, listen, owner_of};
pub use tenure_disk as disk;
