//! Settings that cannot work, and what is said about them.

use std::{net::TcpListener, process::Command};

use tenure_e2e::{Cluster, Plan, eventually, pb, reserve, tools};

#[tokio::test(flavor = "multi_thread")]
async fn startup_names_the_process_and_the_flag_when_a_port_is_in_use() {
    for flag in ["--listen-client-urls", "--listen-peer-urls"] {
        let mut cluster = Cluster::prepare(1, Plan::default());
        let member = &mut cluster.members[0];
        let taken = if flag.contains("client") { member.client } else { member.peer };
        let _held = TcpListener::bind((taken.ip, taken.port)).unwrap();
        member.start();
        assert_eq!(member.wait_for_end().await.code(), Some(1), "{flag}");
        let log = member.log();
        let owner = format!("process {}", std::process::id());
        for part in [flag, &owner, &taken.to_string()] {
            assert!(log.contains(part), "{part} is not in: {log}");
        }
    }
}

/// What `tenure serve` says about a data directory that it must not use.
fn refused(home: &std::path::Path, data: &str) -> String {
    let output = Command::new(tools::tenure())
        .current_dir(home)
        .args(["serve", "--data-dir", data, "--listen-client-urls", "http://127.0.0.1:0"])
        .args(["--listen-peer-urls", "http://127.0.0.1:0"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn startup_refuses_a_data_directory_with_files_of_others() {
    let home = tempfile::tempdir().unwrap();
    let write = |path: &str| {
        let path = home.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "mine").unwrap();
    };
    ["photos/a.jpg", "photos/b.jpg", "photos/c.jpg", "photos/d.jpg"].into_iter().for_each(write);
    let said = refused(home.path(), "photos");
    for part in ["photos is not empty", "a.jpg, b.jpg, c.jpg and 1 more", "empty or does not exist"]
    {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
    assert_eq!(std::fs::read_dir(home.path().join("photos")).unwrap().count(), 4);
    write("etcd/member/snap/db");
    let said = refused(home.path(), "etcd");
    assert!(said.contains("tenure import"), "{said}");
}

/// The root of a filesystem has a directory of its own, and a member's directory may have notes in it.
#[tokio::test(flavor = "multi_thread")]
async fn startup_takes_a_data_directory_that_is_ours_or_empty() {
    let mut cluster = Cluster::prepare(1, Plan::default());
    let data = cluster.members[0].data_dir.clone();
    std::fs::create_dir_all(data.join("lost+found")).unwrap();
    cluster.members[0].start();
    cluster.ready().await;
    cluster.members[0].kill();
    std::fs::write(data.join("notes.txt"), "ours").unwrap();
    cluster.members[0].start();
    cluster.ready().await;
}

#[test]
fn startup_tells_a_wrong_url_once_under_the_flag_that_was_given() {
    let home = tempfile::tempdir().unwrap();
    for flag in ["--listen-client-urls", "--listen-peer-urls", "--advertise-client-urls"] {
        let serve = ["serve", "--data-dir", "data", flag, "tcp://h:1"];
        let output = Command::new(tools::tenure()).current_dir(home.path()).args(serve).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.matches("tcp://h:1").count(), 1, "{said}");
        assert!(said.contains(&format!("  {flag}: ")), "{said}");
    }
}

#[test]
fn startup_lists_all_contradictions_at_once() {
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(tools::tenure())
        .current_dir(home.path())
        .args(["serve", "--name", "a", "--initial-cluster", "b=http://127.0.0.1:1"])
        .args(["--listen-client-urls", "tcp://127.0.0.1:2379,http://127.0.0.1:2380"])
        .args(["--data-dir", "data", "--wal-dir", "data"])
        .args(["--heartbeat-interval", "500", "--election-timeout", "600"])
        .args(["--max-txn-ops", "0", "--snapshot-count", "many"])
        .args(["--watch-progress-notify-interval", "1ms"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    for problem in [
        "--initial-cluster: --name a is not among its names (b)",
        "--listen-client-urls: \"tcp://127.0.0.1:2379\" must begin with http://",
        "--listen-peer-urls: 127.0.0.1:2380 must not be in --listen-client-urls too",
        "--wal-dir: data must not be --data-dir too",
        "--election-timeout: 600ms must be at least 5 times --heartbeat-interval 500ms",
        "--max-txn-ops: must be at least 1",
        "--snapshot-count: \"many\" is not a number it can take",
        "--watch-progress-notify-interval: must be at least 100ms",
    ] {
        assert!(said.contains(problem), "{problem:?} is not in: {said}");
    }
    let made: Vec<_> = std::fs::read_dir(home.path()).unwrap().collect();
    assert!(made.is_empty(), "nothing is made with settings that cannot work: {made:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn startup_refuses_a_data_directory_of_another_member() {
    let mut cluster = Cluster::start(1).await;
    let member = &mut cluster.members[0];
    assert!(member.stop().await.success());
    member.spawn.flags.extend(["--initial-cluster-token", "another"].map(str::to_owned));
    member.start();
    assert!(!member.wait_for_end().await.success());
    let log = member.log();
    assert!(log.contains("use the settings it was made with, or another --data-dir"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn startup_keeps_its_log_where_it_is_told_to() {
    let mut cluster = Cluster::prepare(1, Plan::default());
    let apart = tempfile::tempdir().unwrap();
    let member = &mut cluster.members[0];
    let log = apart.path().join("log").to_str().unwrap().to_owned();
    member.spawn.flags.extend(["--wal-dir".to_owned(), log.clone()]);
    member.start();
    member.ready().await;
    let put = pb::PutRequest { key: "k".into(), ..Default::default() };
    member.client().kv().put(put).await.unwrap();
    member.kill();
    assert!(std::fs::read_dir(&log).unwrap().count() > 0);
    member.start();
    member.ready().await;
    let get = pb::RangeRequest { key: "k".into(), ..Default::default() };
    assert_eq!(member.client().kv().range(get).await.unwrap().count, 1);
    // Without its log it must not pretend to be new.
    member.kill();
    member.spawn.flags.clear();
    member.start();
    assert!(!member.wait_for_end().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn startup_tells_all_members_when_one_serves_clients_elsewhere() {
    let mut cluster = Cluster::start(3).await;
    let member = &mut cluster.members[0];
    assert!(member.stop().await.success());
    member.client = reserve(1)[0];
    let moved = member.client.url();
    member.start();
    cluster.ready().await;
    for member in &cluster.members {
        eventually("the new address is known", async || {
            let request = pb::MemberListRequest { linearizable: false };
            let list = member.client().cluster().member_list(request).await;
            let members = list.map_err(|error| error.to_string())?.members;
            let known = members.iter().any(|one| one.client_ur_ls == [moved.clone()]);
            if known { Ok(()) } else { Err(format!("{members:?}")) }
        })
        .await;
    }
}
