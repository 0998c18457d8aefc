//! Commands under a lease, and jobs.
#![allow(clippy::unwrap_used)]

mod once;
mod run;
mod run_bad_days;
mod run_terminal;
mod schedule;
mod stage;
mod stonith;
