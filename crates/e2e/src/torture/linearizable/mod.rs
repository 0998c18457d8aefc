//! Is there an order in which every operation could have happened at one moment between question and answer?
//!
//! A search after Wing and Gong, with Lowe's memory of what was tried in vain: an operation may be next if it
//! was asked for before any that is not placed yet was answered; if what it was told fits what the register
//! holds, it is placed, and the search goes on without it. What was tried is remembered as the set of placed
//! operations and the register they leave. Registers are independent of each other (Herlihy and Wing), so each is
//! searched alone.
//!
//! Open operations are placed whenever that helps, or never. Two things keep them from making the search long.
//! A write whose value was never seen explains nothing and is left out. And one whose value was seen must be placed
//! before the first operation that saw it was answered.

mod search;
#[cfg(test)]
mod tests;

pub use search::{Violation, check};
