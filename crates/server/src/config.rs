//! How a server is set up, and the rules its settings must keep.

use std::{fmt, path::PathBuf, time::Duration};

use tenure_api::{ClusterId, Member, MemberId};

/// A server's settings, under etcd's names.
#[derive(Clone, Debug)]
pub struct Config {
    /// `--name`: this member's human name.
    pub name: String,
    /// `--data-dir`: where everything is kept.
    pub data_dir: PathBuf,
    /// `--wal-dir`: where the log is kept, if not there.
    pub wal_dir: Option<PathBuf>,
    /// `--listen-client-urls`: where clients are listened to.
    pub listen_client_urls: Vec<String>,
    /// `--advertise-client-urls`: where clients are told to come.
    pub advertise_client_urls: Vec<String>,
    /// `--listen-peer-urls`: where other members are listened to.
    pub listen_peer_urls: Vec<String>,
    /// `--initial-advertise-peer-urls`: where other members reach this one.
    pub initial_advertise_peer_urls: Vec<String>,
    /// `--initial-cluster`: all members, `name=url,name=url`. A name may come more than once.
    pub initial_cluster: String,
    /// `--initial-cluster-state`: a cluster that starts for the first time, or one that runs.
    pub initial_cluster_state: ClusterState,
    /// `--initial-cluster-token`: keeps clusters with the same addresses apart.
    pub initial_cluster_token: String,
    /// `--heartbeat-interval`.
    pub heartbeat_interval: Duration,
    /// `--election-timeout`.
    pub election_timeout: Duration,
    /// `--snapshot-count`: log entries between snapshots, at the most.
    pub snapshot_count: u64,
    /// `--max-txn-ops`.
    pub max_txn_ops: usize,
    /// `--max-request-bytes`.
    pub max_request_bytes: usize,
    /// `--pre-vote`.
    pub pre_vote: bool,
    /// `--watch-progress-notify-interval`.
    pub watch_progress_notify_interval: Duration,
}

