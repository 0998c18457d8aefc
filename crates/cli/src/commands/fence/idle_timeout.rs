//! A limit for waits that follow each other, such as those for the next piece of a body.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Limits each wait. A wait that is over at once sets no timer.
#[derive(Debug)]
pub(super) struct IdleTimeout {
    limit: Duration,
    /// Kept from wait to wait: moving a timer costs less than making one.
    timer: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

impl IdleTimeout {
    pub(super) fn new(limit: Duration) -> IdleTimeout {
        IdleTimeout { limit, timer: None, waiting: false }
    }

    /// Ends a wait. The next one has the whole time again.
    pub(super) fn reset(&mut self) {
        self.waiting = false;
    }

    /// Begins a wait, or goes on with it; ready when it has taken too long.
    pub(super) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let limit = self.limit;
        let deadline = || Instant::now() + limit;
        let timer = self.timer.get_or_insert_with(|| {
            self.waiting = true;
            Box::pin(sleep_until(deadline()))
        });
        if !self.waiting {
            self.waiting = true;
            timer.as_mut().reset(deadline());
        }
        timer.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[tokio::test]
    async fn idle_timeout_limits_each_wait_by_itself() {
        const LIMIT: Duration = Duration::from_millis(30);
        let mut timeout = IdleTimeout::new(LIMIT);
        for _ in 0..3 {
            let begun = Instant::now();
            timeout.reset();
            poll_fn(|cx| timeout.poll_expired(cx)).await;
            assert!(begun.elapsed() >= LIMIT);
        }
        // A wait that was cut short must not shorten the next one.
        timeout.reset();
        let poll = |cx: &mut Context<'_>| Poll::Ready(timeout.poll_expired(cx));
        assert!(poll_fn(poll).await.is_pending());
        let cut = Instant::now();
        while cut.elapsed() < LIMIT / 2 {
            tokio::task::yield_now().await;
        }
        let begun = Instant::now();
        timeout.reset();
        poll_fn(|cx| timeout.poll_expired(cx)).await;
        assert!(begun.elapsed() >= LIMIT);
    }
}
