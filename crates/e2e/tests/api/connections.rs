//! More connections than a member may have files.

use std::{io::Read, net::TcpStream, time::Duration};

use tenure_e2e::{Cluster, Plan, Spawn, eventually, pb, tools};

/// What the member may have open, and what clients open.
const FILES: usize = 256;
const CONNECTIONS: usize = 400;
/// Enough for several log segments, each of which is a file.
const PUTS: usize = 48;
const VALUE_BYTES: usize = 1 << 20;

fn put(n: usize) -> pb::PutRequest {
    let key = format!("k/{}", n % 4).into();
    pb::PutRequest { key, value: vec![b'v'; VALUE_BYTES].into(), ..Default::default() }
}

/// Whether the member has hung up. One that was taken says something, or nothing.
fn is_hung_up_on(mut stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let mut word = [0; 64];
    matches!(stream.read(&mut word), Ok(0))
        || stream.take_error().is_ok_and(|error| error.is_some())
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_cannot_take_the_files_that_a_member_needs() {
    let prlimit = tools::system("prlimit", "util-linux");
    let before = vec![prlimit.into(), format!("--nofile={FILES}:{FILES}").into()];
    let spawn = Spawn { before, ..Spawn::default() };
    let cluster = Cluster::with(1, Plan { spawn, ..Plan::default() }).await;
    let client = cluster.client();
    client.kv().put(put(0)).await.unwrap();
    let at = cluster.members[0].client.to_string();
    let crowd: Vec<TcpStream> =
        (0..CONNECTIONS).map(|_| TcpStream::connect(&at).unwrap()).collect();
    eventually("some are hung up on", async || {
        let gone = crowd.iter().filter(|stream| is_hung_up_on(stream)).count();
        let expected = CONNECTIONS - FILES..CONNECTIONS;
        if expected.contains(&gone) { Ok(()) } else { Err(format!("{gone} of {CONNECTIONS}")) }
    })
    .await;
    for n in 0..PUTS {
        client.kv().put(put(n)).await.unwrap();
    }
    drop(crowd);
    eventually("somebody new is served", async || {
        cluster.client().kv().put(put(0)).await.map(drop).map_err(|cause| cause.to_string())
    })
    .await;
}
