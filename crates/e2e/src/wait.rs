//! Waiting for something to become true.

use std::time::{Duration, Instant};

/// How long anything may take on a busy machine before a test gives up.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Asks until there is an answer; fails with what was wrong last.
pub async fn eventually<T>(what: &str, ask: impl AsyncFnMut() -> Result<T, String>) -> T {
    eventually_within(PATIENCE, what, ask).await
}

/// Asks until there is an answer, for so long at the most.
pub async fn eventually_within<T>(
    patience: Duration,
    what: &str,
    mut ask: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let deadline = Instant::now() + patience;
    loop {
        match ask().await {
            Ok(found) => return found,
            Err(last) if Instant::now() > deadline => {
                panic!("{what}: not within {patience:?}; last seen: {last}")
            }
            Err(_) => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
}
