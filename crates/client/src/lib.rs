//! Leader election and distributed locks that people can trust.
//!
//! A [`Session`] is a process's presence on a cluster. With it a process campaigns in an [`Election`] or takes a
//! [`Lock`], [`RwLock`], [`Semaphore`] or [`MultiLock`]. The result is a guard that knows until when it may be
//! believed, that says when and why it is lost, and that carries a [`FencingToken`].
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
//! The guide `docs/tutorials/rust-library.md` goes through all of it step by step; `examples/tour.rs` is the guide as a
//! program.
//!
//! | for | use |
//! |---|---|
//! | work that one of many replicas does | [`LeaderElector`] |
//! | leading, and being told when that is over | [`Election`], [`Leadership`] |
//! | one holder, some, readers and writers, several names at once | [`Lock`], [`Semaphore`], [`RwLock`], [`MultiLock`], [`Held`] |
//! | observing the leader | [`Observer`] |
//! | refusing late writes | [`fence`] |
//!
//! # Fenced writes
//!
//! A process can be paused between any check and its write. So the write brings its token along, and the store refuses
//! it when the token is not in force any more:
//!
//! ```
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/server.rs"));
//! # fn main() -> Result<(), Box<dyn std::error::Error>> { with_server(async |endpoints| {
//! # let engine = tenure::Engine::tenure(&endpoints)?;
//! # let session = tenure::Session::open(&engine, std::time::Duration::from_secs(10)).await?;
//! use tenure::api::wire::etcdserverpb::PutRequest;
//! use tenure::fence::{GuardedError, guarded_put};
//! use tenure::grpc::{Client, Endpoint, Options};
//! use tenure::Election;
//!
//! let client = Client::new(Endpoint::list(&endpoints)?, Options::default());
//! let leadership = Election::new(&session, "backup")?.candidate("10.0.0.7:8080").campaign().await?;
//! let holder = leadership.holder_key();
//! let put = |value: &str| PutRequest {
//!     key: "backup/last".into(),
//!     value: value.to_owned().into(),
//!     ..Default::default()
//! };
//! guarded_put(&client, &holder, put("tuesday")).await?;
//!
//! leadership.resign().await?; // from here on another process may lead
//! let late = guarded_put(&client, &holder, put("wednesday")).await;
//! assert!(matches!(late, Err(GuardedError::Deposed { .. })));
//! # Ok(())
//! # }) }
//! ```
//!
//! # Errors
//!
//! A *refusal* changed nothing. An *unknown outcome* may have happened: read before you repeat it. The *end of the
//! session* ends everything that the session held and waited for: open another one. [`AcquireError`],
//! [`GuardedError`](fence::GuardedError), [`Doubt`] and [`Loss`] have a variant for each different thing that a caller
//! will do.
//!
//! # When a server restarts
//!
//! Sessions and observers reconnect by themselves, to any member. While renewals are not acknowledged a session is
//! [`Suspect`](SessionState::Suspect) and [`may_act`](Held::may_act) answers no; if none is until the deadline, the
//! session is lost for good, also if the server counts it as alive. [`LeaderElector`] then campaigns again with another one.
//!
//! # What holds
//!
//! At every revision of the cluster at most one candidate leads, and later leaders have greater
//! tokens. This process stops *believing* that it leads before the server may let another one lead; but a
//! process can be paused between asking and acting, so what must never be overwritten by a former
//! leader has to check tokens ([`fence`]).
//!
//! # Modules
//!
//! [`tenancy`] is the holder's belief as a pure function of moments, [`clock`] where the moments come from,
//! [`host`] what everything runs on.
//! [`leading`] is the loop of open session, campaign, lead and begin again, for programs whose work is no future.
//! [`backend`] is what an engine must be able to do; the rest is built on it. [`grpc`] is a client of
//! the etcd v3 API.
//!
//! This crate knows nothing of raft or of how a member works inside: a real etcd serves it as well.

/// The examples of the README are compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The example of the repository's README, too.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct RepositoryReadme;

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
pub mod leading;
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
pub use lock::{Lock, MultiLock, RwLock, Semaphore};
pub use loss::Loss;
pub use name::{BadName, ElectionName, NAME_BYTES_MAX};
pub use refusal::RefusalKind;
pub use session::{Held, Session, SessionOptions, SessionSecret, SessionState};
pub use tenancy::{Doubt, Standing, Tenancy};
pub use tenure_api as api;
pub use tenure_tls as tls;
