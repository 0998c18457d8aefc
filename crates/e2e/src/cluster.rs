//! Several members that belong together.

use std::{path::Path, time::Duration};

use tempfile::TempDir;
use tenure::grpc::{Client, ClientError, Endpoint, Options};

use crate::{Address, Ctl, Member, Spawn, eventually, pb, reserve};

/// What a cluster is to be like.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// How each member is started.
    pub spawn: Spawn,
    /// Where members listen, clients and peers; free loopback addresses if not given.
    pub addresses: Option<Vec<(Address, Address)>>,
}

impl Plan {
    /// A plan with more flags for every member.
    pub fn flags(flags: &[&str]) -> Plan {
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        Plan { spawn: Spawn { flags, ..Spawn::default() }, ..Plan::default() }
    }
}

/// A cluster of real processes.
#[derive(Debug)]
pub struct Cluster {
    /// The members, named n1, n2 …
    pub members: Vec<Member>,
    home: TempDir,
}

impl Cluster {
    /// Starts a cluster and waits until every member follows a raft leader.
    pub async fn start(count: usize) -> Cluster {
        Cluster::with(count, Plan::default()).await
    }

    /// Starts a cluster by plan and waits until every member follows a raft leader.
    pub async fn with(count: usize, plan: Plan) -> Cluster {
        let mut cluster = Cluster::prepare(count, plan);
        cluster.members.iter_mut().for_each(Member::start);
        cluster.ready().await;
        cluster
    }

    /// A cluster whose members are not started.
    pub fn prepare(count: usize, plan: Plan) -> Cluster {
        let home = TempDir::with_prefix("tenure-e2e-").expect("a temporary directory can be made");
        let addresses = plan.addresses.unwrap_or_else(|| {
            let free = reserve(2 * count);
            free.chunks(2).map(|pair| (pair[0], pair[1])).collect()
        });
        let named: Vec<_> = (1..=count).map(|n| format!("n{n}")).zip(addresses).collect();
        let initial: Vec<_> = named
            .iter()
            .map(|(name, (_, peer))| format!("{name}={}", plan.spawn.peer_url(*peer)))
            .collect();
        let initial = initial.join(",");
        let members = named.iter().map(|(name, (client, peer))| {
            let mut member = Member::new(name, home.path(), *client, *peer, &initial);
            member.spawn = plan.spawn.clone();
            member
        });
        Cluster { members: members.collect(), home }
    }

    /// Where the members' data and logs are.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Leaves data and logs where they are when the cluster is gone.
    pub fn keep(&mut self) {
        self.home.disable_cleanup(true);
    }

    /// Adds a member with a tool and prepares it as the tool says. It is not started.
    pub fn add(&mut self, tool: &Ctl, flags: &[&str]) -> usize {
        let [client, peer] = reserve(2)[..] else { unreachable!("two were asked for") };
        let name = format!("n{}", self.members.len() + 1);
        let urls = format!("--peer-urls={}", peer.url());
        let args = [&["member", "add", &name, &urls], flags].concat();
        let said = tool.run(&args).ok();
        let line = |name: &str| {
            let line = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("=\""));
            line.and_then(|line| line.strip_suffix('"')).unwrap_or_else(|| panic!("{said}"))
        };
        assert_eq!(line("ETCD_NAME"), name);
        let initial = line("ETCD_INITIAL_CLUSTER");
        let mut member = Member::new(&name, self.home.path(), client, peer, initial);
        member.spawn = self.members[0].spawn.clone();
        let state = line("ETCD_INITIAL_CLUSTER_STATE").to_owned();
        member.spawn.flags.extend(["--initial-cluster-state".to_owned(), state]);
        self.members.push(member);
        self.members.len() - 1
    }

    /// Waits until every member that runs follows a raft leader.
    pub async fn ready(&mut self) {
        for member in &mut self.members {
            if member.runs() {
                member.ready().await;
            }
        }
    }

    /// All client addresses, separated by commas.
    pub fn endpoints(&self) -> String {
        let all: Vec<_> = self.members.iter().map(|member| member.client.to_string()).collect();
        all.join(",")
    }

    /// A client that knows all members.
    pub fn client(&self) -> Client {
        self.client_with(self.members[0].spawn.options())
    }

    /// A client that knows all members and behaves as given.
    pub fn client_with(&self, options: Options) -> Client {
        Client::new(Endpoint::list(&self.endpoints()).expect("addresses"), options)
    }

    /// Which member is the raft leader, in the eyes of a majority of those that answer.
    pub async fn leader(&self) -> usize {
        let whole: Vec<usize> = (0..self.members.len()).collect();
        self.leader_among(&whole).await
    }

    /// Which of these members all of them follow.
    pub async fn leader_among(&self, members: &[usize]) -> usize {
        eventually("one raft leader", async || {
            let mut followed = Vec::new();
            for &at in members {
                let asked = tokio::time::timeout(Duration::from_secs(1), self.status(at)).await;
                if let Ok(Ok(status)) = asked {
                    let id = status.header.as_ref().map_or(0, |header| header.member_id);
                    followed.push((at, id, status.leader));
                }
            }
            let leads = followed.iter().find(|(_, id, leader)| id == leader);
            let Some((at, id, _)) = leads else { return Err(format!("{followed:?}")) };
            let followers = followed.iter().filter(|(_, _, leader)| leader == id).count();
            let enough = members.len() / 2 + 1;
            if followers >= enough { Ok(*at) } else { Err(format!("{followed:?}")) }
        })
        .await
    }

    /// Makes a member the raft leader.
    pub async fn lead(&self, at: usize) {
        let from = self.leader().await;
        if from != at {
            let request = pb::MoveLeaderRequest { target_id: self.id(at).await };
            let leader = self.members[from].client();
            leader.maintenance().move_leader(request).await.expect("the leader can be moved");
        }
        assert_eq!(self.leader().await, at);
    }

    /// What one member says of itself.
    pub async fn status(&self, at: usize) -> Result<pb::StatusResponse, ClientError> {
        self.members[at].client().maintenance().status().await
    }

    /// The id of a member.
    pub async fn id(&self, at: usize) -> u64 {
        let status = self.status(at).await.expect("the member answers");
        status.header.expect("a header").member_id
    }

    /// Some member that is not this one.
    pub fn other_than(&self, at: usize) -> usize {
        (at + 1) % self.members.len()
    }

    /// Waits until all members hold the same data, and answers its hash.
    pub async fn same_everywhere(&self) -> u32 {
        let clients: Vec<_> = self.members.iter().map(Member::client).collect();
        hash_everywhere(&clients).await
    }
}

/// Waits until all of these members have the same revision and the same hash.
pub async fn hash_everywhere(clients: &[Client]) -> u32 {
    eventually("the same hash everywhere", async || {
        let mut seen = Vec::new();
        for client in clients {
            let request = pb::HashKvRequest { revision: 0 };
            let hash = client.maintenance().hash_kv(request).await.map_err(|e| e.to_string())?;
            seen.push((hash.hash_revision, hash.compact_revision, hash.hash));
        }
        if seen.windows(2).all(|pair| pair[0] == pair[1]) {
            Ok(seen[0].2)
        } else {
            Err(format!("{seen:?}"))
        }
    })
    .await
}
