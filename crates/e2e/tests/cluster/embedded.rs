//! Members inside a program: its replicas elect among themselves, with no separate service.

use std::time::Duration;

use tempfile::TempDir;
use tenure::{Election, Engine, Leadership, Session};
use tenure_e2e::{Address, eventually, reserve};
use tenure_server::{Config, Server};
use tokio::{sync::oneshot, task::JoinHandle};

struct Replica {
    stop: oneshot::Sender<()>,
    runs: JoinHandle<()>,
}

async fn replica(number: usize, addresses: &[(Address, Address)], home: &TempDir) -> Replica {
    let all: Vec<String> =
        addresses.iter().enumerate().map(|(n, (_, peer))| format!("r{n}={}", peer.url())).collect();
    let (client, peer) = addresses[number];
    let config = Config {
        name: format!("r{number}"),
        data_dir: home.path().join(format!("r{number}")),
        listen_client_urls: vec![client.url()],
        advertise_client_urls: vec![client.url()],
        listen_peer_urls: vec![peer.url()],
        initial_advertise_peer_urls: vec![peer.url()],
        initial_cluster: all.join(","),
        ..Config::default()
    };
    let server = Server::start(config).await.unwrap();
    let (stop, stopping) = oneshot::channel();
    let runs = tokio::spawn(async move {
        let stopped = server.run_until(async { drop(stopping.await) }).await;
        assert!(stopped.is_ok(), "{stopped:?}");
    });
    Replica { stop, runs }
}

async fn campaign(engine: &Engine, who: &str) -> (Session, Leadership) {
    let session = eventually("somebody leads the log", async || {
        Session::open(engine, Duration::from_secs(10)).await.map_err(|error| error.to_string())
    })
    .await;
    let election = Election::new(&session, "application").unwrap();
    let leads = election.candidate(who).campaign().await.unwrap();
    (session, leads)
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_of_a_program_elect_among_themselves_and_outlive_one_of_them() {
    let home = TempDir::new().unwrap();
    let free = reserve(6);
    let addresses: Vec<(Address, Address)> =
        free.chunks(2).map(|pair| (pair[0], pair[1])).collect();
    let mut replicas = vec![];
    for number in 0..3 {
        replicas.push(replica(number, &addresses, &home).await);
    }
    let everywhere: Vec<String> = addresses.iter().map(|(client, _)| client.to_string()).collect();
    let engine = Engine::tenure(&everywhere.join(",")).unwrap();
    let (session, leads) = campaign(&engine, "first").await;
    let first = leads.token();

    // One replica goes: whoever leads the application goes on.
    let Replica { stop, runs } = replicas.remove(0);
    stop.send(()).unwrap();
    runs.await.unwrap();
    assert!(
        eventually("it may act", async || {
            leads.may_act(Duration::from_millis(100)).map_err(|doubt| format!("{doubt:?}"))
        })
        .await
            == first
    );
    leads.resign().await.unwrap();
    session.close().await;
    let (_session, leads) = campaign(&engine, "second").await;
    assert!(leads.token() > first);
    for Replica { stop, .. } in replicas {
        let _ = stop.send(());
    }
}
