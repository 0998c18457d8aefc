//! Algorithms side by side: the same experiments for all, and only what was measured.
//!
//! | experiment | what is done | what is measured |
//! |---|---|---|
//! | growth | the leader crashes, among 3, 5, 9 and 17 contenders | messages and rounds until all know the next |
//! | failover | the leader crashes, with several seeds | time until a process notices, and until one leads; the share of time with a leader if leaders die once a day |
//! | churn | the leader crashes repeatedly, and restarts | which process wins how often |
//! | partition | the leader and a minority are cut off | which sides have a leader, and for how long there are two |
//! | pause | the leader is paused for longer than the others wait | how often and for how long there are two leaders, and writes that are taken though their writer was replaced |
//! | skew | the leader's clock is set back and runs slow, the others are ahead and run fast | the same |

mod claims;
mod experiments;
mod table;

pub use claims::{Disagreement, Finding, disagreements};
pub use experiments::{ComparisonRow, PartitionSides, TwoLeaders, measure};
pub use table::table;
