//! Settings from file, environment and flags, as a person at a shell meets them.

use std::{
    collections::BTreeSet,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;
use tenure_e2e::{Cluster, Plan, pb, tools};

/// `tenure serve` with these words and variables, in a directory of its own.
fn serve(home: &Path, environment: &[(&str, &str)], words: &[&str]) -> Output {
    Command::new(tools::tenure())
        .current_dir(home)
        .arg("serve")
        .args(words)
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn config_lists_problems_of_all_sources_at_once() {
    let home = tempfile::tempdir().unwrap();
    let file =
        "name: a\ndata-dirr: /x\nmax-txn-ops: 0\nclient-transport-security:\n  cert-file: c.pem\n";
    std::fs::write(home.path().join("t.yaml"), file).unwrap();
    let output = serve(
        home.path(),
        &[("ETCD_SNAPSHOT_COUNT", "many"), ("TENURE_LOG_LEVEL", "loud")],
        &["--config-file", "t.yaml", "--heartbeat-interval", "x", "--unsafe-no-fsync"],
    );
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    for place in [
        "t.yaml:2: data-dirr: there is no such setting; did you mean data-dir?",
        "t.yaml:3: max-txn-ops: ",
        "t.yaml:5: client-transport-security.cert-file: KeyFile and CertFile must both be present",
        "ETCD_SNAPSHOT_COUNT: ",
        "TENURE_LOG_LEVEL: ",
        "--heartbeat-interval: ",
        "--unsafe-no-fsync: ",
    ] {
        assert!(said.contains(place), "{place} is not in: {said}");
    }
    let made = std::fs::read_dir(home.path()).unwrap().count();
    assert_eq!(made, 1, "nothing is made with settings that cannot work");
}

#[test]
fn config_prints_a_configuration_that_gives_itself() {
    let home = tempfile::tempdir().unwrap();
    let first = serve(
        home.path(),
        &[("ETCD_DATA_DIR", "/d"), ("TENURE_NAME", "n: 1")],
        &["--print-config", "--initial-cluster-token", "it's \"mine\""],
    );
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    let printed = text(&first.stdout);
    assert!(printed.contains("data-dir: /d # ETCD_DATA_DIR\n"), "{printed}");
    assert!(printed.contains("name: \"n: 1\" # TENURE_NAME\n"), "{printed}");
    std::fs::write(home.path().join("again.yaml"), &printed).unwrap();
    let again = serve(home.path(), &[], &["--config-file", "again.yaml", "--print-config"]);
    let values = |printed: &str| -> Vec<String> {
        let lines = printed.lines().map(|line| line.rsplit_once(" # ").map_or(line, |(v, _)| v));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(values(&printed), values(&text(&again.stdout)));
}

#[test]
fn config_knows_every_flag_of_a_real_etcd() {
    let etcd = Command::new(tools::installed("etcd")).arg("--help").output().unwrap();
    let help = text(&etcd.stdout) + &text(&etcd.stderr);
    let flags: BTreeSet<&str> = help
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("--"))
        .map(|line| line.split([' ', '=']).next().unwrap())
        .collect();
    assert!(flags.len() > 80, "{flags:?}");
    let home = tempfile::tempdir().unwrap();
    let unknown = |flag: &&&str| {
        let output = serve(home.path(), &[], &["--print-config", &format!("--{flag}=1")]);
        text(&output.stderr).contains("unexpected argument")
    };
    let unknown: Vec<_> = flags.iter().filter(unknown).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn config_shows_no_client_flag_and_no_foreign_one_in_its_help() {
    let home = tempfile::tempdir().unwrap();
    let help = text(&serve(home.path(), &[], &["--help"]).stdout);
    for flag in ["--endpoints", "--write-out", "--command-timeout", "--enable-v2", "--cacert"] {
        assert!(!help.contains(flag), "{flag} is in: {help}");
    }
    assert!(help.contains("--auto-compaction-retention"));
}

#[tokio::test(flavor = "multi_thread")]
async fn config_runs_with_a_file_made_for_etcd() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("etcd.conf.yml");
    std::fs::write(&path, ETCD_SAMPLE).unwrap();
    let file = ["--config-file", path.to_str().unwrap()];
    let cluster = Cluster::with(1, Plan::flags(&file)).await;
    let client = cluster.members[0].client();
    // The file allows two operations; addresses and name are the flags', which win.
    let op = |key: &'static str| pb::RequestOp {
        request: Some(pb::request_op::Request::RequestPut(pb::PutRequest {
            key: key.into(),
            ..Default::default()
        })),
    };
    let txn = |ops| pb::TxnRequest { success: ops, ..Default::default() };
    client.kv().txn(txn(vec![op("a"), op("b")])).await.unwrap();
    client.kv().txn(txn(vec![op("a"), op("b"), op("c")])).await.unwrap_err();
    let log = cluster.members[0].log();
    for flag in ["max-wals", "discovery-fallback", "strict-reconfig-check"] {
        let warned =
            log.lines().filter(|line| line.contains(&format!(": {flag} has no effect"))).count();
        assert_eq!(warned, 1, "{flag}: {log}");
    }
}

/// In the shape of the sample that etcd comes with: blanks, sections, defaults written out.
const ETCD_SAMPLE: &str = "\
# This is the configuration file for the etcd server.

# Human-readable name for this member.
name: 'default'
data-dir:
wal-dir:
snapshot-count: 10000
heartbeat-interval: 100
election-timeout: 1000
quota-backend-bytes: 0
max-txn-ops: 2
listen-peer-urls: http://localhost:2380
listen-client-urls: http://localhost:2379
max-wals: 5
cors:
discovery:
discovery-fallback: 'proxy'
initial-cluster-state: 'new'
strict-reconfig-check: false
enable-pprof: true
proxy: 'off'
client-transport-security:
  cert-file:
  key-file:
  client-cert-auth: false
  trusted-ca-file:
  auto-tls: false
peer-transport-security:
  cert-file:
  client-cert-auth: false
  auto-tls: false
self-signed-cert-validity: 1
log-level: debug
logger: zap
log-outputs: [stderr]
auto-compaction-mode: periodic
auto-compaction-retention: \"1\"
";

#[tokio::test(flavor = "multi_thread")]
async fn config_logs_nothing_but_json_with_etcds_fields_if_told_to() {
    let home = tempfile::tempdir().unwrap();
    let lines = home.path().join("log");
    let flags = ["--log-format", "json", "--log-level", "debug", "--enable-v2", "--log-outputs"];
    let outputs = format!("stderr,{}", lines.display());
    let flags = [&flags[..], &[&outputs]].concat();
    let mut cluster = Cluster::with(3, Plan::flags(&flags)).await;
    let leader = cluster.leader().await;
    cluster.members[leader].kill();
    cluster.members[leader].start();
    cluster.ready().await;
    assert!(cluster.members[leader].stop().await.success());
    // A start that fails is told in JSON as well.
    let member = &mut cluster.members[leader];
    member.spawn.flags.extend(["--initial-cluster-token", "another"].map(str::to_owned));
    member.start();
    assert!(!member.wait_for_end().await.success());
    // What a person reads at start goes to stdout, which this log holds too.
    let greeting = |line: &&str| line.starts_with("tenure ") || line.starts_with("  ");
    let log = member.log();
    let mut levels = BTreeSet::new();
    for line in log.lines().filter(|line| !greeting(line)) {
        let parsed: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        for field in ["level", "ts", "caller", "msg"] {
            assert!(parsed[field].is_string(), "{field}: {line}");
        }
        let ts = parsed["ts"].as_str().unwrap();
        assert!(ts.len() == 24 && ts.ends_with('Z') && &ts[10..11] == "T", "{ts}");
        levels.insert(parsed["level"].as_str().unwrap().to_owned());
    }
    assert_eq!(levels.into_iter().collect::<Vec<_>>(), ["debug", "error", "info", "warn"]);
    assert!(std::fs::read_to_string(&lines).unwrap().lines().count() > 10);
}
