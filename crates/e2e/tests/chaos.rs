//! Everything at once, in an order that a number decides.
//!
//! The number fixes what is done to the cluster, not what the machine makes of it, so a failure may need
//! a few runs to come back: `TENURE_SEED=7 cargo nextest run -p tenure-e2e --test chaos`.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use tenure::grpc::Options;
use tenure_e2e::{Cluster, Load, Network, Register, eventually, pb};

/// Steps of one run, and how long each of them lasts.
const STEPS: usize = 16;
const STEP: Duration = Duration::from_millis(400);

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

/// What may happen to one of three members.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Kill(usize),
    Pause(usize),
    Isolate(usize),
    Cut(usize, usize),
    CutOneWay(usize, usize),
    Heal,
    Move(usize),
    Compact,
    KillAll,
}

fn fate(dice: &mut Dice) -> Fate {
    let one = dice.roll(3);
    let other = (one + 1 + dice.roll(2)) % 3;
    match dice.roll(16) {
        0..4 => Fate::Kill(one),
        4..7 => Fate::Pause(one),
        7..9 => Fate::Isolate(one),
        9 => Fate::Cut(one, other),
        10..12 => Fate::CutOneWay(one, other),
        12 => Fate::Heal,
        13 => Fate::Move(one),
        14 => Fate::Compact,
        _ => Fate::KillAll,
    }
}

async fn strike(fate: Fate, cluster: &mut Cluster, network: &Network) {
    match fate {
        Fate::Kill(at) => {
            cluster.members[at].kill();
            tokio::time::sleep(STEP).await;
            cluster.members[at].start();
        }
        Fate::Pause(at) => {
            cluster.members[at].pause();
            tokio::time::sleep(2 * STEP).await;
            cluster.members[at].resume();
        }
        Fate::Isolate(at) => network.isolate(at),
        Fate::Cut(a, b) => network.cut(a, b),
        Fate::CutOneWay(a, b) => network.cut_one_way(a, b),
        Fate::Heal => network.heal(),
        Fate::Move(to) => moved(cluster, to).await,
        Fate::Compact => compact(cluster).await,
        Fate::KillAll => {
            cluster.members.iter_mut().for_each(tenure_e2e::Member::kill);
            cluster.members.iter_mut().for_each(tenure_e2e::Member::start);
        }
    }
    tokio::time::sleep(STEP).await;
    if matches!(fate, Fate::Isolate(_) | Fate::Cut(..) | Fate::CutOneWay(..)) {
        tokio::time::sleep(2 * STEP).await;
        network.heal();
    }
}

/// Asks every member to hand over; only the leader will, if there is one.
async fn moved(cluster: &Cluster, to: usize) {
    let Ok(status) = cluster.status(to).await else { return };
    let target_id = status.header.unwrap().member_id;
    for member in &cluster.members {
        let request = pb::MoveLeaderRequest { target_id };
        let client = member.client();
        let _ = tokio::time::timeout(STEP, client.maintenance().move_leader(request)).await;
    }
}

async fn compact(cluster: &Cluster) {
    let client = cluster.client();
    let any = pb::RangeRequest { key: "any".into(), ..Default::default() };
    if let Ok(found) = client.kv().range(any).await {
        let revision = found.header.unwrap().revision - 10;
        let _ = client.kv().compact(pb::CompactionRequest { revision, physical: false }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_loses_nothing_whatever_happens() {
    let seed = std::env::var("TENURE_SEED").map_or(1, |seed| seed.parse().unwrap());
    let mut dice = Dice(seed);
    let network = Network::new(3);
    let mut cluster = network.cluster(&["--snapshot-count", "200"]).await;
    let options = || Options { request_timeout: Duration::from_secs(2), ..Options::default() };
    let load = Load::start("load", (0..6).map(|_| cluster.client_with(options())).collect());
    let register = Register::start(&cluster, "register");
    for step in 0..STEPS {
        let fate = fate(&mut dice);
        eprintln!("seed {seed} step {step}: {fate:?}");
        strike(fate, &mut cluster, &network).await;
    }
    network.heal();
    for member in &mut cluster.members {
        assert!(member.runs(), "{} ended by itself", member.name);
    }
    cluster.ready().await;
    load.progress(20).await;
    register.stop().await;
    let record = load.stop().await;
    eventually("a write with everybody back", async || {
        let put = pb::PutRequest { key: "last".into(), ..Default::default() };
        cluster.client().kv().put(put).await.map_err(|error| error.to_string())
    })
    .await;
    cluster.same_everywhere().await;
    record.check(&cluster.client(), "load").await;
}
