//! The rules that settings must keep, all of them checked before anything is touched.

use std::{fmt, path::Path, time::Duration};

use super::{
    AutoCompaction, Config,
    cluster::{address, parse_cluster},
};

/// A setting that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which flag.
    pub flag: &'static str,
    /// What is wrong and what would be right.
    pub rule: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--{}: {}", self.flag, self.rule)
    }
}

/// The longest election timeout, as in etcd.
const ELECTION_TIMEOUT_MAX: Duration = Duration::from_secs(50);

/// Bounds on the largest request: it must fit into one frame between members with room to spare.
const REQUEST_BYTES_MIN: usize = 1 << 10;
const REQUEST_BYTES_MAX: usize = 32 << 20;
/// History is looked at ten times in its period; more often costs more than it frees.
const COMPACTION_PERIOD_MIN: Duration = Duration::from_secs(1);
/// Every check reads the whole store.
const CORRUPT_CHECK_MIN: Duration = Duration::from_secs(1);

impl Config {
    /// Every rule that is broken, at once.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut broken = |flag, rule: String| problems.push(Problem { flag, rule });
        if self.name.is_empty() {
            broken("name", "must not be empty".into());
        }
        for (flag, urls) in [
            ("listen-client-urls", &self.listen_client_urls),
            ("advertise-client-urls", &self.advertise_client_urls),
            ("listen-peer-urls", &self.listen_peer_urls),
            ("initial-advertise-peer-urls", &self.initial_advertise_peer_urls),
        ] {
            if urls.is_empty() {
                broken(flag, "at least one URL is needed, such as http://127.0.0.1:2379".into());
            }
            for rule in urls.iter().filter_map(|url| address(url).err()) {
                broken(flag, rule);
            }
        }
        for rule in self.listen_metrics_urls.iter().filter_map(|url| address(url).err()) {
            broken("listen-metrics-urls", rule);
        }
        for (flag, urls) in [
            ("listen-peer-urls", &self.listen_peer_urls),
            ("initial-advertise-peer-urls", &self.initial_advertise_peer_urls),
        ] {
            if urls.len() > 1 {
                broken(flag, "members reach each other by one URL each".into());
            }
        }
        self.check_places(&mut broken);
        self.check_cluster(&mut broken);
        self.check_times(&mut broken);
        if self.max_txn_ops == 0 {
            broken("max-txn-ops", "must be at least 1".into());
        }
        if !(REQUEST_BYTES_MIN..=REQUEST_BYTES_MAX).contains(&self.max_request_bytes) {
            let rule = format!("must be from {REQUEST_BYTES_MIN} to {REQUEST_BYTES_MAX}");
            broken("max-request-bytes", rule);
        }
        if self.snapshot_count == 0 {
            broken("snapshot-count", "must be at least 1".into());
        }
        self.check_upkeep(&mut broken);
        self.check_tls(&mut broken);
        problems
    }

    /// What must not be the same place.
    fn check_places(&self, broken: &mut impl FnMut(&'static str, String)) {
        let addresses = |urls: &[String]| -> Vec<String> {
            urls.iter().filter_map(|url| address(url).ok()).collect()
        };
        let clients = addresses(&self.listen_client_urls);
        // Port 0 is a free one each time.
        let shared = addresses(&self.listen_peer_urls)
            .into_iter()
            .filter(|peer| clients.contains(peer) && !peer.ends_with(":0"));
        for address in shared {
            let rule = format!("{address} must not be in --listen-client-urls too");
            broken("listen-peer-urls", rule);
        }
        // The log is a folder in the data directory unless it is elsewhere, never its very top.
        let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        if let Some(wal_dir) = &self.wal_dir
            && whole(wal_dir) == whole(&self.data_dir)
        {
            let rule = format!("{} must not be --data-dir too", wal_dir.display());
            broken("wal-dir", rule);
        }
    }

    fn check_cluster(&self, broken: &mut impl FnMut(&'static str, String)) {
        let members = match parse_cluster(&self.initial_cluster) {
            Ok(members) => members,
            Err(rule) => return broken("initial-cluster", rule),
        };
        for (name, urls) in &members {
            if urls.len() > 1 {
                broken("initial-cluster", format!("{name} must have one URL"));
            }
            for url in urls {
                if let Err(rule) = address(url) {
                    broken("initial-cluster", rule);
                }
            }
        }
        // By address: neither a slash at the end nor the scheme makes another.
        let sorted = |urls: &[String]| {
            let place = |url: &String| address(url).unwrap_or_else(|_| url.clone());
            let mut places: Vec<_> = urls.iter().map(place).collect();
            places.sort_unstable();
            places
        };
        let all: Vec<String> = members.iter().flat_map(|(_, urls)| urls).cloned().collect();
        if let Some(twice) = sorted(&all).windows(2).find(|pair| pair[0] == pair[1]) {
            broken("initial-cluster", format!("{} stands there twice", twice[0]));
        }
        match members.iter().find(|(name, _)| *name == self.name) {
            None => broken(
                "initial-cluster",
                format!(
                    "--name {} is not among its names ({})",
                    self.name,
                    members.iter().map(|(name, _)| &name[..]).collect::<Vec<_>>().join(", ")
                ),
            ),
            Some((_, urls)) if sorted(urls) != sorted(&self.initial_advertise_peer_urls) => broken(
                "initial-advertise-peer-urls",
                format!("must be what --initial-cluster says of {}: {}", self.name, urls.join(",")),
            ),
            Some(_) => {}
        }
    }

    fn check_upkeep(&self, broken: &mut impl FnMut(&'static str, String)) {
        if let AutoCompaction::Periodic(kept) = self.auto_compaction
            && kept < COMPACTION_PERIOD_MIN
        {
            let rule =
                format!("{kept:?} must be 0 (for never) or at least {COMPACTION_PERIOD_MIN:?}");
            broken("auto-compaction-retention", rule);
        }
        if !self.corrupt_check_time.is_zero() && self.corrupt_check_time < CORRUPT_CHECK_MIN {
            let rule = format!(
                "{:?} must be 0 (for never) or at least {CORRUPT_CHECK_MIN:?}",
                self.corrupt_check_time
            );
            broken("corrupt-check-time", rule);
        }
    }

    fn check_times(&self, broken: &mut impl FnMut(&'static str, String)) {
        if self.heartbeat_interval < Duration::from_millis(1) {
            broken("heartbeat-interval", "must be at least 1 ms".into());
        }
        if self.election_timeout < self.heartbeat_interval.saturating_mul(5) {
            broken(
                "election-timeout",
                format!(
                    "{:?} must be at least 5 times --heartbeat-interval {:?}",
                    self.election_timeout, self.heartbeat_interval
                ),
            );
        }
        if self.election_timeout > ELECTION_TIMEOUT_MAX {
            broken(
                "election-timeout",
                format!("{:?} must not exceed {ELECTION_TIMEOUT_MAX:?}", self.election_timeout),
            );
        }
        if self.watch_progress_notify_interval < Duration::from_millis(100) {
            broken("watch-progress-notify-interval", "must be at least 100ms".into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_settings_are_sound() {
        assert_eq!(Config::default().problems(), []);
    }

    #[test]
    fn every_broken_rule_is_listed_at_once() {
        let config = Config {
            name: "a".into(),
            data_dir: "data".into(),
            wal_dir: Some("./data/".into()),
            listen_client_urls: vec!["tcp://x".into(), "http://127.0.0.1:2380/".into()],
            initial_cluster: "b=http://127.0.0.1:1,c=http://127.0.0.1:1".into(),
            election_timeout: Duration::from_millis(100),
            max_txn_ops: 0,
            ..Config::default()
        };
        let flags: Vec<_> = config.problems().iter().map(|problem| problem.flag).collect();
        assert_eq!(
            flags,
            [
                "listen-client-urls",
                "listen-peer-urls",
                "wal-dir",
                "initial-cluster",
                "initial-cluster",
                "election-timeout",
                "max-txn-ops"
            ]
        );
    }

    #[test]
    fn a_slash_at_the_end_makes_no_other_address() {
        let url = |url: &str| vec![url.to_owned()];
        let config = Config {
            initial_cluster: "default=http://127.0.0.1:2380/".into(),
            initial_advertise_peer_urls: url("http://127.0.0.1:2380"),
            ..Config::default()
        };
        assert_eq!(config.problems(), []);
        let twice = "default=http://127.0.0.1:2380,b=http://127.0.0.1:2380/";
        let config = Config { initial_cluster: twice.into(), ..config };
        let told: Vec<_> = config.problems().iter().map(ToString::to_string).collect();
        assert_eq!(told, ["--initial-cluster: 127.0.0.1:2380 stands there twice"]);
    }

    #[test]
    fn free_ports_are_not_the_same_address() {
        let config = Config {
            listen_client_urls: vec!["http://127.0.0.1:0".into()],
            listen_peer_urls: vec!["http://127.0.0.1:0".into()],
            ..Config::default()
        };
        assert_eq!(config.problems(), []);
    }
}
