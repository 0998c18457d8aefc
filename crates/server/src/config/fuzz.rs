//! Settings as people and machines may write them.

use std::time::Duration;

use proptest::prelude::*;
use tenure_damage::{damaged_text, frugally, hold};

use super::*;

fn url() -> impl Strategy<Value = String> {
    let sound = prop_oneof![
        Just("http://127.0.0.1:2380"),
        Just("http://[::1]:2380/"),
        Just("https://node-1:1"),
        Just("http://é:65535"),
    ];
    damaged_text(sound.prop_map(str::to_owned))
}

#[test]
fn addresses() {
    hold(1000, url(), |url| {
        let Ok(found) = frugally(url.len(), || address(&url)) else { return Ok(()) };
        prop_assert_eq!(address(&format!("http://{found}")), Ok(found));
        Ok(())
    });
}

#[test]
fn whatever_is_set_is_judged() {
    let cluster = "a=http://h:1,b=http://h:2,b=http://h:3, c=http://[::1]:9";
    let cluster = damaged_text(Just(cluster.to_owned()));
    let times = prop_oneof![Just(Duration::ZERO), Just(Duration::MAX), any::<Duration>()];
    let numbers = any::<(u64, usize, usize, u64)>();
    let names = prop_oneof![Just("a".to_owned()), any::<String>()];
    let all =
        (cluster, names, url(), [times.clone(), times.clone(), times.clone(), times], numbers);
    hold(1000, all, |(initial_cluster, name, url, times, numbers)| {
        let [heartbeat_interval, election_timeout, kept, corrupt_check_time] = times;
        let config = Config {
            name,
            initial_cluster,
            listen_client_urls: vec![url.clone(), url.clone()],
            listen_peer_urls: vec![url.clone()],
            initial_advertise_peer_urls: vec![url],
            heartbeat_interval,
            election_timeout,
            auto_compaction: AutoCompaction::Periodic(kept),
            corrupt_check_time,
            snapshot_count: numbers.0,
            max_txn_ops: numbers.1,
            max_request_bytes: numbers.2,
            quota_backend_bytes: numbers.3,
            ..Config::default()
        };
        let bytes = config.initial_cluster.len() + 3 * config.listen_peer_urls[0].len();
        frugally(bytes + 1000, || {
            let problems = config.problems();
            let (members, me) = (config.members(), config.member_id());
            let _ = config.cluster_id();
            let known = members.iter().any(|member| member.id == me);
            prop_assert!(known || !problems.is_empty(), "sound settings without this member");
            Ok(())
        })
    });
}
