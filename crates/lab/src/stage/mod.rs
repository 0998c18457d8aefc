//! A stage for textbook algorithms: processes that exchange messages in virtual time.
//!
//! An [`Actor`] is the program of one process. It handles its start, messages and alarms, and acts through
//! its [`Context`]: send, set an alarm, lead, step down. The [`Stage`] does the rest in the same way for all
//! algorithms, so that measurements can be compared:
//!
//! - a leader *works*: at a fixed interval it writes to the storage, with its token if it has one. The
//!   storage takes every write, or checks tokens ([`StorageGate`]);
//! - the [`Ledger`] records which process believed to lead and when, which writes were taken, and what was sent;
//! - a [`Promise`] is a property that an algorithm claims; a [`Verdict`] says whether it held.
//!
//! A paused process does not know that it is paused. Messages and alarms that reach it wait, and are handled
//! one after the other, in order, when it resumes. That is how a leader whose lease has expired comes to write.

mod actor;
mod adversary;
mod algorithm_run;
mod inject;
mod leading;
mod ledger;
mod lifecycle;
mod promise;
mod run;
mod slot;
mod storage;
mod timeline;
mod view;

pub use crate::engine::ProcessId;
pub use actor::{Actor, Context, ProtocolMessage};
pub use adversary::ChooseDelay;
pub use algorithm_run::AlgorithmRun;
pub use ledger::{Ledger, StageTenure};
pub use promise::{Promise, Verdict};
pub use run::Stage;
pub use storage::{STORAGE, StorageGate};
pub use timeline::{Timeline, TimelineLine, seconds};
pub use view::{ProcessRole, ProcessView};
