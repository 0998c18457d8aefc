//! The gate against a naive model, on disks that fail at every step, and under threads.

mod crash;
mod damage;
mod fuzz;
mod model;
mod simulated;
mod story;

use super::FencingToken;

fn token(revision: i64) -> FencingToken {
    FencingToken::from_revision(revision).unwrap()
}
