//! Leader election and distributed locks that people can trust.
//!
//! A [`Session`] is a process's presence on a cluster. With it one stands for an [`Election`] or takes
//! a [`Lock`], [`RwLock`], [`Semaphore`] or [`MultiLock`]. What one gets is a guard that knows until when
//! it may be believed, that says when and why it is lost, and that carries a [`FencingToken`].
//!
//! ```
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/server.rs"));
//! # fn main() -> Result<(), Box<dyn std::error::Error>> { with_server(async |endpoints| {
//! use std::time::Duration;
//! use tenure::{Election, Engine, Session};
//!
//! let engine = Engine::tenure(&endpoints)?; // "10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379", say
//! let session = Session::open(&engine, Duration::from_secs(10)).await?;
//! let election = Election::new(&session, "backup")?;
//! let leadership = election.candidate("10.0.0.7:8080").campaign().await?;
//! println!("leading under token {}", leadership.token());
//! tokio::select! {
//!     loss = leadership.lost() => println!("lost: {loss}"),
//!     () = work() => leadership.resign().await?,
//! }
//! # Ok(())
//! # }) }
//! # async fn work() {}
//! ```
//!
//! Work that is to be done by one of many, whoever that is, needs no more than a [`LeaderElector`].
//!
//! # What holds
//!
//! At every revision of the cluster at most one candidate leads, and later leaders have greater
//! tokens. This process stops *believing* that it leads before the server may let another one lead; but a
//! process can be paused between asking and acting, so what must never be overwritten by a former
//! leader has to check tokens ([`fence`]).
//!
//! # Rooms
//!
//! [`tenancy`] is the holder's belief as a pure function of moments, [`clock`] where the moments come from,
//! [`host`] what everything runs on.
//! [`backend`] is what an engine must be able to do; the rest is built on it. [`grpc`] is a client of
//! the etcd v3 API.
//!
//! This crate knows nothing of raft or of how a member works inside: a real etcd serves it as well.

/// The examples of the README are compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod backend;
mod chance;
pub mod clock;
mod election;
pub mod elector;
mod engine;
mod error;
pub mod fence;
pub mod grpc;
pub mod host;
mod lock;
mod loss;
mod name;
mod refusal;
mod session;
pub mod tenancy;

pub use backend::{Candidate, Drain, Sight, Tenure};
pub use election::{Candidacy, Election, Leadership, Observer};
pub use elector::LeaderElector;
pub use engine::Engine;
pub use error::{
    AcquireError, EngineError, ObserveError, ProclaimError, ReleaseError, SessionError,
};
pub use fence::FencingToken;
pub use lock::{Held, Lock, MultiLock, RwLock, Semaphore};
pub use loss::Loss;
pub use name::{BadName, LineName, NAME_BYTES_MAX};
pub use refusal::RefusalKind;
pub use session::{Session, SessionOptions, SessionState};
pub use tenancy::{Doubt, Standing, Tenancy};
pub use tenure_api as api;
