//! Fencing in PostgreSQL: SQL to run, with whichever driver you use.
//!
//! The gate is a row that holds the newest token, in the same database as what it protects. A writer's
//! transaction locks that row, shared with others of the same token, and a new holder changes it; so the
//! database lets a new holder in when the transactions of older ones have ended, and then refuses them.
//!
//! The steps are in `docs/how-to/postgresql.md`, and run against a real PostgreSQL 15 in the tests.

/// Makes the table `fencing_gate` and the functions `fencing_enter` and `fencing_required`.
pub const SCHEMA: &str = include_str!("postgres.sql");

/// Creates the gate of one resource (`$1`), once, before the first write.
pub const ADD: &str =
    "INSERT INTO fencing_gate (resource) VALUES ($1) ON CONFLICT (resource) DO NOTHING";

/// Comes in, for the rest of the transaction: resource (`$1`) and token (`$2`). In a transaction of
/// its own it raises the gate, which a new holder does before it reads.
pub const ENTER: &str = "SELECT fencing_enter($1, $2)";

/// The SQLSTATE of a refusal because a newer token is in force: stop.
pub const STALE: &str = "TN409";

/// The SQLSTATE of a refusal because the resource has no gate.
pub const NO_GATE: &str = "TN404";

/// The SQLSTATE of a refusal to raise the gate in a transaction that would not see what older ones
/// wrote.
pub const WRONG_ISOLATION: &str = "TN412";

/// The SQLSTATE of a refusal, by the trigger, of a change without a token.
pub const NO_TOKEN: &str = "TN428";
