//! What operators and timers do to a store, under sessions that must not notice.

use std::time::Duration;

use tempfile::TempDir;
use tenure::{Engine, Session, SessionState};
use tenure_e2e::{Cluster, Ctl, pb};

const TTL: Duration = Duration::from_secs(1);
const SESSIONS: usize = 20;
const ROUNDS: usize = 5;
/// Keys written in a round, of a KiB each.
const KEYS: usize = 2000;

/// Compaction, defragmentation, hashes and backups, on every member, while sessions live that end after a second of
/// silence (etcd-backup-restore#1052, etcd#9222).
#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_a_second_outlive_compaction_defragmentation_hashes_and_backups() {
    let cluster = Cluster::start(3).await;
    let engine = Engine::tenure(&cluster.endpoints()).unwrap();
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(Session::open(&engine, TTL).await.unwrap());
    }
    let home = TempDir::new().unwrap();
    let (client, everybody) = (cluster.client(), Ctl::of(&cluster));
    for round in 0..ROUNDS {
        let mut revision = 0;
        for key in 0..KEYS {
            let (key, value) = (format!("key-{key}").into(), vec![b'x'; 1024].into());
            let put = client.kv().put(pb::PutRequest { key, value, ..Default::default() }).await;
            revision = put.unwrap().header.unwrap().revision;
        }
        everybody.run(&["compaction", "--physical", &revision.to_string()]).ok();
        assert_eq!(everybody.run(&["defrag"]).code, Some(0));
        everybody.run(&["endpoint", "hashkv"]).ok();
        for member in &cluster.members {
            let file = home.path().join(format!("{}-{round}.db", member.name));
            Ctl::at(member).run(&["snapshot", "save", file.to_str().unwrap()]).ok();
        }
        let lost = sessions.iter().filter(|session| session.state() != SessionState::Held).count();
        assert_eq!(lost, 0, "in round {round}");
    }
}
