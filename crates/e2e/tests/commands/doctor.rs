//! A cluster that is ill, and what the doctor says: every finding about members is provoked here.

use crate::patients::{elect, examine, has};
use tenure_e2e::{Cluster, Ctl, Etcd, Network, Plan, eventually, pb, tools};

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_nothing_in_a_healthy_cluster() {
    let cluster = Cluster::start(3).await;
    let _alice = elect(&cluster.endpoints(), "jobs", "alice").await;
    // One endpoint is enough to find the others.
    let at = cluster.members[1].client.to_string();
    let report = eventually("all is well", async || {
        let report = examine(&at, &[]);
        let well = report.code == Some(0) && report.json["well"] == true;
        if well { Ok(report) } else { Err(report.json.to_string()) }
    })
    .await;
    assert_eq!(report.kinds(), Vec::<String>::new());
    assert_eq!(report.json["members"].as_array().unwrap().len(), 3);
    let seen = &report.json["elections"][0];
    assert_eq!(seen["name"], "jobs");
    assert_eq!(seen["candidates"][0]["identity"], "alice");
    for member in ["n1", "n2", "n3"] {
        assert_eq!(seen["seen_by"][member]["token"], seen["candidates"][0]["token"]);
    }
    let said = Ctl::of(&cluster).with_program(tools::tenure()).run(&["doctor"]).ok();
    assert!(said.contains("agreed     by n1, n2, n3") && said.ends_with("all is well\n"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_names_members_out_of_reach_until_no_majority_is_left() {
    let mut cluster = Cluster::start(3).await;
    cluster.members[2].kill();
    let at = cluster.members[0].client.to_string();
    let report = has(&at, &[], "member_unreachable").await;
    assert_eq!((report.code, report.level("member_unreachable")), (Some(1), "warning".into()));
    assert_eq!(report.finding("member_unreachable")["about"], "n3");
    assert!(report.finding("member_unreachable")["next"].as_str().unwrap().contains("one more"));

    cluster.members[1].kill();
    let report = has(&at, &[], "no_quorum").await;
    assert_eq!(report.code, Some(1));
    assert_eq!(report.json["findings"][0]["level"], "critical", "the worst comes first");
    assert_eq!(report.json["well"], false);

    cluster.members[0].kill();
    assert_eq!(examine(&at, &[]).code, Some(69));
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_tells_endpoints_of_two_clusters_apart() {
    let (one, other) = (Cluster::start(1).await, Cluster::start(1).await);
    let both = format!("{},{}", one.endpoints(), other.endpoints());
    let report = has(&both, &[], "different_clusters").await;
    assert_eq!((report.code, report.level("different_clusters")), (Some(1), "critical".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_a_full_store() {
    let cluster = Cluster::with(1, Plan::flags(&["--quota-backend-bytes", "1048576"])).await;
    let ctl = Ctl::of(&cluster).with_program(tools::tenure());
    let value = "x".repeat(100_000);
    let full = (0..50).any(|n| ctl.run_with(&["put", &format!("big{n}")], &value).code != Some(0));
    assert!(full);
    let report = has(&cluster.endpoints(), &[], "no_space").await;
    assert_eq!((report.code, report.level("no_space")), (Some(1), "critical".into()));
    let alarms = report.kinds().iter().filter(|kind| *kind == "no_space").count();
    assert_eq!(alarms, 1, "the cluster and the member say the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_data_that_differs() {
    let cluster = Cluster::start(3).await;
    let raise = pb::AlarmRequest {
        action: pb::alarm_request::AlarmAction::Activate as i32,
        member_id: cluster.id(1).await,
        alarm: pb::AlarmType::Corrupt as i32,
    };
    let client = cluster.client();
    eventually("the cluster knows alarms", async || {
        let raised = client.maintenance().alarm(raise).await;
        raised.map(|_| ()).map_err(|error| error.to_string())
    })
    .await;
    let report = has(&cluster.endpoints(), &[], "corrupt").await;
    assert_eq!((report.code, report.level("corrupt")), (Some(1), "critical".into()));
    assert!(report.finding("corrupt")["text"].as_str().unwrap().contains("n2"));
}

/// Clocks decide nothing, so this is only worth knowing.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_notes_wall_clocks_that_are_apart() {
    let mut cluster = Cluster::prepare(3, Plan::default());
    cluster.members[1].spawn.env = crate::patients::clock_ahead("+90s");
    cluster.members.iter_mut().for_each(tenure_e2e::Member::start);
    cluster.ready().await;
    let report = has(&cluster.endpoints(), &[], "clocks_apart").await;
    assert_eq!((report.code, report.level("clocks_apart")), (Some(0), "note".into()));
    let text = report.finding("clocks_apart")["text"].as_str().unwrap().to_owned();
    assert!(text.contains("n2"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_examines_a_real_etcd_as_far_as_it_goes() {
    let etcd = Etcd::start(1).await;
    let report = has(&etcd.endpoints(), &["jobs"], "not_tenure").await;
    assert_eq!(report.code, Some(0));
    assert_eq!(report.json["elections"][0]["first"]["token"], 0);
}

/// One member is cut off and keeps an old state; then all are, and the state is unknown.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_a_member_that_is_cut_off() {
    let network = Network::new(3);
    let cluster = network.cluster(&[]).await;
    let all = cluster.endpoints();
    let alice = elect(&all, "jobs", "alice").await;
    let _bob = elect(&all, "jobs", "bob").await;
    let alone = cluster.other_than(cluster.leader().await);
    let name = cluster.members[alone].name.clone();
    // It knows of alice before it is cut off.
    cluster.same_everywhere().await;
    network.isolate(alone);
    let others: Vec<_> = (0..3).filter(|at| *at != alone).collect();
    let majority: Vec<_> =
        others.iter().map(|at| cluster.members[*at].client.to_string()).collect();
    drop(alice);
    let ctl = Ctl::to(&majority.join(",")).with_program(tools::tenure());
    eventually("bob leads", async || {
        let said = ctl.run(&["leader", "jobs"]).out;
        if said.starts_with("bob") { Ok(()) } else { Err(said) }
    })
    .await;

    let report = has(&all, &[], "stale_member").await;
    assert_eq!(report.code, Some(1));
    let text = report.finding("stale_member")["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with(&name), "{text}");
    let report = has(&all, &[], "member_cut_off").await;
    assert_eq!(report.finding("member_cut_off")["about"], name);

    let client = cluster.members[others[0]].client();
    for n in 0..1100 {
        let put = pb::PutRequest { key: format!("k{n}").into(), ..Default::default() };
        client.kv().put(put).await.unwrap();
    }
    let report = has(&all, &[], "member_lags").await;
    assert_eq!(report.finding("member_lags")["about"], name);

    // Clients reach all members, members reach no other member.
    network.isolate(others[0]);
    let report = has(&all, &["jobs"], "no_raft_leader").await;
    assert_eq!(report.level("no_agreement"), "critical");
    assert_eq!(report.level("undecided"), "warning");
    network.heal();
    has_not(&all, "member_cut_off").await;
}

async fn has_not(endpoints: &str, kind: &str) {
    eventually(&format!("no {kind}"), async || {
        let report = examine(endpoints, &[]);
        let kinds = report.kinds();
        if kinds.iter().any(|found| found == kind) { Err(format!("{kinds:?}")) } else { Ok(()) }
    })
    .await;
}
