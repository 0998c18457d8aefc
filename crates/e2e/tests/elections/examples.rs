//! The examples of the library, as processes that are stopped and killed, on a real server.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
    time::Duration,
};

use tenure::grpc::{Client, Endpoint, Options};
use tenure_e2e::{Cluster, Ctl, Program, eventually, pb, tools};

/// Longer than any change in these tests takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// No example has a key that ends so.
const MARK: &str = "~mark";

fn start_at(endpoints: &str, example: &str, name: &str, args: &[&str]) -> Program {
    let mut command = Command::new(tools::example(example));
    Program::start(name, command.env("TENURE_ENDPOINTS", endpoints).args(args))
}

fn start(cluster: &Cluster, example: &str, name: &str, args: &[&str]) -> Program {
    start_at(&cluster.endpoints(), example, name, args)
}

/// Every value that keys with this prefix ever had, in order: (key, value).
async fn history(client: &Client, prefix: &str) -> Vec<(String, String)> {
    let mut after = prefix.as_bytes().to_vec();
    *after.last_mut().unwrap() += 1;
    let create = pb::WatchCreateRequest {
        key: prefix.to_owned().into(),
        range_end: after.into(),
        start_revision: 1,
        ..Default::default()
    };
    // A key of our own, which the watch covers, marks the end of what is asked for.
    let mark = format!("{prefix}{MARK}");
    let put = pb::PutRequest { key: mark.clone().into(), ..Default::default() };
    let end = client.kv().put(put).await.unwrap().header.unwrap().revision;
    let mut watch = client.watch().resumed(create).await.unwrap();
    let mut values = Vec::new();
    loop {
        let answer = tokio::time::timeout(PATIENCE, watch.next()).await.expect("history").unwrap();
        for event in answer.events {
            let kv = event.kv.unwrap();
            if kv.mod_revision >= end {
                return values;
            }
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            if text(&kv.key) != mark {
                values.push((text(&kv.key), text(&kv.value)));
            }
        }
    }
}

