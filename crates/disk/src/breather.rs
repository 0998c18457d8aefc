//! Resting for as long as one has worked.

use std::time::{Duration, Instant};

/// The longest rest: work that was held up itself has not been in the way of other work.
pub const REST_MAX: Duration = Duration::from_millis(20);

/// Keeps background work, which shares a machine with the threads that serve clients, to half of the time. There
/// may be only one core; being nice decides which thread runs next, but not how soon the one that runs lets go.
#[derive(Debug)]
pub struct Breather {
    began: Instant,
}

impl Breather {
    /// The work begins.
    #[expect(clippy::new_without_default, reason = "when it is made matters")]
    pub fn new() -> Breather {
        Breather { began: Instant::now() }
    }

    /// A small piece of work is done, and the next one begins after a rest.
    pub fn rest(&mut self) {
        self.rest_but(Duration::ZERO);
    }

    /// The same, if so much of the time since was spent with waiting.
    pub fn rest_but(&mut self, waited: Duration) {
        let worked = self.began.elapsed().saturating_sub(waited);
        std::thread::sleep(worked.min(REST_MAX));
        self.began = Instant::now();
    }
}
