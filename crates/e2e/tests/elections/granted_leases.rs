//! A lock or a campaign without a lease gets one from the server, and is told which. And what our replies add to
//! etcd's, as a JSON client reads it.

use std::time::Duration;

use serde_json::{Value, json};
use tenure_e2e::{Caller, Cluster, Gateway, pb::LeaseTimeToLiveRequest};

/// What a lease of the server's own lives from the moment at which its hold begins.
const GRANTED_SECS: i64 = 60;
/// `door` and `office`.
const DOOR: &str = "ZG9vcg==";
const OFFICE: &str = "b2ZmaWNl";

async fn keys_of(caller: &Caller, lease: i64) -> Vec<Vec<u8>> {
    let ask = LeaseTimeToLiveRequest { id: lease, keys: true };
    let found = caller.client().lease().time_to_live(ask).await.unwrap();
    found.keys.iter().map(|key| key.to_vec()).collect()
}

/// A number as JSON has it.
fn number(value: &Value) -> i64 {
    value.as_str().unwrap_or_else(|| panic!("{value} is no number")).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn campaign_without_a_lease_names_the_one_it_got_and_resigning_ends_it() {
    let cluster = Cluster::start(3).await;
    let caller = Caller::new(cluster.client());
    let elected = caller.campaign("office", 0, "a").answer().await.unwrap();
    let leader = elected.leader.unwrap();
    assert!(elected.granted_lease > 0);
    assert_eq!((elected.granted_lease, elected.granted_ttl), (leader.lease, GRANTED_SECS));
    assert_eq!(elected.fencing_token, leader.rev);
    assert_eq!(keys_of(&caller, leader.lease).await, [leader.key.to_vec()]);
    // At another member, which did not grant it.
    let elsewhere = Caller::new(cluster.members[cluster.other_than(0)].client());
    elsewhere.resign(leader.clone()).await.unwrap();
    assert_eq!(caller.seconds_left(leader.lease).await, -1);
    caller.has_candidates("office", 0).await;
}

/// A tenure that ends does not end a lease of the client's own.
#[tokio::test(flavor = "multi_thread")]
async fn campaign_with_a_lease_is_granted_none_and_keeps_its_own() {
    let cluster = Cluster::start(1).await;
    let caller = Caller::new(cluster.client());
    let lease = caller.lease(600).await;
    let elected = caller.campaign("office", lease, "a").answer().await.unwrap();
    assert_eq!((elected.granted_lease, elected.granted_ttl), (0, 0));
    caller.resign(elected.leader.unwrap()).await.unwrap();
    assert!(caller.seconds_left(lease).await > 0);
}

/// The lease lives as long as anything of its holder's hangs on it.
#[tokio::test(flavor = "multi_thread")]
async fn resign_leaves_a_granted_lease_that_something_else_hangs_on() {
    let cluster = Cluster::start(1).await;
    let caller = Caller::new(cluster.client());
    let office = caller.campaign("office", 0, "a").answer().await.unwrap();
    let lease = office.granted_lease;
    let door = caller.locked("door", lease).await;
    caller.resign(office.leader.unwrap()).await.unwrap();
    assert_eq!(keys_of(&caller, lease).await, [door.key.to_vec()]);
    caller.unlock(door.key, door.fencing_token).await.unwrap();
    assert_eq!(caller.seconds_left(lease).await, -1);
}

/// Two calls about one lease at two members at the same time: whichever comes first, no call is told of a hold that the
/// other then takes away.
#[tokio::test(flavor = "multi_thread")]
async fn resign_does_not_take_away_what_was_locked_on_the_granted_lease_meanwhile() {
    const ROUNDS: u32 = 150;
    let cluster = Cluster::start(3).await;
    let here = Caller::new(cluster.members[0].client());
    let there = Caller::new(cluster.members[1].client());
    let mut locked = 0;
    for round in 0..ROUNDS {
        let (office, door) = (format!("office-{round}"), format!("door-{round}"));
        let elected = here.campaign(&office, 0, "a").answer().await.unwrap();
        let lease = elected.granted_lease;
        let lock = async {
            // The moment between the look at the lease and its end is short, and it is unknown when it comes.
            tokio::time::sleep(Duration::from_micros(100) * (round % 50)).await;
            there.lock(&door, lease).answer().await
        };
        let (resigned, lock) = tokio::join!(here.resign(elected.leader.unwrap()), lock);
        resigned.unwrap();
        match lock {
            Ok(held) => {
                let queue = there.candidates(&door).await;
                let holder = queue.first().map(|kv| kv.create_revision);
                assert_eq!(
                    holder,
                    Some(held.fencing_token),
                    "round {round}: it was told that it holds"
                );
                locked += 1;
            }
            Err(status) => {
                assert_eq!(status.message(), "etcdserver: requested lease not found");
            }
        }
    }
    println!("locked in {locked} of {ROUNDS} rounds");
    assert!(locked > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn campaign_over_json_is_told_its_token_and_the_lease_it_got() {
    let cluster = Cluster::start(1).await;
    let gateway = Gateway::at(cluster.members[0].client);
    let campaign = json!({ "name": OFFICE, "value": "YQ==" }).to_string();
    let elected = gateway.post("/v3/election/campaign", campaign).await.json();
    let (leader, caller) = (&elected["leader"], Caller::new(cluster.client()));
    let queue = caller.candidates("office").await;
    assert_eq!(number(&elected["fencing_token"]), queue[0].create_revision);
    assert_eq!(elected["fencing_token"], leader["rev"]);
    assert_eq!(elected["granted_lease"], leader["lease"]);
    assert_eq!(number(&elected["granted_ttl"]), GRANTED_SECS);
    let leads = gateway.post("/v3/election/leader", json!({ "name": OFFICE }).to_string()).await;
    assert_eq!(leads.json()["fencing_token"], elected["fencing_token"]);
    gateway.post("/v3/election/resign", json!({ "leader": leader }).to_string()).await;
    assert_eq!(caller.seconds_left(number(&leader["lease"])).await, -1);
}

/// A client that was paused since frees nothing that is not its own any more.
#[tokio::test(flavor = "multi_thread")]
async fn unlock_by_token_over_json_frees_that_hold_only() {
    let cluster = Cluster::start(1).await;
    let gateway = Gateway::at(cluster.members[0].client);
    let caller = Caller::new(cluster.client());
    let lease = caller.lease(600).await;
    let lock = async || {
        let lock = json!({ "name": DOOR, "lease": lease.to_string() }).to_string();
        gateway.post("/v3/lock/lock", lock).await.json()
    };
    let unlock = async |held: &Value| {
        let unlock = json!({ "key": held["key"], "fencing_token": held["fencing_token"] });
        gateway.post("/v3/lock/unlock", unlock.to_string()).await
    };
    let first = lock().await;
    assert_eq!(number(&first["fencing_token"]), caller.candidates("door").await[0].create_revision);
    assert_eq!(unlock(&first).await.status, 200);
    caller.has_candidates("door", 0).await;
    // The same key again, and another hold.
    let second = lock().await;
    assert_eq!(second["key"], first["key"]);
    assert!(number(&second["fencing_token"]) > number(&first["fencing_token"]));
    unlock(&first).await;
    let held = caller.candidates("door").await;
    assert_eq!(held[0].create_revision, number(&second["fencing_token"]), "it holds on");
    assert_eq!(unlock(&second).await.status, 200);
    caller.has_candidates("door", 0).await;
}
