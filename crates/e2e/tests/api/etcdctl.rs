//! etcdctl 3.5.1, verb by verb. The same script runs against a real etcd 3.5.1, one member of ours and
//! three; all must say the same, apart from ids and terms.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
    thread,
};

use serde_json::Value;
use tenure_e2e::{Cluster, Ctl, Said};

/// One step of a script: arguments, and what stands on standard input.
type Step = (&'static str, &'static str);

/// Runs a script. `$L` in a step is the lease that the last grant made.
fn play(ctl: &Ctl, script: &[Step]) -> Vec<(String, Said)> {
    let mut lease = String::new();
    let run = |(step, input): &Step| {
        let args: Vec<String> = words(step).iter().map(|word| word.replace("$L", &lease)).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut said = ctl.run_with(&args, input);
        if step.starts_with("lease grant") && !step.contains("-w") {
            lease = said.out.split_whitespace().nth(1).unwrap_or_default().to_owned();
        }
        said.out = normal(&said.out, &lease);
        said.err = normal(&said.err, &lease);
        ((*step).to_owned(), said)
    };
    script.iter().map(run).collect()
}

/// Splits at spaces; `''` is an empty word.
fn words(step: &str) -> Vec<String> {
    step.split(' ').map(|word| word.trim_matches('\'').to_owned()).collect()
}

/// Output without what must differ between two clusters.
fn normal(text: &str, lease: &str) -> String {
    if let Ok(mut json) = serde_json::from_str::<Value>(text) {
        blank(&mut json);
        return json.to_string();
    }
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let field = line.split(':').next().unwrap_or_default();
        let varies = ["\"ClusterID\"", "\"MemberID\"", "\"RaftTerm\"", "\"Lease\" ", "\"ID\""];
        let line = match line.split_once("remaining(") {
            Some((before, _)) if !lease.is_empty() => format!("{before}remaining(…"),
            _ if varies.iter().any(|name| field.starts_with(name)) => format!("{field}: …"),
            _ => line.to_owned(),
        };
        lines.push(if lease.is_empty() { line } else { line.replace(lease, "LEASE") });
    }
    lines.join("\n")
}

