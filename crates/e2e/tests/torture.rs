//! Everything at once, in an order that a number decides.
//!
//! One short round in `make test`; rounds of 3 and 5 members for as long as is wished with `TENURE_MINUTES=60`,
//! each with a seed of its own. A round that failed is run again by the command that it prints.
#![allow(clippy::unwrap_used)]

use std::{
    env,
    path::PathBuf,
    time::{Duration, Instant, SystemTime},
};

use tenure_e2e::{
    Network, eventually,
    torture::{Form, Ground, Round, Security, Switchboard, Wiring, report},
};

/// How long one of many rounds is tormented.
const ROUND: Duration = Duration::from_secs(150);

fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// As it was asked for; otherwise by the seed.
fn security(seed: u64) -> Security {
    let secured = number::<u8>("TENURE_SECURED").map(|number| number == 1);
    match secured.unwrap_or(seed / 2 % 2 == 1) {
        true => Security::TlsAndUsers,
        false => Security::Open,
    }
}

/// Faults without effect would let everything pass.
async fn a_leader_that_is_cut_off_is_replaced(wiring: Wiring) {
    let mut ground = Ground::on(wiring, 3, Security::Open).await;
    let old = ground.some_leader().await;
    let term = ground.look().await[old].term;
    for one_way in [false, true] {
        let old = ground.some_leader().await;
        for other in (0..3).filter(|other| *other != old) {
            ground.wiring.cut_one_way(old, other);
            if !one_way {
                ground.wiring.cut_one_way(other, old);
            }
        }
        eventually("another one leads", async || {
            let views = ground.look().await;
            let new = views.iter().find(|view| view.at != old && view.leader == view.id);
            new.map(drop).ok_or(format!("{views:?}"))
        })
        .await;
        ground.wiring.heal();
        ground.serves().await;
    }
    assert!(ground.look().await[0].term >= term + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_can_be_cut() {
    a_leader_that_is_cut_off_is_replaced(Wiring::Namespaces(Network::new(3))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn relays_can_be_cut() {
    a_leader_that_is_cut_off_is_replaced(Wiring::Relays(Switchboard::new(3).await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn torture_keeps_every_promise_whatever_happens() {
    let (seed, members) = (number::<u64>("TENURE_SEED"), number::<usize>("TENURE_MEMBERS"));
    let mut outcomes = Vec::new();
    if let Some(minutes) = number::<f64>("TENURE_MINUTES") {
        let end = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() % 1_000_000;
        let first = seed.unwrap_or(now);
        for (number, seed) in (first..).enumerate() {
            let left = end.saturating_duration_since(Instant::now());
            if number > 0 && left < ROUND / 2 {
                break;
            }
            let members = members.unwrap_or([3, 5][number % 2]);
            let form = Form::Long(left.min(ROUND));
            outcomes.push(Round { seed, members, form, security: security(seed) }.run().await);
            eprintln!("{}", report::page(&outcomes[number..]));
        }
    } else {
        let seed = seed.unwrap_or(1);
        let (members, form) = (members.unwrap_or(3), Form::Short);
        let round = Round { seed, members, form, security: security(seed) };
        outcomes.push(round.run().await);
    }
    let page = report::page(&outcomes);
    let path = env::var_os("TENURE_REPORT").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/torture.md"),
        PathBuf::from,
    );
    report::write(&path, &page);
    assert!(outcomes.iter().all(|outcome| outcome.good()), "{page}");
    for (fault, count) in report::struck(&outcomes) {
        let allowed = env::var_os("TENURE_MINUTES").is_none();
        assert!(allowed || count > 0, "{fault} never struck\n{page}");
    }
    eprintln!("{page}");
}
