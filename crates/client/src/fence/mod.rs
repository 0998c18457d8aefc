//! Fencing: the number that goes with every hold, by which late writes are refused.

mod token;

pub use token::FencingToken;
