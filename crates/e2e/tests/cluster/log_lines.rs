//! What a member logs of the others, and of the raft leader.

use tenure_e2e::Cluster;

/// The line that says this, which is a warning and names that member by name and id.
async fn warned(cluster: &Cluster, at: usize, text: &str, about: Option<usize>) {
    let line = cluster.members[at].logs(text).await;
    assert!(line.contains("WARN"), "{line}");
    if let Some(other) = about {
        let name = format!("{} (", cluster.members[other].name);
        assert!(line.contains(&name), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn log_warns_of_lost_members_and_a_lost_majority_and_goes_on_to_say_so() {
    let mut cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let name = cluster.members[leader].name.clone();
    let id = cluster.id(leader).await;
    let called = format!("{name} ({id:x})");
    let others: Vec<usize> = (0..3).filter(|at| *at != leader).collect();
    let line = cluster.members[leader].logs("leading").await;
    assert!(line.contains(&called), "{line}");
    for at in &others {
        let line = cluster.members[*at].logs("following").await;
        assert!(line.contains(&called), "{line}");
    }
    for at in &others {
        cluster.members[*at].kill();
    }
    warned(&cluster, leader, "connection lost", None).await;
    for at in others {
        warned(&cluster, leader, "does not answer", None).await;
        let name = format!("{} (", cluster.members[at].name);
        let log = cluster.members[leader].log();
        let lost = |line: &&str| line.contains("connection lost") && line.contains(&name);
        assert!(log.lines().any(|line| lost(&line)), "{log}");
    }
    warned(&cluster, leader, "lost the majority", None).await;
    warned(&cluster, leader, "no raft leader for 2 s", None).await;
    warned(&cluster, leader, "no raft leader for 6 s", None).await;
}
