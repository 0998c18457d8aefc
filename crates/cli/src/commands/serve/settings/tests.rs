use std::{collections::BTreeMap, io::Write};

use clap::{CommandFactory, FromArgMatches};
use tempfile::NamedTempFile;
use tenure_server::config::{AutoCompaction, Config};

use super::*;
use crate::args::Cli;

fn flags(line: &str) -> Flags {
    let words = ["tenure", "serve"].into_iter().chain(line.split_whitespace());
    let matches = Cli::command().try_get_matches_from(words).unwrap_or_else(|e| panic!("{e}"));
    Flags::from_arg_matches(matches.subcommand_matches("serve").unwrap()).unwrap()
}

fn collect(line: &str, environment: &[(&str, &str)]) -> Settings {
    let environment = environment.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
    Settings::collect(&flags(line), environment)
}

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[test]
fn settings_that_are_not_given_are_the_defaults() {
    let mut settings = collect("", &[]);
    let config = settings.read().config;
    assert_eq!(config, Config::default());
    assert_eq!((settings.problems, settings.warnings), (vec![], vec![]));
}

#[test]
fn settings_prefer_flag_then_our_variable_then_etcds_then_file() {
    let file = file("max-txn-ops: 1\nmax-request-bytes: 2001\nsnapshot-count: 3\nname: f\n");
    let environment = [
        ("ETCD_CONFIG_FILE", file.path().to_str().unwrap()),
        ("ETCD_MAX_TXN_OPS", "10"),
        ("ETCD_MAX_REQUEST_BYTES", "2010"),
        ("ETCD_SNAPSHOT_COUNT", "30"),
        ("TENURE_MAX_REQUEST_BYTES", "2100"),
        ("TENURE_SNAPSHOT_COUNT", "300"),
    ];
    let mut settings = collect("--snapshot-count 3000", &environment);
    let config = settings.read().config;
    assert_eq!(settings.problems, [""; 0]);
    assert_eq!(config.name, "f");
    assert_eq!(config.max_txn_ops, 10);
    assert_eq!(config.max_request_bytes, 2100);
    assert_eq!(config.snapshot_count, 3000);
}

#[test]
fn settings_name_every_problem_with_its_place() {
    let file = file("name: a\nmax-txn-opps: 3\nelection-timeout: soon\nmax-txn-ops: 0\n");
    let path = file.path().to_str().unwrap();
    let line = format!("--config-file {path} --pre-vote=maybe --peer-cert-file x --data-dir d");
    let mut settings = collect(&line, &[("ETCD_SNAPSHOT_COUNT", "many"), ("ETCD_METRICS", "all")]);
    let _ = settings.read();
    let mut problems = settings.problems;
    problems.sort();
    let mut expected = [
        format!("{path}:2: max-txn-opps: there is no such setting; did you mean max-txn-ops?"),
        format!(
            "{path}:3: election-timeout: \"soon\" must be milliseconds, or a duration such as 100ms or 1s"
        ),
        format!("{path}:4: max-txn-ops: must be at least 1"),
        "--pre-vote: \"maybe\" must be true or false".to_owned(),
        "ETCD_SNAPSHOT_COUNT: \"many\" is not a number it can take".to_owned(),
        "ETCD_METRICS: \"all\" must be basic or extensive".to_owned(),
        "--peer-cert-file: KeyFile and CertFile must both be present[key: , cert: x]".to_owned(),
    ];
    expected.sort();
    assert_eq!(problems, expected);
}

#[test]
fn settings_name_the_line_of_a_file_that_is_not_yaml() {
    for (text, line) in [("name: a\n- b\n", 2), ("- a\n", 1), ("name: {a: {b: c}}\n", 1)] {
        let file = file(text);
        let settings = collect(&format!("--config-file {}", file.path().display()), &[]);
        let place = format!("{}:{line}: ", file.path().display());
        assert!(settings.problems[0].starts_with(&place), "{text:?}: {:?}", settings.problems);
    }
    let settings = collect("--config-file /nowhere/at/all", &[]);
    assert!(settings.problems[0].starts_with("--config-file: /nowhere/at/all: "));
}

