//! How a member says that it is well, and that it does nothing when there is nothing to do.

use std::time::Duration;

use tenure_e2e::{Cluster, Member, Plan, Scrape, eventually, fetch, pb};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

async fn status(member: &Member, path: &str) -> String {
    fetch(&member.client.to_string(), path).await.unwrap().0
}

#[tokio::test]
async fn member_without_a_majority_is_alive_but_not_ready() {
    let mut cluster = Cluster::start(3).await;
    for path in ["/livez", "/readyz", "/health"] {
        eventually(path, async || {
            let said = status(&cluster.members[0], path).await;
            if said.contains(" 200 ") { Ok(()) } else { Err(said) }
        })
        .await;
    }
    cluster.members[1].kill();
    cluster.members[2].kill();
    eventually("it is not ready any more", async || {
        let ready = status(&cluster.members[0], "/readyz").await;
        if ready.contains(" 503 ") { Ok(()) } else { Err(ready) }
    })
    .await;
    assert!(status(&cluster.members[0], "/health").await.contains(" 503 "));
    assert!(status(&cluster.members[0], "/health?serializable=true").await.contains(" 200 "));
    assert!(status(&cluster.members[0], "/livez").await.contains(" 200 "));
}

/// Right after its first start a member serves before it can change the members.
#[tokio::test]
async fn health_of_a_fresh_member_means_that_members_can_be_changed() {
    for path in ["/readyz", "/health"] {
        let mut cluster = Cluster::prepare(1, Plan::default());
        let member = &mut cluster.members[0];
        member.start();
        let address = member.client.to_string();
        let told = async || fetch(&address, path).await.is_ok_and(|page| page.0.contains(" 200 "));
        while !told().await {}
        let learner = pb::MemberAddRequest {
            peer_ur_ls: vec!["http://127.0.0.1:1".to_owned()],
            is_learner: true,
        };
        let added = member.client().cluster().member_add(learner).await;
        added.unwrap_or_else(|refusal| panic!("{path} said yes too early: {refusal}"));
    }
}

#[tokio::test]
async fn health_service_answers_for_the_whole_server() {
    let cluster = Cluster::start(1).await;
    let mut health = HealthClient::new(cluster.members[0].client().channel());
    let answer = health.check(HealthCheckRequest { service: String::new() }).await.unwrap();
    assert_eq!(answer.into_inner().status(), ServingStatus::Serving);
    let unknown = HealthCheckRequest { service: "nobody".to_owned() };
    assert_eq!(health.check(unknown).await.unwrap_err().code(), tonic::Code::NotFound);
}

/// The loop is woken some twenty times a second, and by messages. One that is woken by nothing would run
/// thousands of times.
#[tokio::test]
async fn member_that_is_idle_rests() {
    for count in [1, 3] {
        let cluster = Cluster::start(count).await;
        let rounds = async |member: &Member| {
            let scrape = Scrape::of(&member.client.to_string()).await.unwrap();
            scrape.total("tenure_core_round_seconds").unwrap()
        };
        for member in &cluster.members {
            let before = rounds(member).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let rounds = rounds(member).await - before;
            assert!(rounds < 2000.0, "{rounds} rounds in a second of rest, of {count} members");
        }
    }
}
