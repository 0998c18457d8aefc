//! What goes wrong with others' leases and stores, on a real etcd 3.5.1 and on us.
//!
//! What is to be seen on each is in `tenure_e2e::faults`, by the name of the test.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use tempfile::TempDir;
use tenure_e2e::{
    Cluster, Etcd, Plan, Side, eventually,
    faults::{on_both, on_so_many},
    pb, tools,
};

const TTL: i64 = 600;

#[tokio::test(flavor = "multi_thread")]
async fn a_new_raft_leader_does_not_start_leases_anew() {
    on_so_many("a_new_raft_leader_does_not_start_leases_anew", 3, async |side: &mut Side| {
        let caller = side.caller();
        let lease = caller.lease(TTL).await;
        eventually("the lease is older", async || {
            let left = caller.seconds_left(lease).await;
            if left <= TTL - 3 { Ok(()) } else { Err(left.to_string()) }
        })
        .await;
        let from = side.raft_leader().await;
        let to = side.caller_at((from + 1) % 3);
        let status = to.client().maintenance().status().await.unwrap();
        let to = format!("{:x}", status.header.unwrap().member_id);
        side.ctl().run(&["move-leader", &to]).ok();
        let leads = side.raft_leader().await;
        assert_ne!(leads, from);
        match side.caller_at(leads).seconds_left(lease).await {
            left if left <= TTL - 3 => "the lease goes on where it was".to_owned(),
            _ => "the lease has its whole time again".to_owned(),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_a_second_is_one() {
    on_both("a_lease_of_a_second_is_one", async |side: &mut Side| {
        let grant = pb::LeaseGrantRequest { ttl: 1, id: 0 };
        format!("{} s", side.client().lease().grant(grant).await.unwrap().ttl)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_still_elects() {
    on_both("a_full_store_still_elects", async |side: &mut Side| {
        let caller = side.caller();
        let (first, second) = (caller.lease(2).await, caller.lease(TTL).await);
        caller.elected("office", first, "first").await;
        let status = caller.client().maintenance().status().await.unwrap();
        let raise = pb::AlarmRequest {
            action: pb::alarm_request::AlarmAction::Activate as i32,
            member_id: status.header.unwrap().member_id,
            alarm: pb::AlarmType::Nospace as i32,
        };
        eventually("the alarm is raised", async || {
            caller.client().maintenance().alarm(raise).await.map_err(|error| error.to_string())
        })
        .await;
        // Nobody renews the first leader's lease.
        caller.in_line("office", 0).await;
        let came = match caller.campaign("office", second, "second").answer().await {
            Ok(_) => "elected".to_owned(),
            Err(status) => format!("refused: {}", status.message()),
        };
        format!("the old leader's lease ended; {came}")
    })
    .await;
}

/// What a side becomes when its backup is restored: another cluster of the same kind.
async fn restored(side: &Side, file: &str) -> Side {
    match side {
        Side::Etcd(_) => {
            let mut etcd = Etcd::prepare(1);
            etcd.restore(0, file);
            etcd.start_member(0);
            etcd.healthy().await;
            Side::Etcd(etcd)
        }
        Side::Tenure(_) => {
            let mut cluster = Cluster::prepare(1, Plan::default());
            let member = &mut cluster.members[0];
            let done = Command::new(tools::tenure())
                .args(["snapshot", "restore", file, "--name", &member.name, "--data-dir"])
                .arg(&member.data_dir)
                .args(["--initial-cluster", member.initial_cluster()])
                .args(["--initial-advertise-peer-urls", &member.peer.url()])
                .output()
                .unwrap();
            assert!(done.status.success(), "{done:?}");
            member.start();
            cluster.ready().await;
            Side::Tenure(cluster)
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_cluster_repeats_no_token() {
    on_both("a_restored_cluster_repeats_no_token", async |side: &mut Side| {
        let home = TempDir::new().unwrap();
        let file = home.path().join("backup.db").to_str().unwrap().to_owned();
        let caller = side.caller();
        tenure_e2e::Ctl::to(&side.address(0)).run(&["snapshot", "save", &file]).ok();
        let lease = caller.lease(TTL).await;
        let mut given_out = 0;
        for _ in 0..5 {
            let leader = caller.elected("office", lease, "before").await;
            assert!(leader.rev > given_out);
            given_out = leader.rev;
            caller.resign(leader).await.unwrap();
        }
        let after = restored(side, &file).await;
        let caller = after.caller();
        let leader = caller.elected("office", caller.lease(TTL).await, "after").await;
        match leader.rev > given_out {
            true => "a token larger than all before".to_owned(),
            false => "a token that an earlier holder had".to_owned(),
        }
    })
    .await;
}