#[test]
fn settings_that_are_printed_give_the_same_again() {
    let mut settings =
        collect("--name a\u{e9} --initial-cluster-token x:y#z", &[("ETCD_WAL_DIR", "/w")]);
    let mut printed = Vec::new();
    print(&settings, &mut printed).unwrap();
    let text = String::from_utf8(printed).unwrap();
    assert!(text.contains("wal-dir: /w # ETCD_WAL_DIR\n"), "{text}");
    assert!(text.contains("initial-cluster-token: \"x:y#z\" # flag\n"), "{text}");
    assert!(text.contains("max-txn-ops: 128 # default\n"), "{text}");
    let file = file(&text);
    let mut again = collect(&format!("--config-file {}", file.path().display()), &[]);
    assert_eq!(again.read().config, settings.read().config);
    assert_eq!(again.problems, [""; 0]);
}

#[test]
fn settings_warn_once_about_a_flag_without_meaning() {
    let settings = collect(
        "--enable-v2 --backend-batch-limit 100 --backend-batch-limit 200 --proxy off",
        &[
            ("ETCD_MAX_WALS", "3"),
            ("ETCD_NONSENSE", "x"),
            ("TENURE_DATADIR", "x"),
            ("TENURE_BIN", "b"),
        ],
    );
    assert_eq!(settings.problems, [""; 0]);
    let about = |name: &str| settings.warnings.iter().filter(|w| w.starts_with(name)).count();
    for name in ["--enable-v2 ", "--backend-batch-limit ", "ETCD_MAX_WALS ", "ETCD_NONSENSE "] {
        assert_eq!(about(name), 1, "{name}: {:?}", settings.warnings);
    }
    assert!(settings.warnings.iter().any(|w| w.ends_with("did you mean TENURE_DATA_DIR?")));
    assert_eq!(settings.warnings.len(), 5);
}

#[test]
fn settings_understand_flags_that_lost_experimental_in_etcd_3_6() {
    let mut settings = collect(
        "--feature-gates InitialCorruptCheck=true --discovery-token= --discovery-dial-timeout 2s \
         --compact-hash-check-time 1m --snapshot-catchup-entries 5000 --memory-mlock \
         --max-learners 1 --bootstrap-defrag-threshold-megabytes 100 \
         --peer-skip-client-san-verification --compaction-batch-limit 1000 \
         --compaction-sleep-interval 10ms --downgrade-check-time 5s --corrupt-check-time 5s \
         --watch-progress-notify-interval 2s --warning-apply-duration 50ms",
        &[],
    );
    let config = settings.read().config;
    assert_eq!(settings.problems, [""; 0]);
    assert_eq!(config.corrupt_check_time.as_secs(), 5);
    assert_eq!(config.watch_progress_notify_interval.as_secs(), 2);
    assert_eq!(config.warning_apply_duration.as_millis(), 50);
    assert!(config.peer_skip_names);
    assert_eq!(settings.warnings.len(), 10, "{:?}", settings.warnings);
    // To find other members by a token would make another cluster.
    let settings = collect("--discovery-token x --discovery-endpoints http://a:1", &[]);
    assert_eq!(settings.problems.len(), 2, "{:?}", settings.problems);
}

#[test]
fn settings_understand_etcds_own_sections_and_durations() {
    let file = file(
        "experimental-corrupt-check-time: 5000000000\nwatch-progress-notify-interval: 2s\n\
         grpc-keepalive-interval: 7000000000\ngrpc-keepalive-timeout: 0s\n\
         listen-client-urls: [http://a:1, 'http://b:2']\nclient-transport-security:\n  cert-file:\n  \
         client-cert-auth: false\npeer-transport-security:\n  auto-tls: true\n",
    );
    let mut settings = collect(&format!("--config-file {}", file.path().display()), &[]);
    let config = settings.read().config;
    assert_eq!(config.corrupt_check_time.as_secs(), 5);
    assert_eq!(config.watch_progress_notify_interval.as_secs(), 2);
    assert_eq!(config.grpc_keepalive_interval.as_secs(), 7);
    assert!(config.grpc_keepalive_timeout.is_zero());
    assert_eq!(config.listen_client_urls, ["http://a:1", "http://b:2"]);
    assert_eq!(settings.problems, [""; 0]);
    assert!(config.peer_tls.auto && !config.client_tls.auto);
}

