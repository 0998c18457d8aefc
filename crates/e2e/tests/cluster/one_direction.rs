//! One direction of the connections between live members breaks.

use tenure_e2e::{Cluster, Ctl, eventually, tools};

use crate::membership::capable;

/// How often a member has logged that it can send to this one.
fn connections(cluster: &Cluster, at: usize, to: u64) -> usize {
    let log = cluster.members[at].log();
    let to = format!("{to:x}");
    log.lines().filter(|line| line.contains("connected") && line.contains(&to)).count()
}

/// The followers' connections to the raft leader are reset; its own to them stand. Everything serves on, and
/// a raft leader that takes them for dead from then on refuses every change of members.
#[tokio::test(flavor = "multi_thread")]
async fn membership_changes_work_after_one_direction_was_reset() {
    tools::must_be_root("only root may end a connection of others");
    let mut cluster = Cluster::start(3).await;
    capable(&cluster).await;
    let leader = cluster.leader().await;
    let leader_id = cluster.id(leader).await;
    let followers: Vec<usize> = (0..3).filter(|at| *at != leader).collect();
    let before: Vec<usize> =
        followers.iter().map(|at| connections(&cluster, *at, leader_id)).collect();
    let peer = cluster.members[leader].peer;
    let (to, port) = (peer.ip.to_string(), format!(":{}", peer.port));
    let ss = tools::system("ss", "iproute2");
    tools::run(&ss, &["-K", "-t", "dst", &to, "and", "dport", "=", &port]);
    for (at, before) in followers.iter().zip(before) {
        eventually("the follower has called again", async || {
            let now = connections(&cluster, *at, leader_id);
            if now > before { Ok(()) } else { Err(format!("{now} connections")) }
        })
        .await;
    }
    assert_eq!(cluster.leader().await, leader, "the raft leader's own connections stood");

    let tool = Ctl::ours(&cluster.members[leader]);
    let added = cluster.add(&tool, &[]);
    cluster.members[added].start();
    cluster.members[added].ready().await;
    let dead = followers[0];
    let id = cluster.id(dead).await;
    cluster.members[dead].kill();
    let said = tool.run(&["member", "remove", &format!("{id:x}")]);
    assert!(said.ok().contains("removed from cluster"));
}
