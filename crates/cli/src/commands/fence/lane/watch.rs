//! A limit for waiting that costs next to nothing when it is not reached.
//!
//! A timer of its own for each wait would be set and taken back many thousand times a second. Here one
//! timer stays where it is and rings too early; then it is looked at what it should have been set to.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// One timer for many waits, one after the other.
#[derive(Debug, Default)]
pub(super) struct Watch {
    timer: Option<Pin<Box<Sleep>>>,
}

impl Watch {
    /// Waits, but not longer than this; `None` if that was not long enough.
    pub(super) async fn within<T>(
        &mut self,
        wait: Duration,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut work = pin!(work);
        let mut until = None;
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            let until = *until.get_or_insert_with(|| Instant::now() + wait);
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
            if timer.deadline() > until {
                timer.as_mut().reset(until);
            }
            while timer.as_mut().poll(cx).is_ready() {
                if Instant::now() >= until {
                    return Poll::Ready(None);
                }
                timer.as_mut().reset(until);
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};

    #[tokio::test]
    async fn each_wait_has_its_own_limit() {
        let mut watch = Watch::default();
        assert_eq!(watch.within(Duration::ZERO, ready(1)).await, Some(1));
        for millis in [1, 30, 5, 5] {
            let (wait, began) = (Duration::from_millis(millis), Instant::now());
            assert_eq!(watch.within(wait, pending::<()>()).await, None);
            assert!(began.elapsed() >= wait);
        }
        // The timer stands at a moment that is long gone; that must not end a longer wait.
        let slow = tokio::time::sleep(Duration::from_millis(20));
        assert_eq!(watch.within(Duration::from_secs(60), slow).await, Some(()));
    }
}