#[test]
fn settings_of_history_are_read_as_etcd_writes_them() {
    let kept = |line: &str| {
        let mut settings = collect(line, &[]);
        let config = settings.read().config;
        (settings.problems.is_empty(), config.auto_compaction)
    };
    let hours = |n: u64| AutoCompaction::Periodic(std::time::Duration::from_secs(3600 * n));
    assert_eq!(kept(""), (true, hours(1)));
    assert_eq!(kept("--auto-compaction-retention 3"), (true, hours(3)));
    assert_eq!(kept("--auto-compaction-retention=0"), (true, AutoCompaction::Off));
    let revision = "--auto-compaction-mode revision";
    assert_eq!(kept(revision), (true, AutoCompaction::Off));
    let thousand = format!("{revision} --auto-compaction-retention 1000");
    assert_eq!(kept(&thousand), (true, AutoCompaction::Revisions(1000)));
    assert!(!kept(&format!("{revision} --auto-compaction-retention 1h")).0);
    assert!(!kept("--auto-compaction-retention 1ms").0);
}

/// The build that is tested can; a build that cannot says so, and how to get another.
#[test]
fn settings_refuse_spans_in_a_build_without_them() {
    let asked = "--experimental-enable-distributed-tracing --distributed-tracing-address host:1";
    let mut settings = collect(asked, &[]);
    assert_eq!(settings.read_by_a_build(true).collector.unwrap().address, "host:1");
    assert!(settings.problems.is_empty(), "{:?}", settings.problems);
    let _ = settings.read_by_a_build(false);
    let refusal = "--enable-distributed-tracing: this build cannot do it; build with: ";
    assert_eq!(settings.problems, [format!("{refusal}cargo build --release --features otel")]);
    let mut silent = collect("", &[]);
    assert_eq!(silent.read_by_a_build(false).collector, None);
    assert!(silent.problems.is_empty(), "{:?}", silent.problems);
}

#[test]
fn settings_names_are_there_once() {
    let mut seen = BTreeMap::new();
    for name in all_names() {
        assert_eq!(seen.insert(name, ()), None, "{name}");
    }
}

#[test]
fn settings_of_tls_list_everything_that_is_wrong() {
    let missing = "/nowhere/at/all";
    let file = file(&format!(
        "listen-client-urls: https://a:1\ntls-max-version: TLS1.1\nclient-transport-security:\n  cert-file: {missing}\n  \
         key-file: {missing}\n  trusted-ca-file: {missing}\n  allowed-cn: [a, b]\n  allowed-hostname: c\n"
    ));
    let path = file.path().display();
    let line =
        format!("--config-file {path} --client-crl-file {missing} --self-signed-cert-validity 0");
    let mut settings = collect(&line, &[("ETCD_CIPHER_SUITES", "X")]);
    let _ = settings.read();
    let mut problems = settings.problems;
    problems.sort();
    let none = "/nowhere/at/all: No such file or directory (os error 2)";
    let mut expected = [
        format!("{path}:2: tls-max-version: unexpected TLS version \"TLS1.1\" (must be one of: TLS1.2, TLS1.3)"),
        "ETCD_CIPHER_SUITES: unexpected TLS cipher suite \"X\"".to_owned(),
        format!("{path}:4: client-transport-security.cert-file: {none}"),
        format!("{path}:6: client-transport-security.trusted-ca-file: {none}"),
        format!("--client-crl-file: {none}"),
        format!(
            "{path}:8: client-transport-security.allowed-hostname: AllowedCNs and AllowedHostnames are mutually exclusive \
             (cns=[\"a\", \"b\"], hostnames=[\"c\"])"
        ),
        "--self-signed-cert-validity: selfSignedCertValidity is invalid,it should be greater than 0".to_owned(),
    ];
    expected.sort();
    assert_eq!(problems, expected);
    let told = |line: &str| {
        let mut settings = collect(line, &[]);
        let _ = settings.read();
        settings.problems
    };
    let https = "--listen-client-urls http://a:1,https://b:2";
    assert_eq!(
        told(https),
        [
            "--listen-client-urls: TLS key/cert (--cert-file, --key-file) must be provided for client url https://b:2 with \
          HTTPS scheme"
        ]
    );
    assert_eq!(
        told("--cert-file F"),
        ["--cert-file: KeyFile and CertFile must both be present[key: , cert: F]"]
    );
    assert_eq!(told(&format!("{https} --auto-tls")), [""; 0]);
}
