use std::time::Duration;

use proptest::prelude::*;

use super::{Doubt, MARGIN_MIN, Standing, TTL_MIN, Tenancy, margin};
use crate::clock::Moment;

const TTL: Duration = Duration::from_secs(10);

fn at(ms: u64) -> Moment {
    Moment::after_start(Duration::from_millis(ms))
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn tenancy_is_held_then_suspect_then_lost() {
    let mut tenancy = Tenancy::begin(at(0), TTL);
    assert_eq!(tenancy.standing(at(7_499)), Standing::Held);
    assert_eq!(tenancy.standing(at(7_500)), Standing::Suspect);
    assert_eq!(tenancy.standing(at(9_899)), Standing::Suspect);
    assert_eq!(tenancy.standing(at(9_900)), Standing::Lost);
}

#[test]
fn tenancy_deadline_counts_from_the_sending() {
    let mut tenancy = Tenancy::begin(at(0), TTL);
    assert!(tenancy.acknowledge(at(3_000), at(7_000)), "it took four seconds, but it is in time");
    assert_eq!(tenancy.safe_until(), at(12_900));
    assert_eq!(tenancy.renew_at(), at(3_000) + TTL / 3);
}

#[test]
fn tenancy_doubt_ends_with_an_acknowledgement() {
    let mut tenancy = Tenancy::begin(at(0), TTL);
    assert_eq!(tenancy.standing(at(8_000)), Standing::Suspect);
    assert!(tenancy.acknowledge(at(8_000), at(8_010)));
    assert_eq!(tenancy.standing(at(8_010)), Standing::Held);
}

#[test]
fn tenancy_that_is_lost_stays_lost() {
    let mut tenancy = Tenancy::begin(at(0), TTL);
    assert_eq!(tenancy.standing(at(9_900)), Standing::Lost);
    assert!(!tenancy.acknowledge(at(9_000), at(9_901)), "too late, though sent in time");
    assert_eq!(tenancy.standing(at(9_902)), Standing::Lost);
    assert_eq!(tenancy.standing(at(1)), Standing::Lost, "nor by a question about the past");
}

#[test]
fn tenancy_ignores_an_acknowledgement_after_the_deadline() {
    let mut tenancy = Tenancy::begin(at(0), TTL);
    assert!(!tenancy.acknowledge(at(9_800), at(9_900)));
    assert_eq!(tenancy.standing(at(9_900)), Standing::Lost);
}

#[test]
fn tenancy_loses_nothing_by_an_old_acknowledgement() {
    let mut tenancy = Tenancy::begin(at(0), TTL);
    assert!(tenancy.acknowledge(at(5_000), at(5_010)));
    assert!(tenancy.acknowledge(at(3_000), at(5_020)), "it was overtaken");
    assert_eq!(tenancy.confirmed_at(), at(5_000));
}

#[test]
fn tenancy_is_in_doubt_after_two_misses_and_not_after_one() {
    let mut tenancy = Tenancy::begin(at(0), TTL);
    tenancy.miss();
    assert_eq!(tenancy.standing(at(4_000)), Standing::Held);
    tenancy.miss();
    assert_eq!(tenancy.standing(at(4_000)), Standing::Suspect);
}

#[test]
fn tenancy_begins_only_work_that_ends_before_the_deadline() {
    let mut tenancy = Tenancy::begin(at(0), TTL);
    assert_eq!(tenancy.may_act(at(900), ms(9_000)), Ok(()));
    let too_short = Doubt::TooShort { remaining: ms(9_000) };
    assert_eq!(tenancy.may_act(at(900), ms(9_001)), Err(too_short));
    let suspect = Doubt::Suspect { remaining: ms(2_400) };
    assert_eq!(tenancy.may_act(at(7_500), ms(1)), Err(suspect));
    assert_eq!(tenancy.may_act(at(9_900), Duration::ZERO), Err(Doubt::Lost));
}

#[test]
fn tenancy_ends_with_its_connection_unless_it_attaches_again() {
    let mut tenancy = Tenancy::begin(at(0), TTL);
    tenancy.detach(at(1_025));
    assert_eq!(tenancy.standing(at(1_020)), Standing::Held);
    tenancy.attach(at(1_020));
    assert_eq!(tenancy.standing(at(1_030)), Standing::Held);
    tenancy.detach(at(2_025));
    tenancy.detach(at(3_025));
    tenancy.attach(at(2_025));
    assert_eq!(tenancy.standing(at(2_025)), Standing::Lost, "the first break counts");
}

#[test]
fn tenancy_can_be_made_stricter_and_never_laxer() {
    let lax = Tenancy::begin(at(0), TTL).stricter(TTL, TTL);
    assert_eq!((lax.renew_at(), lax.suspect_at()), (at(0) + TTL / 3, at(7_500)));
    let strict = lax.stricter(ms(2_000), ms(6_000));
    assert_eq!((strict.renew_at(), strict.suspect_at()), (at(2_000), at(6_000)));
}

/// One renewal as it went over the network; all times in milliseconds of true time.
#[derive(Clone, Debug)]
struct Renewal {
    sent: u64,
    to_server: u64,
    back: u64,
    /// Whether it reached the server, and whether the answer came back.
    arrives: bool,
    answered: bool,
}

fn renewals() -> impl Strategy<Value = Vec<Renewal>> {
    let renewal = (0u64..60_000, 0u64..15_000, 0u64..15_000, any::<bool>(), any::<bool>());
    let renewal = renewal.prop_map(|(sent, to_server, back, arrives, answered)| Renewal {
        sent,
        to_server,
        back,
        arrives,
        answered,
    });
    prop::collection::vec(renewal, 0..40)
}

proptest! {
    /// Whatever is lost, late or overtaken on the way, and though the two clocks differ in speed by
    /// one per cent: while the holder believes, the server has not ended the session.
    #[test]
    fn it_never_believes_past_the_end_at_the_server(
        ttl_ms in 300u64..30_000,
        grant_takes in 0u64..2_000,
        renewals in renewals(),
        server_runs_fast in any::<bool>(),
    ) {
        let ttl = ms(ttl_ms);
        prop_assert!(ttl >= TTL_MIN);
        // The server's clock counts up to 1 % too fast: its TTL is over that much earlier.
        let server_ttl = if server_runs_fast { ttl_ms * 100 / 101 } else { ttl_ms };

        // What happens, in order of true time: at the server and at the holder.
        enum What { Arrives(usize), Answered(usize), Look }
        let mut events = vec![];
        for (number, renewal) in renewals.iter().enumerate() {
            let arrived = renewal.sent + renewal.to_server;
            if renewal.arrives {
                events.push((arrived, What::Arrives(number)));
                if renewal.answered {
                    events.push((arrived + renewal.back, What::Answered(number)));
                }
            }
        }
        events.extend((0..95_000).step_by(97).map(|time| (time, What::Look)));
        events.sort_by_key(|(time, _)| *time);

        // The grant was sent at 0, took effect at once, and was answered later.
        let mut server_ends = server_ttl;
        let mut server_over = false;
        let mut accepted = vec![false; renewals.len()];
        let mut holder = Tenancy::begin(at(0), ttl);
        for (time, what) in events {
            server_over = server_over || time >= server_ends;
            match what {
                // The server does not bring back what it has ended.
                What::Arrives(number) if !server_over => {
                    accepted[number] = true;
                    server_ends = server_ends.max(time + server_ttl);
                }
                // The answer may come when the session is over already.
                What::Answered(number) if time >= grant_takes && accepted[number] => {
                    holder.acknowledge(at(renewals[number].sent), at(time));
                }
                _ => {}
            }
            if time >= grant_takes && holder.standing(at(time)) != Standing::Lost {
                prop_assert!(!server_over, "believes at {time}, the server ended it at {server_ends}");
                let remaining = holder.safe_until().since(at(time));
                prop_assert!(remaining <= ms(server_ends - time));
            }
        }
    }

    /// Suspect comes before lost, and the next renewal before both.
    #[test]
    fn the_three_moments_are_in_order(ttl_ms in 300u64..600_000) {
        let tenancy = Tenancy::begin(at(0), ms(ttl_ms));
        prop_assert!(tenancy.renew_at() < tenancy.suspect_at());
        prop_assert!(tenancy.suspect_at() <= tenancy.safe_until());
        prop_assert!(margin(ms(ttl_ms)) >= MARGIN_MIN);
    }
}