fn blank(json: &mut Value) {
    match json {
        Value::Object(fields) => {
            for (name, value) in fields {
                match name.as_str() {
                    "cluster_id" | "member_id" | "raft_term" | "lease" | "ID" | "id" => {
                        *value = Value::from("…");
                    }
                    "ttl" => {}
                    _ => blank(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(blank),
        _ => {}
    }
}

/// What etcdctl refuses and our own command does.
const ONLY_OURS: [&str; 1] = ["get '' --prefix --count-only -w json"];

/// Whether etcdctl itself came to grief: that is how Go's programs end then.
fn fell_over(said: &Said) -> bool {
    said.code == Some(2) && said.err.contains(".go:")
}

/// Plays a script on a real etcd, on one member, and on three, and compares step by step. Our own command plays it too: it
/// must write the same to its standard output, and succeed where etcdctl does.
async fn same_as_etcd(script: &'static [Step]) {
    let etcd = Ctl::with_real_etcd().await;
    let one = Cluster::start(1).await;
    let three = Cluster::start(3).await;
    let another = Cluster::start(1).await;
    let (of_one, of_three) = (Ctl::of(&one), Ctl::of(&three));
    let by_ours = Ctl::ours(&another.members[0]);
    let [expected, one_said, three_said, by_ours_said] = thread::scope(|scope| {
        [&etcd, &of_one, &of_three, &by_ours]
            .map(|ctl| scope.spawn(|| play(ctl, script)))
            .map(|playing| playing.join().unwrap())
    });
    let mut different = Vec::new();
    for (at, etcd) in expected.iter().enumerate() {
        for (who, ours) in [("one member", &one_said[at]), ("three members", &three_said[at])] {
            if ours != etcd {
                different.push(format!("{}\n  etcd: {:?}\n  {who}: {:?}", etcd.0, etcd.1, ours.1));
            }
        }
        let ours = &by_ours_said[at];
        let shown = |said: &Said| (said.out.clone(), said.code == Some(0));
        if shown(&ours.1) != shown(&etcd.1)
            && !ONLY_OURS.contains(&etcd.0.as_str())
            && !fell_over(&etcd.1)
        {
            different.push(format!("{}\n  etcdctl: {:?}\n  tenure: {:?}", etcd.0, etcd.1, ours.1));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_puts_gets_and_deletes_as_etcd_does() {
    same_as_etcd(&[
        ("put a 1", ""),
        ("put a 2 --prev-kv", ""),
        ("put a 3 -w json --prev-kv", ""),
        ("put b x", ""),
        ("put b/1 y -w fields", ""),
        ("put c", "from standard input\n"),
        ("put c/2 ''", ""),
        ("put b --ignore-value --prev-kv", ""),
        ("put nobody --ignore-value", ""),
        ("put b z --ignore-lease", ""),
        ("put b z --lease=77", ""),
        ("get a", ""),
        ("get a -w json", ""),
        ("get a -w fields", ""),
        ("get nobody", ""),
        ("get nobody -w json", ""),
        ("get ''", ""),
        ("get a c", ""),
        ("get b --prefix", ""),
        ("get '' --prefix -w json", ""),
        ("get '' --from-key", ""),
        ("get b --from-key --limit 2", ""),
        ("get '' --prefix --limit 2 -w json", ""),
        ("get '' --prefix --order DESCEND", ""),
        ("get '' --prefix --sort-by KEY --order ASCEND", ""),
        ("get '' --prefix --sort-by VERSION --order DESCEND", ""),
        ("get '' --prefix --sort-by CREATE --order DESCEND", ""),
        ("get '' --prefix --sort-by MODIFY --order DESCEND", ""),
        ("get '' --prefix --sort-by VALUE --order ASCEND", ""),
        ("get '' --prefix --sort-by MODIFY --order DESCEND --limit 1", ""),
        ("get '' --prefix --keys-only", ""),
        ("get '' --prefix --keys-only -w json", ""),
        ("get '' --prefix --count-only -w fields", ""),
        ("get '' --prefix --count-only -w json", ""),
        ("get a --print-value-only", ""),
        ("get a --hex", ""),
        ("get a --rev 2", ""),
        ("get a --rev 3 -w json", ""),
        ("get a --rev 1", ""),
        ("get a --rev 999", ""),
        ("get a --consistency s -w json", ""),
        ("del nobody", ""),
        ("del a --prev-kv", ""),
        ("del b c --prev-kv -w json", ""),
        ("del c --prefix", ""),
        ("del ''", ""),
        ("get '' --prefix -w json", ""),
        ("get a --rev 4", ""),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_runs_transactions_and_compactions_as_etcd_does() {
    same_as_etcd(&[
        ("put a 1", ""),
        ("put b 1", ""),
        ("txn", "value(\"a\") = \"1\"\n\nput a 2\nget a\ndel b --prev-kv\n\nget b\n\n"),
        ("txn -w json", "value(\"a\") = \"1\"\n\nput a 3\n\nget a\nget b --prefix\n\n"),
        ("txn -w json", "\nget a\nput a 3 --prev-kv\nget a\ndel b\ndel a --prev-kv\nput c 1\n\n\n"),
        ("txn -w json", "\ndel nobody\nget c\ndel c\nget c\nput a 1\n\n\n"),
        ("txn", "mod(\"a\") > \"1\"\ncreate(\"a\") = \"2\"\nver(\"a\") > \"1\"\n\nput c 1\n\n\n"),
        ("txn", "lease(\"a\") = \"0\"\n\nget a\n\n\n"),
        ("txn", "\n\n\n"),
        ("txn", "\nput d 1\nput d 2\n\n\n"),
        ("txn", "\ndel d\nput d 1\n\n\n"),
        ("get '' --prefix -w json", ""),
        ("compaction 3", ""),
        ("compaction 3", ""),
        ("compaction 99", ""),
        ("get a --rev 2", ""),
        ("get a --rev 3", ""),
        ("put a 4", ""),
        ("compaction 5 --physical", ""),
        ("get a --rev 4", ""),
        ("get '' --prefix -w json", ""),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_grants_and_ends_leases_as_etcd_does() {
    same_as_etcd(&[
        ("lease list", ""),
        ("lease grant 100", ""),
        ("put under/1 x --lease=$L", ""),
        ("put under/2 y --lease=$L", ""),
        ("lease timetolive $L", ""),
        ("lease timetolive $L --keys", ""),
        ("lease list", ""),
        ("lease keep-alive --once $L", ""),
        ("get under --prefix -w json", ""),
        ("put under/1 z --ignore-lease", ""),
        ("put under/2 free", ""),
        ("lease timetolive $L --keys", ""),
        ("lease revoke $L", ""),
        ("get under --prefix -w json", ""),
        ("lease timetolive $L", ""),
        ("lease keep-alive --once $L", ""),
        ("lease revoke $L", ""),
        ("lease list", ""),
        ("lease grant 9000000001", ""),
    ])
    .await;
}

/// Lines of a command that does not end, as many as asked for.
fn first_lines(ctl: &Ctl, args: &[&str], count: usize) -> Vec<String> {
    let mut child = ctl
        .command(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().take(count);
    let lines = lines.map(Result::unwrap).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_watches_as_etcd_does() {
    let etcd = Ctl::with_real_etcd().await;
    let three = Cluster::start(3).await;
    let one = Cluster::start(1).await;
    let watched = |ctl: &Ctl| {
        for args in [&["put", "w/1", "a"][..], &["put", "w/1", "b"], &["put", "x", "c"]] {
            ctl.run(args).ok();
        }
        ctl.run(&["put", "w/2", "d"]).ok();
        ctl.run(&["del", "w", "--prefix"]).ok();
        [
            first_lines(ctl, &["watch", "w/1", "--rev=1"], 8),
            first_lines(ctl, &["watch", "w/", "--prefix", "--rev=1"], 13),
            first_lines(ctl, &["watch", "w/", "--prefix", "--rev=3", "--prev-kv"], 12),
            first_lines(ctl, &["watch", "w/1", "w/3", "--rev=2"], 13),
        ]
    };
    let expected = watched(&etcd);
    assert_eq!(watched(&Ctl::of(&three)), expected);
    assert_eq!(watched(&Ctl::ours(&one.members[0])), expected, "our own command");
}

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_keeps_a_lease_alive() {
    for count in [1, 3] {
        let cluster = Cluster::start(count).await;
        let ctl = Ctl::of(&cluster);
        let granted = ctl.run(&["lease", "grant", "1"]).ok();
        let lease = granted.split_whitespace().nth(1).unwrap();
        let expected = format!("lease {lease} keepalived with TTL(1)");
        // A renewal every third of a second: seven of them outlive the TTL twice.
        assert_eq!(first_lines(&ctl, &["lease", "keep-alive", lease], 7), vec![expected; 7]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_shows_members_health_status_and_equal_hashes() {
    for count in [1, 3] {
        let cluster = Cluster::start(count).await;
        let ctl = Ctl::of(&cluster);
        for n in 0..20 {
            ctl.run(&["put", &format!("key{n}"), "value"]).ok();
        }
        cluster.same_everywhere().await;

        let members: Value = json(&ctl, &["member", "list", "-w", "json"]);
        let mut names: Vec<_> = members["members"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| m["name"].as_str().unwrap())
            .collect();
        names.sort_unstable();
        assert_eq!(names, ["n1", "n2", "n3"][..count]);
        let simple = ctl.run(&["member", "list"]).ok();
        assert_eq!(simple.lines().filter(|line| line.contains(", started, ")).count(), count);

        let health = ctl.run(&["endpoint", "health"]).ok();
        assert_eq!(health.matches("is healthy").count(), count, "{health}");
        let health = ctl.run(&["endpoint", "health", "--cluster"]).ok();
        assert_eq!(health.matches("is healthy").count(), count, "{health}");

        let status: Value = json(&ctl, &["endpoint", "status", "-w", "json"]);
        let status = status.as_array().unwrap();
        assert_eq!(status.len(), count);
        let leader = &status[0]["Status"]["leader"];
        for one in status {
            assert_eq!(&one["Status"]["leader"], leader);
            assert_eq!(one["Status"]["header"]["revision"], 21);
            assert!(one["Status"]["version"].as_str().unwrap().starts_with("3.5"));
        }

        let hashes: Value = json(&ctl, &["endpoint", "hashkv", "-w", "json"]);
        let hashes: Vec<_> =
            hashes.as_array().unwrap().iter().map(|one| one["HashKV"]["hash"].clone()).collect();
        assert_eq!(hashes.len(), count);
        assert!(hashes.windows(2).all(|pair| pair[0] == pair[1]), "{hashes:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_moves_the_raft_leader() {
    let cluster = Cluster::start(3).await;
    let ctl = Ctl::of(&cluster);
    let from = cluster.leader().await;
    let to = cluster.other_than(from);
    let id = format!("{:x}", cluster.id(to).await);
    let said = ctl.run(&["move-leader", &id]).ok();
    assert!(said.starts_with("Leadership transferred from "), "{said}");
    assert_eq!(cluster.leader().await, to);
    ctl.run(&["put", "after", "the move"]).ok();
    assert_eq!(ctl.run(&["get", "after", "--print-value-only"]).ok().trim(), "the move");
    let nobody = ctl.run(&["move-leader", "1234"]);
    assert_eq!(nobody.err, "Error: etcdserver: bad leader transferee");
}

fn json(ctl: &Ctl, args: &[&str]) -> Value {
    let said = ctl.run(args).ok();
    serde_json::from_str(&said).unwrap_or_else(|cause| panic!("{cause}: {said}"))
}
