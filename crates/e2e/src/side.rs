//! The same story on a real etcd and on us.

use tenure::grpc::{Client, Endpoint, Options};

use crate::{Caller, Cluster, Ctl, Etcd};

/// One of the two servers that a story is played on.
#[derive(Debug)]
pub enum Side {
    /// etcd 3.5.1.
    Etcd(Etcd),
    /// Us.
    Tenure(Cluster),
}

impl Side {
    /// All client addresses, separated by commas.
    pub fn endpoints(&self) -> String {
        match self {
            Side::Etcd(etcd) => etcd.endpoints(),
            Side::Tenure(cluster) => cluster.endpoints(),
        }
    }

    /// `host:port` of one member.
    pub fn address(&self, at: usize) -> String {
        match self {
            Side::Etcd(etcd) => etcd.client(at).to_string(),
            Side::Tenure(cluster) => cluster.members[at].client.to_string(),
        }
    }

    /// etcdctl for it.
    pub fn ctl(&self) -> Ctl {
        Ctl::to(&self.endpoints())
    }

    /// A caller with a connection of its own to the first member.
    pub fn caller(&self) -> Caller {
        self.caller_at(0)
    }

    /// A caller with a connection of its own to one member.
    pub fn caller_at(&self, at: usize) -> Caller {
        let endpoint = Endpoint::list(&self.address(at)).expect("an address");
        Caller::new(Client::new(endpoint, Options::default()))
    }

    /// A client that knows all members.
    pub fn client(&self) -> Client {
        Client::new(Endpoint::list(&self.endpoints()).expect("addresses"), Options::default())
    }

    /// Which member is the raft leader, in its own eyes and those of the others.
    pub async fn raft_leader(&self) -> usize {
        match self {
            Side::Tenure(cluster) => cluster.leader().await,
            Side::Etcd(_) => {
                crate::eventually("one raft leader", async || {
                    let client = self.client();
                    let mut seen = Vec::new();
                    for (_, member) in client.each_member() {
                        let status = member.maintenance().status().await;
                        let status = status.map_err(|error| error.to_string())?;
                        seen.push((status.header.map_or(0, |h| h.member_id), status.leader));
                    }
                    let leader = seen.iter().position(|(id, leader)| id == leader);
                    let agreed = seen.windows(2).all(|pair| pair[0].1 == pair[1].1);
                    leader.filter(|_| agreed).ok_or_else(|| format!("{seen:?}"))
                })
                .await
            }
        }
    }

    /// kill -9 of one member.
    pub fn kill(&mut self, at: usize) {
        match self {
            Side::Etcd(etcd) => etcd.kill(at),
            Side::Tenure(cluster) => cluster.members[at].kill(),
        }
    }

    /// SIGSTOP to one member.
    pub fn pause(&self, at: usize) {
        match self {
            Side::Etcd(etcd) => etcd.pause(at),
            Side::Tenure(cluster) => cluster.members[at].pause(),
        }
    }

    /// SIGCONT to one member.
    pub fn resume(&self, at: usize) {
        match self {
            Side::Etcd(etcd) => etcd.resume(at),
            Side::Tenure(cluster) => cluster.members[at].resume(),
        }
    }
}
