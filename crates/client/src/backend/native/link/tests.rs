//! Which attachment may have replaced which, and when sessions that lost their member reattach.

use std::collections::BTreeSet;

use super::*;
use crate::host::Virtual;

#[test]
fn link_attempt_without_an_answer_stays_open_until_it_is_counted() {
    let mut comebacks = Comebacks::default();
    comebacks.opened(1);
    assert_eq!(comebacks.open, 0);
    // Two attempts get no answer, the third does: the server had done one of the two by then.
    comebacks.open = 2;
    comebacks.opened(3);
    assert_eq!((comebacks.attachment, comebacks.open), (3, 1));
    // It replaces our stream, we reattach, and are sure from then on.
    comebacks.opened(5);
    assert_eq!(comebacks.open, 0);
}

#[test]
fn link_attachments_of_others_are_counted_as_theirs() {
    let mut comebacks = Comebacks { attachment: 4, open: 1 };
    comebacks.opened(9);
    assert_eq!(comebacks.open, 0);
}

/// The pauses of so many sessions that lose their member at the same moment.
fn scattered(ttl: Duration, fast_release: bool) -> Vec<Duration> {
    let host: Arc<dyn Host> = Arc::new(Virtual::start());
    let opening = Opening { ttl, identity: "test".to_owned(), fast_release, host };
    let shared = Shared::new(vec![], opening, ttl);
    (0..10_000).map(|seed| shared.scatter(&mut Chance::seeded(seed))).collect()
}

#[tokio::test]
async fn link_scatters_ten_thousand_sessions_over_their_whole_time() {
    let (short, long) = (Duration::from_secs(1), Duration::from_secs(10));
    for (ttl, most) in [(short, short / SCATTERS_PER_TTL), (long, SCATTER_MAX)] {
        let pauses = scattered(ttl, false);
        assert!(pauses.iter().all(|pause| *pause <= most), "{:?}", pauses.iter().max());
        // In each tenth of the time about a tenth of them, so that no member has to take them all at once.
        for tenth in 0..10 {
            let within = |pause: &&Duration| {
                **pause >= most * tenth / 10 && **pause < most * (tenth + 1) / 10
            };
            let come = pauses.iter().filter(within).count();
            assert!((800..1200).contains(&come), "{come} of 10000 in tenth {tenth} of {most:?}");
        }
        let moments: BTreeSet<_> = pauses.iter().map(Duration::as_nanos).collect();
        assert!(moments.len() > 9000, "{} different moments", moments.len());
    }
}

/// The server waits for them for 50 ms, and no longer.
#[tokio::test]
async fn link_does_not_scatter_a_session_with_fast_release() {
    let pauses = scattered(Duration::from_secs(10), true);
    assert!(pauses.iter().all(Duration::is_zero));
}
