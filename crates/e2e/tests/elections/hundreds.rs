//! Hundreds wait in several elections while the worst happens: one leader each, growing tokens, no candidate forgotten.

use std::{
    fs,
    ops::ControlFlow,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tempfile::TempDir;
use tenure::{
    Engine, FencingToken,
    elector::{ElectorConfig, ElectorState, Ended, LeaderElector, Scope},
    fence::{Gate, GateLimits, Pass},
};
use tenure_e2e::{Caller, Cluster, Ctl, Member, Network, eventually_within};
use tokio::{sync::Semaphore, task::JoinSet};

const NAMES: [&str; 4] = ["scheduler", "reports", "shard/1", "shard/2"];
/// Candidates for each.
const EACH: usize = 50;
/// How long hundreds may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// One election, its candidates, and what became of them.
struct Office {
    name: &'static str,
    /// Checks the token of every write, as a service would.
    gate: Gate,
    /// As many leaders may end their tenure.
    leave: Semaphore,
    electors: Vec<LeaderElector>,
    /// In the order in which they began.
    tenures: Mutex<Vec<FencingToken>>,
    served: AtomicUsize,
}

impl Office {
    fn new(name: &'static str, engine: &Engine) -> Office {
        let elector =
            |_| LeaderElector::new(engine.clone(), ElectorConfig::new(name).unwrap()).unwrap();
        Office {
            name,
            gate: Gate::in_memory(GateLimits::default()),
            leave: Semaphore::new(0),
            electors: (0..EACH).map(elector).collect(),
            tenures: Mutex::default(),
            served: AtomicUsize::new(0),
        }
    }

    /// Leads until the leadership is lost, or until one candidate is to leave.
    async fn lead(&self, scope: Scope) -> ControlFlow<()> {
        let token = scope.token();
        if self.gate.raise_blocking(Pass::to(self.name, token)).is_err() {
            return ControlFlow::Continue(());
        }
        self.tenures.lock().unwrap().push(token);
        match scope.run(self.leave.acquire()).await {
            Ok(leaves) => leaves.unwrap().forget(),
            Err(_) => return ControlFlow::Continue(()),
        }
        self.served.fetch_add(1, Ordering::Relaxed);
        ControlFlow::Break(())
    }

    fn leaders(&self) -> Vec<FencingToken> {
        let token = |elector: &LeaderElector| match elector.state() {
            ElectorState::Held(token) => Some(token),
            _ => None,
        };
        self.electors.iter().filter_map(token).collect()
    }

    fn highest(&self) -> FencingToken {
        self.tenures.lock().unwrap().last().copied().unwrap()
    }
}

/// All elections, with all their candidates.
struct Town {
    offices: Vec<Arc<Office>>,
    candidates: JoinSet<Ended<()>>,
}

impl Town {
    async fn of(cluster: &Cluster) -> Town {
        let engine = Engine::tenure(&cluster.endpoints()).unwrap();
        let offices: Vec<_> = NAMES.map(|name| Arc::new(Office::new(name, &engine))).into();
        let mut candidates = JoinSet::new();
        for office in &offices {
            for elector in office.electors.clone() {
                let office = office.clone();
                candidates.spawn(async move {
                    elector.run(async |scope| office.lead(scope).await).await
                });
            }
        }
        let town = Town { offices, candidates };
        town.stand_in_line(cluster, EACH).await;
        town
    }

    async fn stand_in_line(&self, cluster: &Cluster, count: usize) {
        let looker = Caller::new(cluster.client());
        for office in &self.offices {
            eventually_within(PATIENCE, &format!("{count} wait for {}", office.name), async || {
                let found = looker.candidates(office.name).await.len();
                if found == count { Ok(()) } else { Err(found.to_string()) }
            })
            .await;
        }
    }

    /// In every election so many more leave, one after the other.
    async fn serve(&self, more: usize) {
        let goals = self.offices.iter().map(|office| {
            let goal = office.served.load(Ordering::Relaxed) + more;
            office.leave.add_permits(more);
            goal
        });
        for (office, goal) in self.offices.iter().zip(goals.collect::<Vec<_>>()) {
            eventually_within(PATIENCE, &format!("{goal} led {}", office.name), async || {
                let served = office.served.load(Ordering::Relaxed);
                if served >= goal { Ok(()) } else { Err(served.to_string()) }
            })
            .await;
        }
    }

    /// Waits until exactly one leads each.
    async fn one_each(&self) {
        for office in &self.offices {
            eventually_within(PATIENCE, &format!("one leads {}", office.name), async || {
                let leaders = office.leaders();
                if leaders.len() == 1 { Ok(()) } else { Err(format!("{leaders:?}")) }
            })
            .await;
        }
    }

    /// All candidates leave; none is left waiting, and later leaders had greater tokens.
    async fn everybody_leads(mut self, cluster: &Cluster) {
        let left = EACH - self.offices[0].served.load(Ordering::Relaxed);
        self.serve(left).await;
        while let Some(ended) = self.candidates.join_next().await {
            assert_eq!(ended.unwrap(), Ended::Done(()));
        }
        self.stand_in_line(cluster, 0).await;
        for office in &self.offices {
            let tenures = office.tenures.lock().unwrap();
            assert!(tenures.is_sorted_by(|a, b| a < b), "{}: {tenures:?}", office.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn candidates_by_hundreds_are_served_on_while_the_cluster_is_partitioned() {
    let network = Network::new(3);
    let cluster = network.cluster(&[]).await;
    let town = Town::of(&cluster).await;
    town.serve(5).await;
    let raft_leader = cluster.leader().await;
    network.isolate(raft_leader);
    town.serve(5).await;
    network.heal();
    // The leader sees one follower only; that one sees both.
    let raft_leader = cluster.leader().await;
    network.cut(raft_leader, cluster.other_than(raft_leader));
    town.serve(5).await;
    network.heal();
    town.one_each().await;
    town.everybody_leads(&cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn candidates_by_hundreds_begin_anew_when_a_backup_is_restored() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("backup.db");
    let mut cluster = Cluster::start(3).await;
    let town = Town::of(&cluster).await;
    town.serve(5).await;
    Ctl::ours(&cluster.members[0]).run(&["snapshot", "save", file.to_str().unwrap()]).ok();
    // What happens now is forgotten by the cluster, but not by the holders of the tokens.
    town.serve(5).await;
    town.one_each().await;
    let before: Vec<_> = town.offices.iter().map(|office| office.highest()).collect();
    cluster.members.iter_mut().for_each(Member::kill);
    for member in &mut cluster.members {
        fs::remove_dir_all(&member.data_dir).unwrap();
        let done = member.restore(&file);
        assert!(done.status.success(), "{done:?}");
        member.start();
    }
    cluster.ready().await;
    // Each has a leader of the new cluster, and one only.
    for (office, before) in town.offices.iter().zip(before) {
        eventually_within(PATIENCE, &format!("{} has a new leader", office.name), async || {
            let leaders = office.leaders();
            let is_new = matches!(&leaders[..], [one] if *one > before);
            if is_new { Ok(()) } else { Err(format!("{leaders:?} after {before}")) }
        })
        .await;
    }
    town.everybody_leads(&cluster).await;
}
