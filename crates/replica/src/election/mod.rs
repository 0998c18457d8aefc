//! Elections and locks: the candidates under each name, and which of them hold.
//!
//! An election and a lock are the same thing, an [`Election`] under a name. Its candidates are keys, laid out as
//! etcd's recipes do (`<name>/<lease in hex>`), in order of their create revisions; so stock clients
//! and ours are candidates in the same election, and each kind can tell by its own rules which is first. The
//! create revision of a holder's key is its fencing token.
//!
//! Clients that came through a [`Session`] may want more than etcd's API can say: several holders at
//! once, priorities, hand-over to a chosen successor, notice when their predecessor has surely
//! stopped. Nothing of that ever breaks the order of create revisions. A candidate that must let others pass is
//! taken out of the election and put in again behind them, with a new and larger token; a stock client's
//! candidate is never moved, because its client decides by itself.
//!
//! This module owns its keys. `apply.rs` is the one way in: it does what a command says, lets the elections follow the
//! keys that changed, and settles each election that was touched, once. It reads no clock; what time decides comes as a
//! command of the raft leader (`expiry.rs`). What one member must do for the clients that are connected to it is in
//! [`listeners`].

mod admin;
mod apply;
mod candidate;
mod candidates;
mod elections;
mod event;
mod expiry;
mod history;
mod keys;
pub mod listeners;
mod names;
mod refusal;
mod secret;
mod session;
mod settle;
mod snapshot;

pub use tenure_api::election::NAME_BYTES_MAX;

pub(crate) use self::apply::{ElectionOp, Transition};
pub use self::{
    apply::{CandidacyView, ElectionOutcome},
    candidate::{Candidate, CandidateSpec, Mode},
    candidates::{Election, Transfer},
    elections::Elections,
    event::ElectionEvent,
    expiry::Delay,
    history::{EndReason, Tenure},
    names::{FROZEN, check as check_name, frozen_key, key_of, name_of, names_above},
    refusal::Refusal,
    secret::SecretDigest,
    session::{Answered, Session, SessionEndReason},
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
/// Bytes of a session's identity.
pub const IDENTITY_BYTES_MAX: usize = 256;
/// Bytes of the value that a candidate shows.
pub const VALUE_BYTES_MAX: usize = 64 << 10;
/// Bytes of a candidate's metadata, keys and values together.
pub const METADATA_BYTES_MAX: usize = 4 << 10;
/// Candidates that one session may have: when it ends, all of them change hands in one command.
pub const CANDIDACIES_MAX: usize = 1000;
/// How long a leader may take to drain when a candidate of higher priority pre-empts it.
pub const PREEMPTION_DRAIN_MS: u64 = 5_000;
/// The longest drain that may be asked for.
pub const DRAIN_MS_MAX: u64 = 3600 * 1000;
