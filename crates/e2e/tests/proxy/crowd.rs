//! `tenure fence` in a crowd: many clients with tokens new and old, which hang up whenever they like. The
//! service notes whether an older token ever works beside a newer one, or after it.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicUsize, Ordering},
};

use tempfile::TempDir;
use tenure_e2e::{Fence, Upstream};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const CLIENTS: u64 = 12;
const REQUESTS: u64 = 60;

/// Numbers that look like chance, the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

/// Sends a request, or half of one, and hangs up at once.
async fn hang_up(fence: &Fence, token: i64, body: &str) {
    let head = format!(
        "PUT /judge HTTP/1.1\r\nHost: h\r\nFencing-Token: {token}\r\nContent-Length: 4\r\n\r\n{body}"
    );
    let mut stream = TcpStream::connect(&fence.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_lets_no_older_write_meet_a_newer_one() {
    let (upstream, home) = (Upstream::start().await, TempDir::new().unwrap());
    let state = home.path().join("gate");
    let flags = ["--state", state.to_str().unwrap(), "--no-cluster", "--threads", "4"];
    let fence = Fence::start(&[&["--upstream", &upstream.url][..], &flags].concat()).await;
    let (fence, newest) = (Arc::new(fence), Arc::new(AtomicI64::new(10)));
    let answers = Arc::new([const { AtomicUsize::new(0) }; 2]);
    let clients = (0..CLIENTS).map(|number| {
        let (fence, newest) = (Arc::clone(&fence), Arc::clone(&newest));
        let answers = Arc::clone(&answers);
        tokio::spawn(async move {
            let mut chance = Chance(number);
            for _ in 0..REQUESTS {
                let token = match chance.below(8) {
                    0 => newest.fetch_add(1, Ordering::Relaxed) + 1,
                    1 | 2 => newest.load(Ordering::Relaxed) - chance.below(3) as i64,
                    _ => newest.load(Ordering::Relaxed),
                };
                match chance.below(6) {
                    0 => hang_up(&fence, token, "body").await,
                    1 => hang_up(&fence, token, "bo").await,
                    _ => match fence.put("/judge", token, "body").await.status {
                        200 => drop(answers[0].fetch_add(1, Ordering::Relaxed)),
                        409 => drop(answers[1].fetch_add(1, Ordering::Relaxed)),
                        other => panic!("{other}"),
                    },
                }
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    let [admitted, stale] = [&answers[0], &answers[1]].map(|count| count.load(Ordering::Relaxed));
    let (done, wrong) = upstream.judged();
    assert_eq!(wrong, Vec::<String>::new(), "after {done} requests");
    assert!(admitted > 100 && stale > 20 && done >= admitted, "{admitted} {stale} {done}");
}
