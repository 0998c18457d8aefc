//! A client of the etcd v3 API.
//!
//! A [`Client`] holds a connection to each [`Endpoint`] it was given, opened when first needed. It
//! stays with one of them until that one fails, and then moves to the next. What may be sent again
//! is decided as etcd's own client decides it: a read whenever a member was unavailable, a change
//! only if nothing of it was sent. A change that broke off half way is reported as
//! [`ClientError::OutcomeUnknown`] and never repeated behind the caller's back.
//!
//! ```
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/server.rs"));
//! # fn main() -> Result<(), Box<dyn std::error::Error>> { with_server(async |endpoints| {
//! use tenure::{api::wire::etcdserverpb::RangeRequest, grpc::{Client, Endpoint, Options}};
//!
//! let client = Client::new(Endpoint::list(&endpoints)?, Options::default());
//! let found = client.kv().range(RangeRequest { key: "job/1".into(), ..Default::default() }).await?;
//! println!("{} keys", found.count);
//! # Ok(())
//! # }) }
//! ```
//!
//! The generated clients are in [`stubs`], for callers that want no policy at all.

mod auth;
mod client;
mod cluster;
mod dial;
mod elections;
mod endpoint;
mod error;
mod kv;
mod lease;
mod login;
mod maintenance;
mod need;
mod resume;
mod retry;
pub mod stubs;
mod watch;

pub use auth::Auth;
pub use client::{Client, Options};
pub use cluster::Cluster;
pub use dial::{Dialer, Socket};
pub use elections::{ElectionFeed, Elections, SessionStream, Sessions};
pub use endpoint::Endpoint;
pub use error::ClientError;
pub use kv::Kv;
pub use lease::{Lease, Renewals};
pub use login::{Credentials, Password};
pub(crate) use login::{StreamLogin, is_stale};
pub use maintenance::Maintenance;
pub use need::NeededRight;
pub use resume::Resumed;
pub use tonic::Code;
pub use watch::Watch;
