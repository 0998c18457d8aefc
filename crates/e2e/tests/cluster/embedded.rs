//! Members inside a program: its replicas elect among themselves, with no separate service.

use std::{process::Command, time::Duration};

use tempfile::TempDir;
use tenure::{Election, Engine, Leadership, Session};
use tenure_e2e::{Address, Network, Program, eventually, reserve, tools};
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

    // One replica goes: the leader of the application goes on.
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

/// One replica of the example that docs/how-to/embedded.md shows. Its ports are written in it, so it has a network
/// of its own.
fn example(number: usize, network: &Network, home: &TempDir) -> Program {
    let inside = network.inside(0);
    let mut command = Command::new(&inside[0]);
    command.args(&inside[1..]).arg(tools::example("embedded"));
    command.arg(number.to_string()).arg(home.path().join(format!("replica-{number}")));
    Program::start(&format!("replica {number}"), &mut command)
}

/// Which of them leads with a token larger than this one, and the token.
async fn who_leads(replicas: &[Program], after: i64) -> (usize, i64) {
    eventually("one of them leads", async || {
        let said: Vec<_> = replicas.iter().map(Program::lines).collect();
        let tokens = said.iter().enumerate().flat_map(|(at, lines)| {
            let token = |line: &String| line.split_once(" leads with token ")?.1.parse().ok();
            lines.iter().filter_map(token).map(move |token| (at, token))
        });
        tokens
            .max_by_key(|(_, token)| *token)
            .filter(|(_, token)| *token > after)
            .ok_or_else(|| format!("{said:?}"))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn example_leads_on_when_its_leader_is_killed_and_takes_it_back_in() {
    let (network, home) = (Network::new(1), TempDir::new().unwrap());
    let mut replicas: Vec<_> = (1..=3).map(|number| example(number, &network, &home)).collect();
    let (first, token) = who_leads(&replicas, 0).await;
    replicas[first].kill();
    let (second, larger) = who_leads(&replicas, token).await;
    assert!(second != first, "it is dead");
    replicas[first] = example(first + 1, &network, &home);
    replicas[first].says("is there").await;
    // It makes the majority with the third, and one of them leads after the second.
    replicas[second].kill();
    who_leads(&replicas, larger).await;
}
