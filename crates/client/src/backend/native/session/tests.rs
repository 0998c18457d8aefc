//! What counts as a renewal.

use futures_util::FutureExt;

use super::*;
use crate::backend::native::link::Spoken;
use crate::host::Virtual;

fn session() -> NativeSession {
    let opening = Opening {
        ttl: Duration::from_secs(2),
        identity: "test".to_owned(),
        fast_release: false,
        host: Arc::new(Virtual::start()),
    };
    let shared = Arc::new(Shared::new(vec![], opening, Duration::from_secs(1)));
    NativeSession {
        id: LeaseId(7),
        ttl: Duration::from_secs(2),
        shared,
        keeping: Leash::new(|| {}),
        link_told: Mutex::new(Link::Attached),
    }
}

#[tokio::test]
async fn session_attachment_renews_if_it_was_begun_after_the_renewal() {
    let session = session();
    let mut renewing = session.renew();
    assert!((&mut renewing).now_or_never().is_none(), "there is no stream");
    let sent = session.shared.now();
    session.shared.stream.send_replace(Some(Spoken { number: 1, sent }));
    renewing.await.unwrap();
}

#[tokio::test]
async fn session_attachment_that_was_begun_before_confirms_nothing() {
    let session = session();
    let sent = session.shared.now();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let mut renewing = session.renew();
    assert!((&mut renewing).now_or_never().is_none(), "there is no stream");
    session.shared.stream.send_replace(Some(Spoken { number: 1, sent }));
    assert!((&mut renewing).now_or_never().is_none(), "nobody has acknowledged it");
}
