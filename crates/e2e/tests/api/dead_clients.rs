//! Clients that are gone without a word: their machine lost its power, or their process stands still.
//!
//! A client in a network namespace of its own can be cut off while the test goes on asking the member.

use std::time::Duration;

use rustix::process::Signal;
use tenure_e2e::{
    Address, Caller, Cluster, Network, Plan, Scrape, Supervised, eventually, eventually_within,
    tools,
};
use tokio::{io::AsyncReadExt, net::TcpStream};

/// Where the member is, and where its clients are.
const MEMBER: usize = 0;
const CLIENTS: usize = 1;
/// How long the kernel may take: ten seconds until it asks, and the time to answer.
const NOTICED: Duration = Duration::from_secs(40);
const WATCHERS: &str = "etcd_debugging_mvcc_watcher_total";

/// Connections that stand between the member and a client's machine, as the member's kernel sees them.
fn connections(network: &Network) -> usize {
    const ESTABLISHED: &str = "01";
    let inside = network.inside(MEMBER);
    let args: Vec<&str> = inside[1..].iter().map(|arg| arg.to_str().unwrap()).collect();
    let table = tools::run(inside[0].as_ref(), &[&args[..], &["cat", "/proc/net/tcp"]].concat());
    // The kernel writes an address as one word of four bytes, in its own byte order.
    let client = format!("{:08X}:", u32::from_ne_bytes(network.ip(CLIENTS).octets()));
    let stands = |line: &&str| {
        let words: Vec<_> = line.split_whitespace().collect();
        words[2].starts_with(&client) && words[3] == ESTABLISHED
    };
    table.lines().skip(1).filter(stands).count()
}

async fn watchers(member: Address) -> f64 {
    Scrape::of(&member.to_string()).await.unwrap().total(WATCHERS).unwrap()
}

/// A leader with fast release and a watcher on a machine of their own.
struct Clients {
    leader: Supervised,
    watcher: Supervised,
}

impl Clients {
    async fn start(network: &Network, cluster: &Cluster) -> Clients {
        let start = |words: &[&str]| {
            Supervised::start_behind(&network.inside(CLIENTS), &cluster.endpoints(), words)
        };
        let leader = start(&["elect", "office", "me", "--ttl", "60s", "--fast-release"]);
        let watcher = start(&["watch", "something"]);
        let member = cluster.members[MEMBER].client;
        eventually("one leads and one watches", async || {
            let leads = Caller::new(cluster.client()).leader("office").await;
            leads.map_err(|status| status.to_string())?;
            if watchers(member).await == 1.0 { Ok(()) } else { Err("nobody watches".to_owned()) }
        })
        .await;
        assert!(connections(network) >= 2);
        Clients { leader, watcher }
    }

    fn signal(&self, signal: Signal) {
        self.leader.signal(signal);
        self.watcher.signal(signal);
    }
}

/// The member has let go of all connections from the clients' machine, and of no session: a connection that ended for
/// silence does not say that a process has.
async fn are_let_go_but_not_released(network: &Network, cluster: &Cluster) {
    let member = cluster.members[MEMBER].client;
    eventually_within(NOTICED, "dead connections are noticed", async || {
        let (left, watching) = (connections(network), watchers(member).await);
        if left == 0 && watching == 0.0 { Ok(()) } else { Err(format!("{left} {watching}")) }
    })
    .await;
    let sessions = cluster.client().sessions().list().await.unwrap().sessions;
    assert!(sessions.len() == 1 && sessions[0].fast_release, "{sessions:?}");
    let leads = Caller::new(cluster.client()).leader("office").await.unwrap();
    assert_eq!(leads.kv.unwrap().value, "me");
}

#[tokio::test(flavor = "multi_thread")]
async fn machine_that_is_gone_is_noticed_by_the_kernel_and_its_session_lives_for_its_time() {
    let network = Network::new(2);
    // Without pings.
    let flags = ["--grpc-keepalive-interval=0", "--grpc-keepalive-timeout=2s"];
    let cluster = network.cluster_of(1, &flags).await;
    let _clients = Clients::start(&network, &cluster).await;
    network.cut(MEMBER, CLIENTS);
    are_let_go_but_not_released(&network, &cluster).await;
}

/// Its kernel goes on acknowledging everything.
#[tokio::test(flavor = "multi_thread")]
async fn process_that_stands_still_is_noticed_by_pings_and_its_session_lives_for_its_time() {
    let network = Network::new(2);
    let flags = ["--grpc-keepalive-interval=1s", "--grpc-keepalive-timeout=3s"];
    let cluster = network.cluster_of(1, &flags).await;
    let clients = Clients::start(&network, &cluster).await;
    clients.signal(Signal::STOP);
    are_let_go_but_not_released(&network, &cluster).await;
    clients.signal(Signal::CONT);
    let member = cluster.members[MEMBER].client;
    eventually("the watcher comes back", async || {
        if watchers(member).await == 1.0 { Ok(()) } else { Err("nobody watches".to_owned()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_that_says_nothing_is_closed() {
    let plan = Plan::flags(&["--grpc-keepalive-timeout=1s"]);
    let cluster = Cluster::with(1, plan).await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(cluster.members[0].client.to_string()).await.unwrap());
    }
    for mut connection in silent {
        let mut nothing = [0];
        let heard = tokio::time::timeout(NOTICED, connection.read(&mut nothing)).await;
        assert_eq!(heard.expect("it is hung up").unwrap(), 0);
    }
}
