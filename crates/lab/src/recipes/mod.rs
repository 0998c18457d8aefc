//! The shipped recipes in virtual time: sessions, elections, locks and electors of the library, against
//! a cluster of shipped replicas, through the shipped service for sessions and elections.
//!
//! Real: everything of the library from `Election` down to the messages of `tenure.v1`; the server's end of a
//! session's stream; the replicas. Simulated:
//!
//! - [`ClientProgram`](client_program::ClientProgram): a process of an application, with a clock of its own that
//!   runs a little fast or slow. It is paused, cut off and killed. Its tasks run on an
//!   [`Executor`](crate::engine::Executor).
//! - [`ProgramMix`](program_mix::ProgramMix): the programs of a scenario.
//! - [`script`]: what programs do with the recipes, and what they believe meanwhile.
//! - [`trace_events`]: the trace events of programs.
//! - [`channel`] and [`network`]: what carries `tenure.v1` in place of gRPC. Calls keep order, take time, break,
//!   or are cut silently.
//! - [`member_service`]: a member's end of the calls.
//! - [`Simulation`](simulation::Simulation): all programs and services, as one client of the simulated cluster.

pub mod channel;
pub mod client_program;
pub mod member_service;
pub mod network;
pub mod program_mix;
pub mod script;
pub mod simulation;
pub mod trace_events;
