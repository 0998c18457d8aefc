//! What others see.

use tenure::{Election, Observer, Sight};

use super::{Ground, bounded};

/// trillian#1387, etcd#18163: every tenure is seen once, and so is that there is no leader.
pub async fn observer_sees_every_tenure_and_that_there_is_no_leader(ground: &Ground) {
    let mut seen = Observer::open(&ground.engine, "job").unwrap();
    assert_eq!(next(&mut seen).await, Sight::NoLeader);
    let (first, second) = (ground.session().await, ground.session().await);
    let a = Election::new(&first, "job").unwrap().candidate("a").campaign().await.unwrap();
    let Sight::Leads(tenure) = next(&mut seen).await else { panic!("a leader") };
    let listed = Election::new(&first, "job").unwrap().candidates().await.unwrap();
    assert_eq!((&tenure.identity, tenure.token), (&listed[0].identity, a.token()));
    assert!(!tenure.identity.is_empty());
    assert_eq!(leads(Sight::Leads(tenure)), (a.token().get(), "a".into()));
    a.proclaim("a2").await.unwrap();
    let Sight::Proclaims(tenure) = next(&mut seen).await else { panic!("a proclamation") };
    assert_eq!((tenure.token, &tenure.value[..]), (a.token(), &b"a2"[..]));
    let b = tokio::spawn(Election::new(&second, "job").unwrap().candidate("b").campaign());
    ground.has_candidates("job", 2).await;
    a.resign().await.unwrap();
    let b = bounded("b leads", b).await.unwrap().unwrap();
    assert_eq!(leads(next(&mut seen).await), (b.token().get(), "b".into()), "a waiter is no news");
    ground.revoke(&second).await;
    assert_eq!(next(&mut seen).await, Sight::NoLeader);
}

/// An observer that comes later sees the present leader first.
pub async fn observer_that_comes_later_sees_the_leader(ground: &Ground) {
    let session = ground.session().await;
    let election = Election::new(&session, "job").unwrap();
    let a = election.candidate("a").campaign().await.unwrap();
    let mut seen = election.observe();
    assert_eq!(leads(next(&mut seen).await), (a.token().get(), "a".into()));
    drop(a);
    assert_eq!(next(&mut seen).await, Sight::NoLeader);
}

/// etcd#7815: a server that was away, and history that is gone, do not end the looking.
pub async fn observer_outlives_a_pause_of_the_server(ground: &Ground) {
    let session = ground.session().await;
    let election = Election::new(&session, "job").unwrap();
    let mut seen = election.observe();
    assert_eq!(next(&mut seen).await, Sight::NoLeader);
    ground.pause();
    ground.resume();
    let a = bounded("leads", election.candidate("a").campaign()).await.unwrap();
    let sight = loop {
        match next(&mut seen).await {
            Sight::Gap | Sight::NoLeader => {}
            sight => break sight,
        }
    };
    assert_eq!(leads(sight), (a.token().get(), "a".into()));
}

async fn next(seen: &mut Observer) -> Sight {
    bounded("something is seen", seen.next()).await.unwrap().1
}

fn leads(sight: Sight) -> (i64, String) {
    let Sight::Leads(tenure) = sight else { panic!("a leader, not {sight:?}") };
    (tenure.token.get(), String::from_utf8(tenure.value).unwrap())
}
