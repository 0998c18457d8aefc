//! What people type, and what they read.
#![allow(clippy::unwrap_used)]

mod bench;
mod commands;
mod conditions;
mod debug_wal;
mod doctor;
mod doctor_beliefs;
mod doctor_elections;
mod elect_commands;
mod formats;
mod habits;
mod help;
mod identity;
mod lab;
mod patients;
mod server_restarts;
mod sidecar;
mod sidecar_faults;
mod up;
