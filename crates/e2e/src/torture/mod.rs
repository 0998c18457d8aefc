//! Torture of real processes: everything that can happen to a cluster, while clients use it in every way.
//!
//! A [`Round`] starts a cluster on a [`Ground`], lets the [`workload`] run on it, and injects one
//! [`Fault`](nemesis::Fault) after the other, as a seed decides. Then everything is mended and judged: the
//! [`history`] of the registers must be [`linearizable`], every answer must be what the members' own logs say
//! ([`truth`]), transactions must be strictly serializable ([`cycles`]), what was acknowledged must be there, every watcher must
//! have been told everything once, no lease may have ended early, no write may have passed under an old token,
//! and all members must hold the same. The [`report`] is one page.
//!
//! The seed fixes what is done to the cluster, not what the machine makes of it: a failure may need a few runs to
//! come back.

mod chance;
pub mod cycles;
mod ground;
pub mod history;
pub mod linearizable;
pub mod nemesis;
pub mod report;
mod round;
mod switchboard;
pub mod truth;
mod wiring;
pub mod workload;

pub use chance::Chance;
pub use ground::{Ground, Security, View};
pub use round::{Form, Outcome, Round, Tally};
pub use switchboard::Switchboard;
pub use wiring::Wiring;
