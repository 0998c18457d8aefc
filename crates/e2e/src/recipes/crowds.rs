//! Many at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use tenure::Lock;

use super::Ground;

/// There is one holder at a time, and tokens grow from holder to holder.
pub async fn lock_has_one_holder_at_a_time_with_growing_tokens(ground: &Ground) {
    const WORKERS: usize = 6;
    const ROUNDS: usize = 8;
    let alone = Arc::new(AtomicBool::new(true));
    let last = Arc::new(AtomicI64::new(0));
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        let session = ground.session().await;
        let (alone, last) = (Arc::clone(&alone), Arc::clone(&last));
        workers.push(tokio::spawn(async move {
            let lock = Lock::new(&session, "crowd").unwrap();
            for _ in 0..ROUNDS {
                let held = lock.lock().await.unwrap();
                assert!(alone.swap(false, Ordering::SeqCst), "two hold it");
                let before = last.swap(held.token().get(), Ordering::SeqCst);
                assert!(before < held.token().get(), "{before} before {}", held.token());
                tokio::task::yield_now().await;
                alone.store(true, Ordering::SeqCst);
                held.release().await.unwrap();
            }
        }));
    }
    for worker in workers {
        tokio::time::timeout(Duration::from_secs(90), worker).await.expect("all get it").unwrap();
    }
    ground.has_candidates("crowd", 0).await;
}
