//! Resting for as long as one has worked.

use std::time::{Duration, Instant};

/// Longer than this nobody rests: work that was held up itself has not been in anybody's way.
pub(crate) const REST_MAX: Duration = Duration::from_millis(20);

/// Keeps work that nobody waits for, and that shares a machine with those who serve clients, to half of the time. There
/// may be one core for everybody; being nice decides who runs next, but not how soon the one that runs lets go.
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
    pub(crate) fn rest_but(&mut self, waited: Duration) {
        let worked = self.began.elapsed().saturating_sub(waited);
        std::thread::sleep(worked.min(REST_MAX));
        self.began = Instant::now();
    }
}