/// Whether the cluster starts for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterState {
    /// It does.
    New,
    /// It runs already.
    Existing,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            name: "default".into(),
            data_dir: "default.tenure".into(),
            wal_dir: None,
            listen_client_urls: vec!["http://127.0.0.1:2379".into()],
            advertise_client_urls: vec!["http://127.0.0.1:2379".into()],
            listen_peer_urls: vec!["http://127.0.0.1:2380".into()],
            initial_advertise_peer_urls: vec!["http://127.0.0.1:2380".into()],
            initial_cluster: "default=http://127.0.0.1:2380".into(),
            initial_cluster_state: ClusterState::New,
            initial_cluster_token: "tenure-cluster".into(),
            heartbeat_interval: Duration::from_millis(50),
            election_timeout: Duration::from_millis(500),
            snapshot_count: 100_000,
            max_txn_ops: 128,
            max_request_bytes: 1_572_864,
            pre_vote: true,
            watch_progress_notify_interval: Duration::from_secs(600),
        }
    }
}

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
            for url in urls {
                if let Err(rule) = address(url) {
                    broken(flag, rule);
                }
            }
        }
        for (flag, urls) in [
            ("listen-peer-urls", &self.listen_peer_urls),
            ("initial-advertise-peer-urls", &self.initial_advertise_peer_urls),
        ] {
            if urls.len() > 1 {
                broken(flag, "members reach each other by one URL each".into());
            }
        }
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
        problems
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
        let mut all: Vec<_> = members.iter().flat_map(|(_, urls)| urls).collect();
        all.sort_unstable();
        if let Some(twice) = all.windows(2).find(|pair| pair[0] == pair[1]) {
            broken("initial-cluster", format!("{} stands there twice", twice[0]));
        }
        let sorted = |urls: &[String]| {
            let mut urls = urls.to_vec();
            urls.sort_unstable();
            urls
        };
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

    fn check_times(&self, broken: &mut impl FnMut(&'static str, String)) {
        if self.heartbeat_interval < Duration::from_millis(1) {
            broken("heartbeat-interval", "must be at least 1 ms".into());
        }
        if self.election_timeout < 5 * self.heartbeat_interval {
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

    /// The members the cluster starts with, in order of their ids. Only for settings without problems.
    pub fn members(&self) -> Vec<Member> {
        let mut members: Vec<Member> = parse_cluster(&self.initial_cluster)
            .unwrap_or_default()
            .into_iter()
            .map(|(name, mut peer_urls)| {
                peer_urls.sort_unstable();
                let id = MemberId(hash(
                    peer_urls.iter().map(String::as_str).chain([&self.initial_cluster_token[..]]),
                ));
                Member { id, name, peer_urls, client_urls: vec![], is_learner: false }
            })
            .collect();
        members.sort_by_key(|member| member.id);
        members
    }

    /// This member's id: a hash of its peer URLs and the cluster's token.
    pub fn member_id(&self) -> MemberId {
        let me = self.members().into_iter().find(|member| member.name == self.name);
        me.map_or(MemberId(0), |member| member.id)
    }

    /// The cluster's id: a hash of its first members and its token.
    pub fn cluster_id(&self) -> ClusterId {
        let ids: Vec<String> = self.members().iter().map(|member| member.id.to_string()).collect();
        ClusterId(hash(ids.iter().map(String::as_str).chain([&self.initial_cluster_token[..]])))
    }
}

/// `name=url,name=url` as names with their URLs, in order of appearance.
fn parse_cluster(text: &str) -> Result<Vec<(String, Vec<String>)>, String> {
    let mut members: Vec<(String, Vec<String>)> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let Some((name, url)) = part.split_once('=') else {
            return Err(format!("{part:?} must be NAME=URL"));
        };
        match members.iter_mut().find(|(known, _)| known == name) {
            Some((_, urls)) => urls.push(url.to_owned()),
            None => members.push((name.to_owned(), vec![url.to_owned()])),
        }
    }
    if members.is_empty() {
        return Err("must name at least one member as NAME=URL".into());
    }
    Ok(members)
}

/// The `host:port` of a URL.
pub fn address(url: &str) -> Result<String, String> {
    let rest = match url.split_once("://") {
        Some(("http", rest)) => rest,
        Some(("https", _)) => {
            return Err(format!("{url}: TLS arrives in a later version; use http://"));
        }
        _ => return Err(format!("{url:?} must begin with http://")),
    };
    let authority = rest.trim_end_matches('/');
    let port = authority
        .rsplit_once(':')
        .and_then(|(host, port)| (!host.is_empty()).then_some(port)?.parse::<u16>().ok());
    match port {
        Some(_) if !authority.contains('/') => Ok(authority.to_owned()),
        _ => Err(format!("{url:?} must be http://HOST:PORT")),
    }
}

/// FNV-1a over the parts, with a zero byte after each; never 0, which raft reserves.
fn hash<'a>(parts: impl Iterator<Item = &'a str>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in part.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    // Stirred once more, because the last bytes of similar addresses differ least.
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
    (hash ^ (hash >> 32)).max(1)
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
            listen_client_urls: vec!["tcp://x".into()],
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
                "initial-cluster",
                "initial-cluster",
                "election-timeout",
                "max-txn-ops"
            ]
        );
    }

    #[test]
    fn members_agree_on_ids_whatever_the_order() {
        let a = Config {
            initial_cluster: "a=http://h:1,b=http://h:2,c=http://h:3".into(),
            ..Config::default()
        };
        let b = Config {
            initial_cluster: "c=http://h:3,a=http://h:1,b=http://h:2".into(),
            ..Config::default()
        };
        assert_eq!(a.members(), b.members());
        assert_eq!(a.cluster_id(), b.cluster_id());
        let other = Config { initial_cluster_token: "other".into(), ..a.clone() };
        assert_ne!(a.cluster_id(), other.cluster_id());
    }

    #[test]
    fn an_address_needs_a_host_and_a_port() {
        assert_eq!(address("http://127.0.0.1:2379").as_deref(), Ok("127.0.0.1:2379"));
        assert_eq!(address("http://[::1]:2379/").as_deref(), Ok("[::1]:2379"));
        for bad in
            ["127.0.0.1:2379", "http://:1", "http://a", "http://a:b", "https://a:1", "http://a:1/x"]
        {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
