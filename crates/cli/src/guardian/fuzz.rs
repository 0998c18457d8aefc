//! What the levels of a guardian may hear. Only our own kind speaks to them, but a guardian that dies of
//! a word guards nothing.

use proptest::prelude::*;
use tenure_damage::{damaged, damaged_text, frugally, hold};

use super::words::{Charge, News, Order};

#[test]
fn guardian_orders_and_news_that_are_damaged_are_refused_or_read() {
    let sound = prop_oneof![
        Just("until 1234567890123"),
        Just("stop 15"),
        Just("kill"),
        Just("tell 10"),
        Just("done"),
        Just("started 77"),
        Just("heard 18446744073709551615"),
        Just("halted -21"),
        Just("ended-code 3"),
        Just("ended-signal 9"),
        Just("gone"),
    ];
    hold(2000, damaged_text(sound.prop_map(str::to_owned)), |line| {
        if let Some(order) = frugally(line.len(), || Order::parse(&line)) {
            prop_assert_eq!(Order::parse(order.line().trim_end()), Some(order));
        }
        if let Some(news) = frugally(line.len(), || News::parse(&line)) {
            prop_assert_eq!(News::parse(news.line().trim_end()), Some(news));
        }
        Ok(())
    });
}

#[test]
fn guardian_charges_that_are_damaged_are_refused_or_read() {
    let sound =
        br#"{"grace_ms":5000,"kill_time_ms":18446744073709551615,"nice":-5,"until_ns":7,"session":
        {"id":-1,"ttl_ms":9000,"endpoints":"a:1,b:2","user":["a","b"]},"marker":"/run/x",
        "watchdog":{"device":"/dev/watchdog","timeout_ms":1}}"#;
    hold(1000, damaged(Just(sound.to_vec())), |line| {
        let read = frugally(line.len(), || serde_json::from_slice::<Charge>(&line));
        let Ok(charge) = read else { return Ok(()) };
        let _ = (charge.grace(), charge.kill_time(), charge.until());
        let written = serde_json::to_vec(&charge).unwrap();
        let again: Charge = serde_json::from_slice(&written).unwrap();
        prop_assert_eq!(serde_json::to_vec(&again).unwrap(), written);
        Ok(())
    });
}
