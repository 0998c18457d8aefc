//! Machines that come back: with settings that were rewritten meanwhile, or without their disk at their old address.

use std::fs;

use tenure_e2e::{Cluster, Ctl, Member, Network, Plan, eventually, pb};

use crate::membership::{capable, members, promote, put, started};

const EXISTING: [&str; 2] = ["--initial-cluster-state", "existing"];

fn with_state_existing(member: &mut Member) {
    member.spawn.flags.extend(EXISTING.map(str::to_owned));
}

/// Its machine is made anew: the same name and addresses, nothing on its disk.
fn wiped(member: &mut Member) {
    member.kill();
    fs::remove_dir_all(&member.data_dir).unwrap();
    with_state_existing(member);
}

/// Removes a member and adds another one with the same address; answers the ids of both.
async fn replaced(tool: &Ctl, member: &Member, old: u64, flags: &[&str]) -> u64 {
    let old = format!("{old:x}");
    eventually("the dead one is removed", async || {
        let said = tool.run(&["member", "remove", &old]);
        if said.code == Some(0) { Ok(()) } else { Err(said.err) }
    })
    .await;
    let urls = format!("--peer-urls={}", member.peer.url());
    let said = tool.run(&[&["member", "add", &member.name, &urls], flags].concat()).ok();
    let id = said.split_whitespace().nth(1).unwrap_or_else(|| panic!("{said}"));
    u64::from_str_radix(id, 16).unwrap_or_else(|_| panic!("{said}"))
}