/// The token in "… under 17".
fn token_in(text: &str) -> i64 {
    text.rsplit(' ').next().and_then(|token| token.parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

/// The count goes on without a gap, and no token comes after a larger one.
async fn the_count_is_whole(client: &Client) -> BTreeSet<i64> {
    let mut tokens = BTreeSet::new();
    let mut expected = 0;
    for (_, value) in history(client, "primary_standby/count").await {
        let (count, token) = (value.split(' ').next().unwrap().parse::<u64>(), token_in(&value));
        expected += 1;
        assert_eq!(count, Ok(expected), "{value}");
        assert!(tokens.last().is_none_or(|last| *last <= token), "{value} after {tokens:?}");
        tokens.insert(token);
    }
    tokens
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_primary_that_wakes_up_adds_nothing_to_the_count() {
    let cluster = Cluster::start(1).await;
    stop_and_wake_a_primary(&cluster.endpoints()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_primary_that_wakes_up_adds_nothing_to_the_count_on_etcd() {
    let etcd = Ctl::with_real_etcd().await;
    stop_and_wake_a_primary(etcd.endpoints()).await;
}

async fn stop_and_wake_a_primary(endpoints: &str) {
    let client = Client::new(Endpoint::list(endpoints).unwrap(), Options::default());
    let one = start_at(endpoints, "primary_standby", "one", &["one", "--careless"]);
    one.says("one leads").await;
    let two = start_at(endpoints, "primary_standby", "two", &["two"]);
    two.says("two stands by").await;
    one.pause();
    let leads = two.says("two leads").await;
    eventually("two has written", async || {
        let history = history(&client, "primary_standby/count").await;
        let last = history.last().map(|(_, value)| token_in(value));
        if last == Some(token_in(&leads)) { Ok(()) } else { Err(format!("{last:?}")) }
    })
    .await;
    one.resume();
    let refused = one.says("one leads no more").await;
    assert!(refused.contains(&format!("token {} is", token_in(&leads))), "{refused}");
    assert!(the_count_is_whole(&client).await.contains(&token_in(&leads)));
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_primary_is_followed_by_a_standby() {
    let cluster = Cluster::start(1).await;
    let mut one = start(&cluster, "primary_standby", "one", &["one"]);
    let first = one.says("one leads").await;
    let two = start(&cluster, "primary_standby", "two", &["two"]);
    two.says("two stands by").await;
    one.kill();
    let second = two.says("two leads").await;
    assert!(token_in(&second) > token_in(&first));
    eventually("two has written", async || {
        let tokens = the_count_is_whole(&cluster.client()).await;
        if tokens.len() == 2 { Ok(()) } else { Err(format!("{tokens:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn seat_is_sold_once_though_its_first_customer_was_asleep() {
    let cluster = Cluster::start(1).await;
    let mut alice = start(&cluster, "seat_reservation", "alice", &["14C", "alice"]);
    alice.says("14C is held for alice").await;
    let mut bob = start(&cluster, "seat_reservation", "bob", &["14C", "bob"]);
    bob.says("14C is being paid for by somebody else").await;
    assert!(!bob.ends().await.success());

    // Alice's process is stopped for longer than her hold lasts, and bob comes back.
    alice.pause();
    let mut bob = eventually("the seat is free", async || {
        let mut bob = start(&cluster, "seat_reservation", "bob", &["14C", "bob"]);
        let said = bob.says("14C is").await;
        if said.contains("held for bob") {
            return Ok(bob);
        }
        bob.ends().await;
        Err(said)
    })
    .await;
    alice.resume();
    alice.tell("paid");
    let late = alice.says("too late for alice").await;
    assert!(late.contains("is no longer in force"), "{late}");
    assert!(!alice.ends().await.success());

    bob.tell("paid");
    bob.says("14C is sold to bob").await;
    assert!(bob.ends().await.success());
    let mut carol = start(&cluster, "seat_reservation", "carol", &["14C", "carol"]);
    carol.says("14C is held for carol").await;
    carol.tell("paid");
    carol.says("14C was sold before").await;
    let sold = history(&cluster.client(), "seats/sold/").await;
    assert_eq!(sold, [("seats/sold/14C".to_owned(), "bob".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn job_runs_in_one_replica_and_moves_when_that_one_goes() {
    let cluster = Cluster::start(1).await;
    let mut one = start(&cluster, "singleton_job", "one", &["one"]);
    one.says("one did step 2").await;
    let two = start(&cluster, "singleton_job", "two", &["two"]);
    two.says("two waits").await;
    has_candidates(&cluster, "singleton_job", 2).await;
    assert_eq!(two.lines().len(), 1, "one works");

    one.ask_to_stop();
    assert!(one.ends().await.success());
    assert_eq!(one.lines().last().map(String::as_str), Some("one has stopped"));
    let second = two.says("two works").await;
    assert!(token_in(&second) > token_in(&one.says("one works").await));

    let three = start(&cluster, "singleton_job", "three", &["three"]);
    three.says("three waits").await;
    has_candidates(&cluster, "singleton_job", 2).await;
    // A replica that is stopped is replaced, and stops its work when it wakes up.
    two.pause();
    three.says("three works").await;
    let said_before = two.lines().len();
    two.resume();
    two.says_after(said_before, "two has stopped").await;
    has_candidates(&cluster, "singleton_job", 2).await;
    let works = two.lines().iter().filter(|line| line.contains("works")).count();
    assert_eq!(works, 1);
}

/// Waits until there are so many candidates for a name.
async fn has_candidates(cluster: &Cluster, name: &str, count: usize) {
    let engine = tenure::Engine::etcd(&cluster.endpoints()).unwrap();
    eventually(&format!("{count} candidates for {name}"), async || {
        let candidates = engine.candidates(name).await.map_err(|error| error.to_string())?;
        if candidates.len() == count { Ok(()) } else { Err(format!("{candidates:?}")) }
    })
    .await;
}

/// The shards of each worker that runs, by the last line it said.
fn owned(workers: &[&Program]) -> Vec<BTreeMap<usize, i64>> {
    let of = |worker: &&Program| {
        let line = worker.lines().iter().rfind(|line| line.contains(" owns ")).cloned();
        let Some(line) = line else { return BTreeMap::new() };
        let shards = line.split(": ").nth(1).unwrap_or_default();
        let pair = |shard: &str| {
            let (shard, token) = shard.split_once('@').unwrap();
            (shard.parse().unwrap(), token.parse().unwrap())
        };
        shards.split_whitespace().map(pair).collect()
    };
    workers.iter().map(of).collect()
}

/// Waits until the workers have shared out all shards, and none has more than its fair share.
async fn shared_out(workers: &[&Program]) -> Vec<BTreeMap<usize, i64>> {
    eventually("all shards are shared out", async || {
        let owned = owned(workers);
        let shards: BTreeSet<usize> = owned.iter().flat_map(BTreeMap::keys).copied().collect();
        let sum: usize = owned.iter().map(BTreeMap::len).sum();
        let share = 8_usize.div_ceil(workers.len());
        let fair = owned.iter().all(|owned| owned.len() <= share);
        if shards.len() == 8 && sum == 8 && fair { Ok(owned) } else { Err(format!("{owned:?}")) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_share_out_shards_and_take_over_those_of_a_dead_one() {
    let cluster = Cluster::start(1).await;
    let mut one = start(&cluster, "shard_ownership", "one", &["one"]);
    let alone = shared_out(&[&one]).await;
    let two = start(&cluster, "shard_ownership", "two", &["two"]);
    let both = shared_out(&[&one, &two]).await;
    for (shard, token) in &both[1] {
        assert!(*token > alone[0][shard], "shard {shard} changed hands");
    }
    one.kill();
    let after = shared_out(&[&two]).await;
    for (shard, token) in &both[0] {
        assert!(after[0][shard] > *token, "shard {shard} changed hands");
    }
    let three = start(&cluster, "shard_ownership", "three", &["three"]);
    shared_out(&[&two, &three]).await;
    // A worker that is stopped loses its shards, and writes nothing when it wakes up.
    two.pause();
    let taken = shared_out(&[&three]).await;
    two.resume();
    two.says("two begins anew").await;
    shared_out(&[&two, &three]).await;
    assert_eq!(taken[0].len(), 8);

    let mut newest: BTreeMap<String, i64> = BTreeMap::new();
    for (shard, value) in history(&cluster.client(), "shard_ownership/data/").await {
        let token = token_in(&value);
        let last = newest.insert(shard.clone(), token).unwrap_or(0);
        assert!(last <= token, "{shard}: {value} after {last}");
    }
    assert_eq!(newest.len(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn cron_job_runs_once_for_each_slot() {
    let cluster = Cluster::start(1).await;
    let home = tempfile::TempDir::new().unwrap();
    let file = home.path().join("ran");
    let script = format!("echo \"$TENURE_TOKEN\" >> {}; exit 3", file.display());
    let run = |slot: &str| {
        let args = ["backup", slot, "--", "sh", "-c", &script];
        start(&cluster, "cron_guard", slot, &args)
    };
    let runs = || fs::read_to_string(&file).unwrap_or_default().lines().count();
    for (count, slot) in [(1, "monday"), (2, "tuesday")] {
        // All hosts at the same moment, and one that is late.
        let mut hosts: Vec<Program> = (0..4).map(|_| run(slot)).collect();
        let mut codes = Vec::new();
        for host in &mut hosts {
            codes.push(host.ends().await.code().unwrap());
        }
        let mut late = run(slot);
        assert_eq!(late.ends().await.code(), Some(0));
        codes.sort();
        assert_eq!(codes, [0, 0, 0, 3], "the command's own code, once");
        assert_eq!(runs(), count, "{slot}");
    }
    let ran = fs::read_to_string(&file).unwrap();
    let tokens: Vec<i64> = ran.lines().map(|token| token.parse().unwrap()).collect();
    assert!(tokens[0] < tokens[1], "{tokens:?}");
}
