//! Elections and locks: who stands in line under which name, and who holds.
//!
//! An election and a lock are the same thing, a *line* under a name. Its places are keys, laid out as
//! etcd's recipes do (`<name>/<lease in hex>`), in order of their create revisions; so clients of
//! etcd and ours stand in one line, and each side can see who is first by its own means. The create
//! revision of a holder's key is its fencing token.
//!
//! Clients that came through a [`Session`] may want more than etcd's can say: several holders at
//! once, priorities, hand-over to a chosen successor, a word when their predecessor has surely
//! stopped. Nothing of that ever breaks the order of create revisions. Who must let others pass is
//! taken out of the line and put in again behind them, with a new and larger token; who came by
//! etcd's means is never moved, because its client decides by itself.
//!
//! This module is replicated state and pure: it is told what happened to keys, answers what follows
//! from it, and asks for keys to be moved. It knows neither the store nor the leases nor any clock.
//! [`State`](crate::state::State) carries its wishes out. What one member must do for those who
//! are connected to it is in [`listeners`].

mod bytes;
mod history;
mod line;
pub mod listeners;
mod names;
mod place;
mod queues;
mod refusal;
mod session;

pub use self::{
    history::{Tenure, TenureEnd},
    line::{Line, Transfer},
    names::{FROZEN, check as check_name, frozen_key, key_of, name_of, names_above},
    place::{Candidate, Mode, Place},
    queues::{Delay, Ending, Event, Queues, Step},
    refusal::Refusal,
    session::{Answered, Session, SessionEnd},
};

/// The shortest time to live of a session. Renewals come at a third of it, and must cross the network
/// and reach a majority's disks in that time even on a bad day.
pub const SESSION_TTL_MS_MIN: u64 = 500;
/// The longest: a day.
pub const SESSION_TTL_MS_MAX: u64 = 24 * 3600 * 1000;
/// The highest priority.
pub const PRIORITY_MAX: u32 = 1000;
/// Names that one request may join at once.
pub const NAMES_MAX: usize = 64;
/// Bytes of a name.
pub const NAME_BYTES_MAX: usize = 1024;
/// Bytes of a session's identity.
pub const IDENTITY_BYTES_MAX: usize = 256;
/// Bytes of the value that a candidate shows.
pub const VALUE_BYTES_MAX: usize = 64 << 10;
/// Bytes of a candidate's metadata, keys and values together.
pub const METADATA_BYTES_MAX: usize = 4 << 10;
/// Places that one session may have: when it ends, all of them change hands in one command.
pub const PLACES_MAX: usize = 1000;
/// How long a leader may take to drain when a candidate of higher priority pre-empts it.
pub const PREEMPTION_DRAIN_MS: u64 = 5_000;
/// The longest drain that may be asked for.
pub const DRAIN_MS_MAX: u64 = 3600 * 1000;
