//! Members come and go while the cluster serves.

use std::time::Duration;

use tenure::grpc::{Client, Code, Endpoint, Options, stubs};
use tenure_e2e::{Cluster, Ctl, Load, Plan, eventually, hash_everywhere, pb, reserve, tools};

pub(crate) async fn members(client: &Client) -> Vec<pb::Member> {
    eventually("a list of members", async || {
        let request = pb::MemberListRequest { linearizable: true };
        let list = client.cluster().member_list(request).await.map_err(|e| e.to_string())?;
        Ok(list.members)
    })
    .await
}

async fn id_of(client: &Client, name: &str) -> u64 {
    let members = members(client).await;
    members.iter().find(|one| one.name == name).unwrap_or_else(|| panic!("{members:?}")).id
}

/// Commands of version 2 work as soon as every member has said that it knows them.
pub(crate) async fn capable(cluster: &Cluster) {
    eventually("members can be changed", async || {
        let request = pb::MemberRemoveRequest { id: 1 };
        match cluster.members[0].client().cluster().member_remove(request).await {
            Err(error) if error.to_string().contains("member not found") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

pub(crate) fn put(key: &str) -> pb::PutRequest {
    pb::PutRequest { key: key.to_owned().into(), ..Default::default() }
}

/// Tries until it is done: a learner is in sync a moment after it has caught up.
pub(crate) async fn promote(tool: &Ctl, id: u64) {
    eventually("the learner is promoted", async || {
        let said = tool.run(&["member", "promote", &format!("{id:x}")]);
        if said.code == Some(0) { Ok(()) } else { Err(said.err) }
    })
    .await;
}

async fn all_vote(cluster: &Cluster) {
    eventually("all members vote", async || {
        let list = members(&cluster.members[0].client()).await;
        if list.iter().any(|member| member.is_learner) { Err(format!("{list:?}")) } else { Ok(()) }
    })
    .await;
}

pub(crate) async fn started(cluster: &mut Cluster, at: usize) {
    cluster.members[at].start();
    cluster.members[at].logs("caught up with the raft leader").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_grows_from_one_to_five_under_load_and_shrinks_again() {
    let mut cluster = Cluster::start(1).await;
    capable(&cluster).await;
    let clients = (0..4).map(|_| cluster.members[0].client()).collect();
    let load = Load::start("load", clients);
    load.progress(50).await;
    let tools = [Ctl::ours(&cluster.members[0]), Ctl::at(&cluster.members[0])];
    for (number, tool) in [(1, &tools[0]), (2, &tools[1]), (3, &tools[0]), (4, &tools[1])] {
        let learner = number == 4;
        let at = cluster.add(tool, if learner { &["--learner"] } else { &[] });
        started(&mut cluster, at).await;
        if learner {
            let id = cluster.id(at).await;
            promote(tool, id).await;
        }
        // The second one, too, though it is not promoted by hand.
        all_vote(&cluster).await;
        load.progress(50).await;
    }
    assert_eq!(members(&cluster.members[0].client()).await.len(), 5);
    let record = load.stop().await;
    record.assert_no_failure();
    record.check(&cluster.client(), "load").await;
    cluster.same_everywhere().await;

    // What is agreed on survives the loss of every process, in founders and in those that joined.
    for member in &mut cluster.members {
        member.kill();
    }
    for member in &mut cluster.members {
        member.start();
    }
    cluster.ready().await;
    record.check(&cluster.client(), "load").await;
    assert_eq!(members(&cluster.client()).await.len(), 5);

    let load = Load::start("shrink", vec![cluster.members[4].client()]);
    for (at, tool) in [(1, Ctl::ours(&cluster.members[4])), (0, Ctl::at(&cluster.members[4]))] {
        for at in [at, at + 2] {
            let name = cluster.members[at].name.clone();
            let id = id_of(&cluster.members[4].client(), &name).await;
            let said = tool.run(&["member", "remove", &format!("{id:x}")]);
            assert!(said.ok().contains("removed from cluster"));
            let ended = cluster.members[at].wait_for_end().await;
            assert_eq!(ended.code(), Some(5));
            cluster.members[at].logs("was removed from the cluster").await;
            load.progress(20).await;
        }
    }
    let shrunk = load.stop().await;
    let last = cluster.members[4].client();
    shrunk.check(&last, "shrink").await;
    record.check(&last, "load").await;
    assert_eq!(members(&last).await.len(), 1);
    let id = cluster.id(4).await;
    let said = Ctl::ours(&cluster.members[4]).run(&["member", "remove", &format!("{id:x}")]);
    assert!(said.err.contains("not enough started members"), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_member_is_replaced_by_two_commands() {
    let mut cluster = Cluster::start(3).await;
    capable(&cluster).await;
    let leader = cluster.leader().await;
    let dead = cluster.other_than(leader);
    let load = Load::start("load", vec![cluster.members[leader].client()]);
    let name = cluster.members[dead].name.clone();
    let id = id_of(&cluster.members[leader].client(), &name).await;
    cluster.members[dead].kill();
    let tool = Ctl::ours(&cluster.members[leader]);
    eventually("the loss is noticed", async || {
        let log = cluster.members[leader].log();
        log.contains("connection lost").then_some(()).ok_or(log)
    })
    .await;
    let refused = tool.run(&["member", "add", "early", "--peer-urls=http://127.0.0.1:1"]);
    assert!(refused.err.contains("unhealthy cluster"), "{refused:?}");
    tool.run(&["member", "remove", &format!("{id:x}")]).ok();
    let new = cluster.add(&tool, &[]);
    started(&mut cluster, new).await;
    load.progress(20).await;
    let record = load.stop().await;
    record.assert_no_failure();
    let third = (0..3).find(|at| ![leader, dead].contains(at)).unwrap();
    let clients = [leader, third, new].map(|at| cluster.members[at].client());
    hash_everywhere(&clients).await;
    // Two of the three are enough, the new one among them.
    cluster.members[third].kill();
    clients[2].kv().put(put("after")).await.unwrap();

    // The dead one comes back to life, and is told.
    cluster.members[dead].start();
    assert_eq!(cluster.members[dead].wait_for_end().await.code(), Some(5));
    cluster.members[dead].logs("was removed from the cluster, says member").await;
    cluster.members[dead].start();
    assert_eq!(cluster.members[dead].wait_for_end().await.code(), Some(5));
    cluster.members[dead].logs("remove the directory and add it as a new member").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn raft_leader_can_be_removed_under_load() {
    let mut cluster = Cluster::start(3).await;
    capable(&cluster).await;
    let leader = cluster.leader().await;
    let others: Vec<usize> = (0..3).filter(|at| *at != leader).collect();
    let clients = others.iter().map(|at| cluster.members[*at].client()).collect();
    let load = Load::start("load", clients);
    load.progress(50).await;
    let id = cluster.id(leader).await;
    // It is asked to remove itself, and still answers.
    let said = Ctl::at(&cluster.members[leader]).run(&["member", "remove", &format!("{id:x}")]);
    assert!(said.ok().contains("removed from cluster"));
    assert_eq!(cluster.members[leader].wait_for_end().await.code(), Some(5));
    load.progress(50).await;
    let record = load.stop().await;
    record.assert_no_failure();
    let client = cluster.members[others[0]].client();
    record.check(&client, "load").await;
    assert_eq!(members(&client).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn member_out_of_reach_does_no_harm() {
    let mut cluster = Cluster::start(3).await;
    capable(&cluster).await;
    let tool = Ctl::at(&cluster.members[0]);
    let load = Load::start("load", vec![cluster.members[0].client()]);
    cluster.add(&tool, &[]);
    load.progress(20).await;
    let second = tool.run(&["member", "add", "second", "--peer-urls=http://127.0.0.1:1"]);
    assert!(second.err.contains("etcdserver: unhealthy cluster"), "{second:?}");
    let list = tool.run(&["member", "list"]).ok();
    let unstarted = list.lines().find(|line| line.contains("unstarted")).unwrap();
    let id = unstarted.split(',').next().unwrap();
    for (args, refusal) in [
        (vec!["member", "promote", id], "can only promote a learner member"),
        (
            vec!["member", "add", "x", "--peer-urls=http://127.0.0.1:1,http://127.0.0.1:3"],
            "given member URLs are invalid",
        ),
        (vec!["member", "remove", "abc"], "member not found"),
    ] {
        for tool in [&tool, &Ctl::ours(&cluster.members[1])] {
            let said = tool.run(&args);
            assert!(said.code != Some(0) && said.err.contains(refusal), "{args:?}: {said:?}");
        }
    }
    let taken = format!("--peer-urls={}", cluster.members[1].peer.url());
    let said = tool.run(&["member", "add", "x", "--learner", &taken]);
    assert!(said.err.contains("Peer URLs already exists"), "{said:?}");
    tool.run(&["member", "remove", id]).ok();
    load.progress(20).await;
    load.stop().await.assert_no_failure();
}

#[tokio::test(flavor = "multi_thread")]
async fn membership_change_that_costs_the_majority_is_refused() {
    let mut cluster = Cluster::start(3).await;
    capable(&cluster).await;
    let leader = cluster.leader().await;
    let (dead, alive) = (cluster.other_than(leader), (leader + 2) % 3);
    let alive_id = cluster.id(alive).await;
    cluster.members[dead].kill();
    cluster.members[leader].logs("connection lost").await;
    let said =
        Ctl::ours(&cluster.members[leader]).run(&["member", "remove", &format!("{alive_id:x}")]);
    assert!(said.err.contains("etcdserver: unhealthy cluster"), "{said:?}");
    cluster.members[alive].client().kv().put(put("still")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn learner_serves_little_and_is_promoted_when_it_is_in_sync() {
    let mut cluster = Cluster::start(3).await;
    capable(&cluster).await;
    let leader = cluster.leader().await;
    let client = cluster.members[leader].client();
    let tool = Ctl::ours(&cluster.members[leader]);
    let at = cluster.add(&tool, &["--learner"]);
    let list = members(&client).await;
    let id = list.iter().find(|one| one.is_learner).unwrap().id;
    let lags = "can only promote a learner member which is in sync with leader";
    let hex = format!("{id:x}");
    assert!(tool.run(&["member", "promote", &hex]).err.contains(lags), "it has not started");
    let many = tool.run(&["member", "add", "x", "--learner", "--peer-urls=http://127.0.0.1:1"]);
    assert!(many.err.contains("too many learner members in cluster"), "{many:?}");
    started(&mut cluster, at).await;

    let learner = cluster.members[at].client();
    client.kv().put(put("k")).await.unwrap();
    let not_here = "etcdserver: rpc not supported for learner";
    let mut kv = stubs::KvClient::new(learner.channel());
    let refused = kv.put(put("k")).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::FailedPrecondition, not_here));
    let get = pb::RangeRequest { key: "k".into(), ..Default::default() };
    assert_eq!(kv.range(get.clone()).await.unwrap_err().message(), not_here);
    let local = pb::RangeRequest { serializable: true, ..get };
    eventually("the learner has it", async || {
        let found = kv.clone().range(local.clone()).await.map_err(|e| e.to_string())?;
        if found.get_ref().count == 1 { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    let request = pb::MemberListRequest { linearizable: true };
    let refused = stubs::ClusterClient::new(learner.channel()).member_list(request).await;
    assert_eq!(refused.unwrap_err().message(), not_here);
    assert!(learner.maintenance().status().await.unwrap().is_learner);
    // A backup may come from it: it is taken where it is in the way of nothing else.
    for tool in [Ctl::at(&cluster.members[at]), Ctl::ours(&cluster.members[at])] {
        let file = cluster.home().join("backup.db");
        tool.run(&["snapshot", "save", file.to_str().unwrap()]).ok();
        let status = tool.with_program(tools::tenure()).run(&[
            "snapshot",
            "status",
            file.to_str().unwrap(),
            "-w",
            "json",
        ]);
        let status: serde_json::Value = serde_json::from_str(&status.ok()).unwrap();
        assert_eq!(status["totalKey"], 1, "{status}");
    }
    let hash = pb::HashKvRequest { revision: 0 };
    let refused = stubs::MaintenanceClient::new(learner.channel()).hash_kv(hash).await;
    assert_eq!(refused.unwrap_err().message(), not_here);
    // A client that knows others, too, does not notice.
    let both = [at, leader].map(|at| cluster.members[at].client.to_string()).join(",");
    let both = Client::new(Endpoint::list(&both).unwrap(), Options::default());
    both.kv().put(put("elsewhere")).await.unwrap();

    cluster.members[at].pause();
    for n in 0..300 {
        client.kv().put(put(&format!("lag/{n}"))).await.unwrap();
    }
    assert!(tool.run(&["member", "promote", &hex]).err.contains(lags), "it lags");
    cluster.members[at].resume();
    promote(&tool, id).await;
    learner.kv().put(put("votes")).await.unwrap();
    cluster.same_everywhere().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn member_that_never_starts_does_no_harm() {
    let mut cluster = Cluster::start(1).await;
    capable(&cluster).await;
    let load = Load::start("load", vec![cluster.members[0].client()]);
    for tool in [Ctl::ours(&cluster.members[0]), Ctl::at(&cluster.members[0])] {
        let url = |port: u16| format!("--peer-urls=http://127.0.0.1:{port}");
        tool.run(&["member", "add", "second", &url(1)]).ok();
        load.progress(20).await;
        let third = tool.run(&["member", "add", "third", &url(2)]);
        assert!(third.err.contains("not enough started members"), "{third:?}");
        let list = tool.run(&["member", "list"]).ok();
        let unstarted = list.lines().find(|line| line.contains("unstarted")).unwrap();
        let id = unstarted.split(',').next().unwrap();
        let early = tool.run(&["member", "promote", id]);
        assert!(early.err.contains("in sync with leader"), "{early:?}");
        tool.run(&["member", "remove", id]).ok();
    }
    // A learner that does start is promoted by itself, also if the member that invited it was away meanwhile.
    let tool = Ctl::ours(&cluster.members[0]);
    let second = cluster.add(&tool, &[]);
    load.stop().await.assert_no_failure();
    cluster.members[0].kill();
    cluster.members[0].start();
    started(&mut cluster, second).await;
    all_vote(&cluster).await;
    // It may be the last to know.
    eventually("it serves as one that votes", async || {
        let done = cluster.members[second].client().kv().put(put("k")).await;
        done.map(drop).map_err(|error| error.to_string())
    })
    .await;
    let third = cluster.add(&tool, &[]);
    started(&mut cluster, third).await;
    cluster.same_everywhere().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn member_that_is_new_gets_a_snapshot_and_says_how_far_it_is() {
    let mut cluster = Cluster::with(1, Plan::flags(&["--snapshot-count", "20"])).await;
    capable(&cluster).await;
    let client = cluster.members[0].client();
    for n in 0..30 {
        let value = vec![b'x'; 1 << 20];
        let put = pb::PutRequest { value: value.into(), ..put(&format!("key/{n:05}")) };
        client.kv().put(put).await.unwrap();
    }
    let tool = Ctl::at(&cluster.members[0]);
    let at = cluster.add(&tool, &["--learner"]);
    started(&mut cluster, at).await;
    let log = cluster.members[at].log();
    for line in ["joining a running cluster", "receiving a snapshot", "installed a snapshot"] {
        assert!(log.contains(line), "{log}");
    }
    let id = members(&client).await.iter().find(|one| one.is_learner).unwrap().id;
    promote(&tool, id).await;
    cluster.same_everywhere().await;
    // It knows its identity without being told again, whatever the settings say of the others.
    cluster.members[at].kill();
    cluster.members[at].start();
    cluster.ready().await;
    cluster.same_everywhere().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn member_that_was_not_added_cannot_join() {
    let mut cluster = Cluster::start(1).await;
    capable(&cluster).await;
    let tool = Ctl::ours(&cluster.members[0]);
    let at = cluster.add(&tool, &["--learner"]);
    let list = members(&cluster.members[0].client()).await;
    let id = list.iter().find(|one| one.is_learner).unwrap().id;
    tool.run(&["member", "remove", &format!("{id:x}")]).ok();
    cluster.members[at].start();
    assert!(!cluster.members[at].wait_for_end().await.success());
    cluster.members[at].logs("add it first with tenure member add n2").await;

    // While no member answers it waits and says so.
    cluster.members[0].kill();
    cluster.members[at].start();
    cluster.members[at].logs("waiting for a member of the cluster").await;
    assert!(cluster.members[at].runs());
}

#[tokio::test(flavor = "multi_thread")]
async fn member_moves_to_another_address() {
    let mut cluster = Cluster::start(3).await;
    capable(&cluster).await;
    let leader = cluster.leader().await;
    let moving = cluster.other_than(leader);
    let id = cluster.id(moving).await;
    assert!(cluster.members[moving].stop().await.success());
    let new = reserve(1)[0];
    let urls = format!("--peer-urls={}", new.url());
    let tool = Ctl::at(&cluster.members[leader]);
    let said = tool.run(&["member", "update", &format!("{id:x}"), &urls]);
    assert!(said.ok().contains("updated in cluster"));
    cluster.members[moving].moved_to = Some(new);
    cluster.members[moving].start();
    cluster.members[leader].client().kv().put(put("k")).await.unwrap();
    cluster.ready().await;
    cluster.same_everywhere().await;
    let list = members(&cluster.members[moving].client()).await;
    assert!(list.iter().any(|one| one.peer_ur_ls == [new.url()]), "{list:?}");
    // The others call it there: it can lead, and no member needs its old address.
    let request = pb::MoveLeaderRequest { target_id: id };
    cluster.members[leader].client().maintenance().move_leader(request).await.unwrap();
    let put = cluster.members[moving].client().kv().put(put("led")).await;
    put.unwrap();
    tokio::time::timeout(Duration::from_secs(10), cluster.same_everywhere()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn member_that_was_away_follows_a_raft_leader_it_never_knew() {
    let mut cluster = Cluster::start(3).await;
    capable(&cluster).await;
    let leader = cluster.leader().await;
    let away = cluster.other_than(leader);
    cluster.members[away].kill();
    let tool = Ctl::ours(&cluster.members[leader]);
    let new = cluster.add(&tool, &["--learner"]);
    started(&mut cluster, new).await;
    let id = cluster.id(new).await;
    promote(&tool, id).await;
    let request = pb::MoveLeaderRequest { target_id: id };
    cluster.members[leader].client().maintenance().move_leader(request).await.unwrap();
    cluster.members[new].client().kv().put(put("led by the new one")).await.unwrap();
    cluster.members[away].start();
    cluster.ready().await;
    cluster.same_everywhere().await;
    cluster.members[away].client().kv().put(put("back")).await.unwrap();
}
