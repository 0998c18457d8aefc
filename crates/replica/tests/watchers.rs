//! What watchers are told, in answers of bounded size: the host encodes each answer at once.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use tenure_api::{Principal, Put, Revision, Span, op::PutLease};
use tenure_replica::{
    Moment,
    mvcc::{Change, Store},
    watch::{Interest, WatchCreate, WatchInput, WatchLimits, WatchNews, WatchStream, Watchers},
};

const STREAM: WatchStream = 1;
const MIB: usize = 1 << 20;

fn put(store: &mut Store, key: &str, bytes: usize) -> Change {
    let put = Put {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: Some(vec![b'x'; bytes].into()),
        lease: PutLease::Set(None),
        prev_kv: false,
    };
    store.put(&put, &|_| true).unwrap().1
}

/// A watch of everything from `start` on.
fn everything(start: Option<i64>) -> WatchCreate {
    let span = Span::From(Bytes::new());
    let interest = Interest { span, no_put: false, no_delete: false, prev_kv: true };
    WatchCreate {
        by: Principal::Anonymous,
        id: None,
        interest,
        start: start.map(Revision),
        progress_notify: false,
    }
}

fn create(watchers: &mut Watchers, store: &Store, create: WatchCreate) {
    watchers.handle(Moment::ZERO, WatchInput::Create(STREAM, create), store);
}

/// Revisions and cost of each answer.
fn told(news: Vec<WatchNews>) -> Vec<(Vec<i64>, usize)> {
    let answer = |news| match news {
        WatchNews::Events { events, cost, .. } => {
            Some((events.iter().map(|event| event.kv.mod_revision.0).collect(), cost))
        }
        _ => None,
    };
    news.into_iter().filter_map(answer).collect()
}

/// Everything that was told, by a client that reads it all after each round; no round may tell more
/// than its share.
fn catch_up(watchers: &mut Watchers, store: &Store) -> Vec<(Vec<i64>, usize)> {
    let limits = WatchLimits::default();
    let mut all = Vec::new();
    loop {
        let more = watchers.catch_up(Moment::ZERO, store);
        let answers = told(watchers.take_news());
        let bytes = answers.iter().map(|(_, cost)| cost).sum();
        assert!(bytes <= limits.catch_up_bytes_max + limits.answer_bytes_max, "{bytes} in a round");
        watchers.handle(Moment::ZERO, WatchInput::Drained(STREAM, bytes), store);
        all.extend(answers);
        if !more {
            return all;
        }
    }
}

#[test]
fn watcher_gets_a_history_of_large_values_in_many_answers() {
    let mut store = Store::new();
    for _ in 0..64 {
        put(&mut store, "k", MIB);
    }
    for _ in 0..64 {
        put(&mut store, "k", 1);
    }
    let mut watchers = Watchers::new(WatchLimits::default());
    create(&mut watchers, &store, everything(Some(1)));
    let answers = catch_up(&mut watchers, &store);
    let revisions: Vec<i64> = answers.iter().flat_map(|(revisions, _)| revisions.clone()).collect();
    assert_eq!(revisions, (2..=129).collect::<Vec<_>>());
    // A value and the one before it, which is one revision: that is as small as it gets.
    let largest = answers.iter().map(|(_, cost)| *cost).max();
    assert!(largest <= Some(2 * MIB + 100), "{largest:?}");
    let (small, _) = answers.last().unwrap();
    assert_eq!(small.len(), 63, "what is small travels together");
}

#[test]
fn watchers_that_lag_share_a_round() {
    let mut store = Store::new();
    for _ in 0..8 {
        put(&mut store, "k", MIB / 2);
    }
    let mut watchers = Watchers::new(WatchLimits::default());
    for _ in 0..32 {
        create(&mut watchers, &store, everything(Some(1)));
    }
    let heard: usize = catch_up(&mut watchers, &store).iter().map(|(some, _)| some.len()).sum();
    assert_eq!(heard, 32 * 8);
}

#[test]
fn watcher_answers_are_split_between_revisions_only() {
    let mut store = Store::new();
    let keys: Vec<Bytes> = (0..8).map(|n| Bytes::from(format!("k{n}"))).collect();
    for key in &keys {
        put(&mut store, std::str::from_utf8(key).unwrap(), MIB);
    }
    let mut watchers = Watchers::new(WatchLimits::default());
    create(&mut watchers, &store, everything(None));
    watchers.take_news();
    // Small commands, but what was before goes along: three revisions, of 3, 1 and 4 events.
    let mut delete = |keys: &[Bytes]| store.delete_keys(keys).unwrap();
    let changes = [delete(&keys[..3]), delete(&keys[3..4]), delete(&keys[4..])];
    watchers.observe(Moment::ZERO, &changes, &store);
    let answers: Vec<_> = told(watchers.take_news()).into_iter().map(|(some, _)| some).collect();
    assert_eq!(answers, [vec![10, 10, 10], vec![11]], "the stream is full after these");
    watchers.handle(Moment::ZERO, WatchInput::Drained(STREAM, 5 * MIB), &store);
    let rest: Vec<_> = catch_up(&mut watchers, &store).into_iter().map(|(some, _)| some).collect();
    assert_eq!(rest, [vec![12; 4]], "and the rest is not lost");
}

/// Each removal must not look at all the others: a member does nothing else meanwhile, and loses its leadership.
#[test]
fn watchers_of_one_stream_are_cancelled_without_looking_at_each_other() {
    const WATCHERS: i64 = 100_000;
    let mut store = Store::default();
    put(&mut store, "k", 1);
    // Of one key, of a range each, and of the future.
    let one = |_| Span::One("k".into());
    let range = |n: i64| Span::Between(format!("a{n:06}").into(), "b".into());
    let kinds: [(&dyn Fn(i64) -> Span, _); 3] =
        [(&one, None), (&range, None), (&one, Some(1_000_000))];
    for (span, start) in kinds {
        let begun = std::time::Instant::now();
        let mut watchers = Watchers::new(WatchLimits::default());
        for n in 0..WATCHERS {
            let interest =
                Interest { span: span(n), no_put: false, no_delete: false, prev_kv: false };
            let start = start.map(Revision);
            let create_it = WatchCreate {
                by: Principal::Anonymous,
                id: Some(n),
                interest,
                start,
                progress_notify: true,
            };
            create(&mut watchers, &store, create_it);
        }
        for n in 0..WATCHERS {
            watchers.handle(Moment::ZERO, WatchInput::Progress(STREAM), &store);
            watchers.handle(Moment::ZERO, WatchInput::Cancel(STREAM, n), &store);
        }
        assert_eq!(watchers.counts(), (0, 0));
        assert_eq!(watchers.next_progress(), None);
        // It takes a tenth of a second; looking at all others for each is quadratic.
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }
}
