//! Algorithms side by side: the same experiments for all, and nothing that was not measured.
//!
//! | experiment | what is done | what is measured |
//! |---|---|---|
//! | growth | the leader dies, among 3, 5, 9 and 17 contenders | messages and rounds until everybody knows the next |
//! | failover | the leader dies, with several seeds | time until somebody notices, until somebody leads; and what share of the time somebody leads if leaders die once a day |
//! | churn | the leader dies again and again, and comes back | who wins how often |
//! | partition | the leader and whoever is with the smaller half are cut off | who leads on which side, and for how long two do |
//! | pause | the leader stands still for longer than the others wait | writes that are taken though it was replaced |
//! | skew | the leader's clock is set back and runs slow, everybody else's is ahead and runs fast | the same |

mod claims;
mod experiments;
mod table;

pub use claims::{Disagreement, Finding, disagreements};
pub use experiments::{Row, Sides, measure};
pub use table::table;
