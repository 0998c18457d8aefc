//! Machines that come back with settings that were rewritten meanwhile.

use tenure_e2e::{Cluster, Ctl, Member, pb};

use crate::membership::{capable, members, put, started};

/// kubespray, Ansible and Helm write down who belongs to the cluster now; etcd reads that at the first start only.
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
