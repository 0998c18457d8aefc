//! A stage for textbook algorithms: message-passing programs in virtual time.
//!
//! A [`Program`] is one process's part: it is told of its start, of messages and of alarms, and answers
//! through its [`Scene`]: send, set an alarm, lead, step down. The [`Stage`] does the rest, for all
//! algorithms alike, so that what is measured can be compared:
//!
//! - whoever leads *works*: every so often it writes to the storage, with its token if it has one. The
//!   storage takes everything, or checks tokens ([`Gate`]);
//! - the [`Ledger`] keeps who believed to lead and when, which writes were taken, what was sent;
//! - [`Promise`]s are what an algorithm says of itself; a [`Verdict`] says whether it was kept.
//!
//! A process that is paused does not know it: what reaches it, its own alarms included, waits and is
//! handled in the order in which it came, one after the other, when it goes on. That is how a leader
//! that was sure a moment ago comes to write as if nothing had happened.

mod adversary;
mod apparatus;
mod connections;
mod judge;
mod ledger;
mod lives;
mod node;
mod office;
mod play;
mod program;
mod promise;
mod storage;
mod strike;
mod view;

pub use adversary::Meddler;
pub use apparatus::Stage;
pub use ledger::{Ledger, Tenure};
pub use play::Play;
pub use program::{Program, Scene, Word};
pub use promise::{Promise, Verdict};
pub use storage::{Gate, STORAGE};
pub use view::{Part, View};

use crate::engine::End;

/// A process on the stage, by its number.
pub type NodeId = End;
