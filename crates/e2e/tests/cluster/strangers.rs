//! Connections that have no business here: noise on the ports, members of other clusters, forgetful members.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    time::Duration,
};

use tenure_e2e::{Address, Cluster, Load, pb};

/// Says something and waits until the other side hangs up, or a while.
fn shout(at: Address, noise: &[u8]) {
    let mut stream = TcpStream::connect((at.ip, at.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    // The other side may hang up before it heard everything.
    let _ = stream.write_all(noise);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read(&mut [0; 1024]);
}

/// Bytes that mean nothing, always the same.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn server_serves_on_whatever_is_shouted_at_its_ports() {
    let cluster = Cluster::start(3).await;
    let clients = (0..6).map(|n| cluster.members[n % 3].client()).collect();
    let load = Load::start("load", clients);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let oversized_h2 =
        [&preface[..], &[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1], &noise(100_000)].concat();
    let hello = b"tenure-peer\x01\0\0\0".to_vec();
    let shouts: Vec<Vec<u8>> = vec![
        vec![],
        noise(10),
        noise(1 << 20),
        vec![0; 100_000],
        vec![0xff; 100_000],
        preface.clone(),
        oversized_h2,
        [&preface[..], &noise(100_000)].concat(),
        b"GET /".to_vec(),
        [
            b"POST /etcdserverpb.KV/Put HTTP/1.1\r\nContent-Length: 999999999\r\n\r\n",
            &noise(1000)[..],
        ]
        .concat(),
        b"GET / HTTP/1.1\r\n".iter().chain(b"x: y\r\n".repeat(20_000).iter()).copied().collect(),
        hello.clone(),
        [&hello[..], &noise(1000)].concat(),
        // A frame that claims to be 4 GiB long.
        [&[0xff, 0xff, 0xff, 0xff][..], &noise(100_000)].concat(),
        // And one of 64 MiB that never comes.
        [&[0, 0, 0, 4][..], &noise(100)].concat(),
    ];
    let targets: Vec<Address> =
        cluster.members.iter().flat_map(|member| [member.client, member.peer]).collect();
    let shouting = std::thread::spawn(move || {
        for at in targets {
            std::thread::scope(|scope| {
                for shout_it in &shouts {
                    scope.spawn(move || shout(at, shout_it));
                }
            });
        }
    });
    while !shouting.is_finished() {
        load.progress(10).await;
    }
    shouting.join().unwrap();
    load.progress(50).await;
    let record = load.stop().await;
    record.assert_no_failure();
    record.check(&cluster.client(), "load").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_refuses_a_member_of_another_cluster_and_says_so() {
    let mut cluster = Cluster::prepare(3, tenure_e2e::Plan::default());
    let token = ["--initial-cluster-token", "somewhere-else"].map(str::to_owned);
    cluster.members[2].spawn.flags.extend(token);
    for member in &mut cluster.members {
        member.start();
    }
    cluster.members[0].ready().await;
    cluster.members[1].ready().await;
    cluster.members[0].client().kv().put(put("k")).await.unwrap();
    cluster.members[0].logs("belongs to cluster").await;
    cluster.members[2].logs("--initial-cluster-token").await;
    let lost = cluster.status(2).await.unwrap();
    assert_eq!(lost.leader, 0, "a stranger must not find a leader here");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_stops_a_member_that_came_back_without_its_data() {
    let mut cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let forgetful = cluster.other_than(leader);
    cluster.client().kv().put(put("before")).await.unwrap();
    cluster.members[forgetful].kill();
    std::fs::remove_dir_all(&cluster.members[forgetful].data_dir).unwrap();
    cluster.members[forgetful].start();
    let ended = cluster.members[forgetful].wait_for_end().await;
    assert!(!ended.success());
    cluster.members[forgetful].logs("knows this member with another data directory").await;
    cluster.members[leader].client().kv().put(put("after")).await.unwrap();
}

fn put(key: &str) -> pb::PutRequest {
    pb::PutRequest { key: key.to_owned().into(), ..Default::default() }
}