/// kubespray, Ansible and Helm write down the present members of the cluster; etcd reads that at the first start only.
#[tokio::test(flavor = "multi_thread")]
async fn founders_start_again_with_a_list_that_was_rewritten() {
    let mut cluster = Cluster::start(3).await;
    capable(&cluster).await;
    let client = cluster.members[0].client();
    for n in 0..5 {
        client.kv().put(put(&format!("key/{n}"))).await.unwrap();
    }
    let tool = Ctl::ours(&cluster.members[0]);
    let fourth = cluster.add(&tool, &[]);
    started(&mut cluster, fourth).await;
    let grown = cluster.members[fourth].initial_cluster().to_owned();
    assert_eq!(grown.split(',').count(), 4);
    for state in ["existing", "new"] {
        for at in 0..3 {
            assert!(cluster.members[at].stop().await.success());
            cluster.members[at].set_initial_cluster(&grown);
            cluster.members[at].spawn.flags =
                ["--initial-cluster-state", state].map(str::to_owned).to_vec();
            cluster.members[at].start();
            cluster.members[at].ready().await;
            cluster.members[at].logs("--initial-cluster counts at the first start only").await;
        }
        cluster.same_everywhere().await;
        // There is nothing in memory to know it from.
        cluster.members.iter_mut().for_each(Member::kill);
        cluster.members.iter_mut().for_each(Member::start);
        cluster.ready().await;
        cluster.leader().await;
        assert_eq!(members(&cluster.client()).await.len(), 4);
        let all =
            pb::RangeRequest { key: "key/".into(), range_end: "key0".into(), ..Default::default() };
        assert_eq!(cluster.client().kv().range(all).await.unwrap().count, 5);
        cluster.same_everywhere().await;
    }
    let snapshots: Vec<_> = cluster.members[..3].iter().flat_map(|one| one.files("snap")).collect();
    assert!(snapshots.is_empty(), "one would tell who belongs to the cluster: {snapshots:?}");

    // With settings of another it is refused, as ever.
    let (first, second) = (cluster.members[0].data_dir.clone(), 1);
    assert!(cluster.members[0].stop().await.success());
    assert!(cluster.members[second].stop().await.success());
    cluster.members[second].data_dir = first;
    cluster.members[second].start();
    assert!(!cluster.members[second].wait_for_end().await.success());
    cluster.members[second].logs("use the settings it was made with, or another --data-dir").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_member_is_replaced_at_its_old_address() {
    let mut cluster = Cluster::start(3).await;
    capable(&cluster).await;
    let leader = cluster.leader().await;
    let dead = cluster.other_than(leader);
    let old = cluster.id(dead).await;
    cluster.members[leader].client().kv().put(put("before")).await.unwrap();
    wiped(&mut cluster.members[dead]);

    // It is not the one it was: that one's votes are lost with its disk.
    cluster.members[dead].start();
    assert!(!cluster.members[dead].wait_for_end().await.success());
    let log = cluster.members[dead].logs("has run before with another data directory").await;
    assert!(log.contains(&format!("tenure member remove {old:x}")), "{log}");

    let tool = Ctl::ours(&cluster.members[leader]);
    let new = replaced(&tool, &cluster.members[dead], old, &[]).await;
    assert_ne!(new, old);
    started(&mut cluster, dead).await;
    cluster.ready().await;
    assert_eq!(cluster.id(dead).await, new);
    cluster.same_everywhere().await;
    // It counts: one of the others is not needed.
    let third = (0..3).find(|at| ![leader, dead].contains(at)).unwrap();
    cluster.members[third].kill();
    cluster.members[dead].client().kv().put(put("after")).await.unwrap();
}

/// One that was cut off still names the member that was removed; one that stands still says nothing.
#[tokio::test(flavor = "multi_thread")]
async fn member_that_lags_behind_mistakes_no_member_for_the_removed_one() {
    let network = Network::new(5);
    let mut cluster = network.cluster(&[]).await;
    capable(&cluster).await;
    cluster.lead(0).await;
    let (lags, dead) = (3, 4);
    let old = cluster.id(dead).await;
    let everybody = cluster.members[0].initial_cluster().to_owned();
    eventually("all have told where their clients come", async || {
        let known = members(&cluster.members[lags].client()).await;
        let told = known.iter().all(|member| !member.client_ur_ls.is_empty());
        if told { Ok(()) } else { Err(format!("{known:?}")) }
    })
    .await;
    for other in 0..3 {
        network.cut(lags, other);
    }
    wiped(&mut cluster.members[dead]);
    let tool = Ctl::ours(&cluster.members[0]);
    let new = replaced(&tool, &cluster.members[dead], old, &["--learner"]).await;

    let named = |at: usize| everybody.split(',').nth(at).unwrap().to_owned();
    cluster.members[dead].set_initial_cluster(&[named(lags), named(dead)].join(","));
    cluster.members[dead].start();
    assert_eq!(cluster.members[dead].wait_for_end().await.code(), Some(1));
    cluster.members[dead].logs("has run before with another data directory").await;

    // Another one could tell, and stands still.
    let knows = 1;
    cluster.members[knows].pause();
    let both = [named(lags), named(knows), named(dead)].join(",");
    cluster.members[dead].set_initial_cluster(&both);
    cluster.members[dead].start();
    cluster.members[dead].logs("those that have not answered may know better").await;
    cluster.members[knows].resume();
    cluster.members[dead].ready().await;
    assert_eq!(cluster.id(dead).await, new);
    network.heal();
    cluster.ready().await;
    promote(&tool, new).await;
    cluster.same_everywhere().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_url_with_a_slash_at_its_end_is_the_same_address() {
    // One founder writes it so, the other not.
    let mut cluster = Cluster::prepare(3, Plan::default());
    let two: Vec<_> = cluster.members[..2].iter().map(|one| one.peer.url()).collect();
    for (at, slash) in [(0, ""), (1, "/")] {
        let founders = format!("n1={}{slash},n2={}{slash}", two[0], two[1]);
        cluster.members[at].set_initial_cluster(&founders);
        cluster.members[at].start();
    }
    cluster.ready().await;
    capable(&cluster).await;
    let tool = Ctl::ours(&cluster.members[0]);
    let urls = format!("--peer-urls={}/", cluster.members[2].peer.url());
    tool.run(&["member", "add", "n3", "--learner", &urls]).ok();
    with_state_existing(&mut cluster.members[2]);
    started(&mut cluster, 2).await;
    cluster.members[..2].iter_mut().for_each(Member::kill);
    cluster.members[..2].iter_mut().for_each(Member::start);
    cluster.ready().await;
}
