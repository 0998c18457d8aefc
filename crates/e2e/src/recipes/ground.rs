//! A server, and an engine of the library on it.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tenure::grpc::{Client, Endpoint, Options};
use tenure::{Engine, Session};

use crate::{Cluster, Ctl, eventually, mvccpb, pb};

/// The time to live of sessions that nothing happens to.
pub const TTL: Duration = Duration::from_secs(10);

/// How long something may take that is not to take long.
const SOON: Duration = Duration::from_secs(8);

/// A server, and an engine of the library on it.
#[derive(Debug)]
pub struct Ground {
    /// The engine.
    pub engine: Engine,
    server: Server,
}

#[derive(Debug)]
enum Server {
    Etcd(Ctl),
    Tenure(Box<Cluster>),
}

impl Ground {
    /// The recipe over etcd's API, on a real etcd 3.5.1.
    pub async fn etcd_on_etcd() -> Ground {
        let etcd = Ctl::with_real_etcd().await;
        let engine = Engine::etcd(etcd.endpoints()).expect("an address");
        Ground { engine, server: Server::Etcd(etcd) }
    }

    /// The recipe over etcd's API, on tenure.
    pub async fn etcd_on_tenure() -> Ground {
        let cluster = Cluster::start(1).await;
        let engine = Engine::etcd(&cluster.endpoints()).expect("an address");
        Ground { engine, server: Server::Tenure(Box::new(cluster)) }
    }

    /// tenure's own means.
    pub async fn native_on_tenure() -> Ground {
        let cluster = Cluster::start(1).await;
        let engine = Engine::tenure(&cluster.endpoints()).expect("an address");
        Ground { engine, server: Server::Tenure(Box::new(cluster)) }
    }

    /// Where the server is.
    pub fn endpoints(&self) -> String {
        match &self.server {
            Server::Etcd(etcd) => etcd.endpoints().to_owned(),
            Server::Tenure(cluster) => cluster.endpoints(),
        }
    }

    /// A session with the usual time to live.
    pub async fn session(&self) -> Session {
        self.session_of(TTL).await
    }

    /// A session with this time to live.
    pub async fn session_of(&self, ttl: Duration) -> Session {
        Session::open(&self.engine, ttl).await.expect("a session")
    }

    /// A plain client of the same server.
    pub fn client(&self) -> Client {
        Client::new(Endpoint::list(&self.endpoints()).expect("addresses"), Options::default())
    }

    /// etcdctl for the same server.
    pub fn etcdctl(&self) -> Ctl {
        Ctl::to(&self.endpoints())
    }

    /// The keys of an election, oldest first.
    pub async fn keys(&self, name: &str) -> Vec<mvccpb::KeyValue> {
        let request = pb::RangeRequest {
            key: format!("{name}/").into(),
            range_end: format!("{name}0").into(),
            sort_target: pb::range_request::SortTarget::Create as i32,
            ..Default::default()
        };
        self.client().kv().range(request).await.expect("keys").kvs
    }

    /// Waits until there are so many candidates, and answers their keys.
    pub async fn has_candidates(&self, name: &str, count: usize) -> Vec<mvccpb::KeyValue> {
        eventually(&format!("{count} candidates for {name}"), async || {
            let keys = self.keys(name).await;
            if keys.len() == count { Ok(keys) } else { Err(format!("{keys:?}")) }
        })
        .await
    }

    /// Ends a session from outside.
    pub async fn revoke(&self, session: &Session) {
        self.client().lease().revoke(session.id().0).await.expect("revoked");
    }

    /// Stops the server's process: it neither runs nor dies.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it run again.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = match &self.server {
            Server::Etcd(etcd) => etcd.etcd_pid().expect("a real etcd runs"),
            Server::Tenure(cluster) => cluster.members[0].pid(),
        };
        let pid = Pid::from_raw(pid as i32).expect("a process id is not 0");
        kill_process(pid, signal).expect("our own child can be signalled");
    }
}

/// Fails if it is not done soon.
pub async fn bounded<T>(what: &str, done: impl Future<Output = T>) -> T {
    match tokio::time::timeout(SOON, done).await {
        Ok(done) => done,
        Err(_) => panic!("{what}: not within {SOON:?}"),
    }
}

/// Fails if it is not done before a session of the usual time to live could have renewed: so it was
/// told, not found out by asking.
pub async fn at_once<T>(what: &str, done: impl Future<Output = T>) -> T {
    match tokio::time::timeout(TTL / 4, done).await {
        Ok(done) => done,
        Err(_) => panic!("{what}: not at once"),
    }
}
