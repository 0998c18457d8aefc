//! Every verb of etcdctl 3.5.1 and 3.4.23 against three members, and what came of it: the table in docs/reference/etcdctl.md
//! is made from the one below, and a verb that either program knows and the table does not fails the test.
//!
//! What is deterministic is compared with a real etcd 3.5.1, asked by the same program. `tests/etcdctl.rs` goes
//! deeper into flags and formats of single verbs.

use std::{
    collections::BTreeSet,
    fmt::Write,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::Stdio,
};

use tenure_e2e::{Cluster, Ctl, Said, eventually, tools};

/// What is to come of a verb.
enum Result {
    /// Exactly what etcd says, apart from ids and times.
    Same(&'static [&'static str]),
    /// The first lines of a command that does not end, as with etcd.
    SameLines(&'static str, usize),
    /// It does what it says; etcd's words are among what it prints.
    Works(&'static str, &'static str),
    /// Tried in a way of its own.
    Tried,
    /// Too long for a test: run by hand.
    ByHand,
    /// It asks no server.
    Local(Option<&'static str>),
}

use Result::{ByHand, Local, Same, SameLines, Tried, Works};

/// Verb, result, remark. They run in this order, on the same keys as on the real etcd.
const VERBS: &[(&str, Result, &str)] = &[
    ("put", Same(&["put a 1", "put a 2 --prev-kv", "put b/1 x", "put b/2 y"]), ""),
    ("get", Same(&["get a", "get b --prefix --keys-only", "get a --rev 2", "get nobody"]), ""),
    ("del", Same(&["del b --prefix --prev-kv", "del nobody"]), ""),
    ("txn", Same(&["txn"]), ""),
    ("watch", SameLines("watch a --rev 2", 6), ""),
    ("compaction", Same(&["compaction 3", "compaction 3", "compaction 999"]), ""),
    ("lease grant", Same(&["lease grant 100", "put leased x --lease=$L"]), ""),
    ("lease timetolive", Same(&["lease timetolive $L --keys"]), ""),
    ("lease keep-alive", Same(&["lease keep-alive --once $L"]), ""),
    ("lease list", Same(&["lease list"]), ""),
    ("lease revoke", Same(&["lease revoke $L", "lease revoke $L", "get leased"]), ""),
    ("lock", Same(&["lock l echo held"]), "the recipe inside etcdctl, with its limits"),
    ("elect", Tried, "the recipe inside etcdctl, with its limits"),
    ("alarm list", Same(&["alarm list"]), ""),
    ("alarm disarm", Same(&["alarm disarm"]), ""),
    ("auth status", Same(&["auth status"]), ""),
    (
        "endpoint health",
        Works("endpoint health", "is healthy: successfully committed proposal"),
        "",
    ),
    ("endpoint status", Works("endpoint status", ", 3.5."), ""),
    (
        "endpoint hashkv",
        Works("endpoint hashkv", ", "),
        "hashes are comparable among our members only",
    ),
    ("member list", Works("member list", ", started, n1, "), ""),
    ("move-leader", Works("move-leader $F", "Leadership transferred from"), ""),
    ("defrag", Works("defrag", "Finished defragmenting etcd member"), "there is nothing to do"),
    ("make-mirror", Tried, ""),
    ("check perf", ByHand, "takes a minute"),
    ("check datascale", ByHand, "reads memory from `/metrics`"),
    ("member add", Tried, ""),
    ("member promote", Tried, ""),
    (
        "member update",
        Works("member update $M --peer-urls=http://127.0.0.1:2", "updated in cluster"),
        "",
    ),
    ("member remove", Works("member remove $M", "removed from cluster"), ""),
    (
        "snapshot save",
        Works("snapshot save $D/saved", "Snapshot saved at"),
        "a file that etcd and `tenure snapshot restore` take",
    ),
    ("snapshot status", Works("snapshot status $D/saved", ", "), ""),
    (
        "snapshot restore",
        Works("snapshot restore $D/saved --data-dir $D/restored", ""),
        "makes a data directory for etcd; `tenure snapshot restore` makes one of ours",
    ),
    ("user add", Same(&["user add root:pw", "user add ann:pw", "user add ann:pw"]), ""),
    ("user list", Same(&["user list"]), ""),
    ("role add", Same(&["role add r", "role add r"]), ""),
    (
        "role grant-permission",
        Same(&["role grant-permission r read k", "role grant-permission r readwrite p/ --prefix"]),
        "",
    ),
    ("role get", Same(&["role get r", "role get none"]), ""),
    ("role list", Same(&["role list"]), ""),
    ("user grant-role", Same(&["user grant-role ann r", "user grant-role ann none"]), ""),
    ("user get", Same(&["user get ann", "user get ann --detail", "user get none"]), ""),
    ("user passwd", Same(&["user passwd ann --interactive=false"]), ""),
    (
        "auth enable",
        Same(&["auth enable", "get k", "get k --user ann:pw", "put k v --user ann:pw"]),
        "makes the role root, as with etcd",
    ),
    ("auth disable", Same(&["auth disable", "auth disable --user root:pw", "get k"]), ""),
    ("role revoke-permission", Same(&["role revoke-permission r k"]), ""),
    ("user revoke-role", Same(&["user revoke-role ann r", "user revoke-role ann r"]), ""),
    ("role delete", Same(&["role delete r", "role delete r"]), ""),
    ("user delete", Same(&["user delete ann", "user delete ann"]), ""),
    ("version", Local(Some("version")), ""),
    ("help", Local(Some("help")), ""),
    ("completion bash", Local(Some("completion bash")), ""),
    ("completion fish", Local(Some("completion fish")), ""),
    ("completion powershell", Local(Some("completion powershell")), ""),
    ("completion zsh", Local(Some("completion zsh")), ""),
    ("migrate", Local(None), "reads a data directory of etcd 2"),
];

/// The table stands between these.
const BEGIN: &str = "<!-- verbs: begin -->\n";
const END: &str = "<!-- verbs: end -->";

/// What stands on the standard input of some steps.
fn input(step: &str) -> &'static str {
    match step.split(' ').next() {
        Some("txn") => "value(\"a\") = \"2\"\n\nput a 3\nget a\n\nget a\n\n",
        Some("user") => "pw\n",
        _ => "",
    }
}

/// One program on one cluster.
struct Stage {
    ctl: Ctl,
    lease: String,
    member: String,
    follower: String,
    home: String,
}

impl Stage {
    fn new(ctl: Ctl, follower: u64, home: &Path) -> Stage {
        let follower = format!("{follower:x}");
        let home = home.to_str().unwrap().to_owned();
        Stage { ctl, lease: String::new(), member: "1".to_owned(), follower, home }
    }

    fn words(&self, step: &str) -> Vec<String> {
        let known = [("$L", &self.lease), ("$M", &self.member), ("$F", &self.follower)];
        let filled = known.iter().fold(step.to_owned(), |text, (name, is)| text.replace(name, is));
        filled.replace("$D", &self.home).split(' ').map(str::to_owned).collect()
    }

    fn run(&mut self, step: &str) -> Said {
        let words = self.words(step);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut said = self.ctl.run_with(&words, input(step));
        let second = said.out.split_whitespace().nth(1).unwrap_or_default().to_owned();
        match step.split_once(' ') {
            _ if said.code != Some(0) => {}
            Some(("lease", rest)) if rest.starts_with("grant") => self.lease = second,
            _ => {}
        }
        said.out = self.plain(&said.out);
        said.err = self.plain(&said.err);
        said
    }

    /// Without what must differ between two clusters.
    fn plain(&self, text: &str) -> String {
        let text = match &self.lease[..] {
            "" => text.to_owned(),
            lease => text.replace(lease, "LEASE"),
        };
        match text.split_once("remaining(") {
            Some((before, after)) => format!(
                "{before}remaining(…{}",
                after.trim_start_matches(|c: char| c.is_ascii_digit())
            ),
            None => text,
        }
    }

    /// The first lines of a command that does not end.
    fn lines(&self, step: &str, count: usize) -> Vec<String> {
        let words = self.words(step);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = self.ctl.command(&words);
        let quiet = command.stdin(Stdio::null()).stderr(Stdio::null());
        let mut child = quiet.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().take(count);
        let lines = lines.map(std::result::Result::unwrap).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        lines
    }

    /// The verbs that this program names in its help.
    fn verbs(&self) -> BTreeSet<String> {
        let help = self.ctl.run(&["help"]).ok();
        let (_, commands) = help.split_once("COMMANDS:").unwrap();
        let (commands, _) = commands.split_once("OPTIONS:").unwrap();
        let verbs = commands.lines().filter_map(|line| line.trim().split_once('\t'));
        verbs.map(|(verb, _)| verb.trim().to_owned()).collect()
    }
}

/// Runs every verb that a program knows; answers which those are.
async fn play(program: &Ctl) -> BTreeSet<String> {
    let home = tempfile::TempDir::new().unwrap();
    let etcd = Ctl::with_real_etcd().await;
    let mut cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let follower = cluster.id(cluster.other_than(leader)).await;
    let mut theirs = Stage::new(etcd.with_program(program.program()), 0, home.path());
    let of_ours = Ctl::of(&cluster).with_program(program.program());
    let mut ours = Stage::new(of_ours, follower, home.path());
    let verbs = ours.verbs();
    for (verb, result, _) in VERBS.iter().filter(|(verb, ..)| verbs.contains(*verb)) {
        match result {
            Same(steps) => {
                for step in *steps {
                    assert_eq!(ours.run(step), theirs.run(step), "{step}");
                }
            }
            SameLines(step, count) => {
                assert_eq!(ours.lines(step, *count), theirs.lines(step, *count), "{step}");
            }
            Works(step, text) if *verb == "snapshot save" => {
                // etcdctl saves from one member only.
                let one = Ctl::to(&cluster.members[0].client.to_string());
                let ctl = one.with_program(program.program());
                works(verb, text, Stage::new(ctl, 0, home.path()).run(step));
            }
            Works(step, text) => works(verb, text, ours.run(step)),
            Tried if *verb == "elect" => {
                let said = ours.lines("elect office me", 2);
                assert!(said[0].starts_with("office/") && said[1] == "me", "{said:?}");
            }
            Tried if *verb == "member add" => ours.member = joined(&ours, &mut cluster).await,
            Tried if *verb == "member promote" => promoted(&mut ours, &cluster).await,
            Tried => mirror(&ours).await,
            Local(Some(step)) => assert_eq!(ours.run(step).code, Some(0), "{verb}"),
            ByHand | Local(None) => {}
        }
    }
    verbs
}

/// Some of what it prints goes to stderr: that of `endpoint health` and `defrag`.
fn works(verb: &str, text: &str, said: Said) {
    assert_eq!(said.code, Some(0), "{verb}: {said:?}");
    assert!(said.out.contains(text) || said.err.contains(text), "{verb}: {said:?}");
}

/// A learner is added, and follows the cluster. Answers its id.
async fn joined(stage: &Stage, cluster: &mut Cluster) -> String {
    let at = cluster.add(&stage.ctl, &["--learner"]);
    cluster.members[at].start();
    cluster.members[at].logs("caught up with the raft leader").await;
    format!("{:x}", cluster.id(at).await)
}

/// The learner gets a vote as soon as the raft leader knows how far it is.
async fn promoted(stage: &mut Stage, cluster: &Cluster) {
    eventually("the learner is promoted", async || {
        let said = stage.run("member promote $M");
        let done = said.code == Some(0) && said.out.contains("promoted in cluster");
        if done { Ok(()) } else { Err(format!("{said:?}")) }
    })
    .await;
    let learner = cluster.status(cluster.members.len() - 1).await.unwrap().is_learner;
    assert!(!learner, "it has a vote");
}

/// make-mirror copies what is there and follows.
async fn mirror(from: &Stage) {
    let to = Cluster::start(1).await;
    let mut command = from.ctl.command(&["make-mirror", &to.members[0].client.to_string()]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let there = Ctl::of(&to);
    eventually("the mirror has the key", async || {
        let said = there.run(&["get", "a", "--print-value-only"]);
        if said.out.trim() == "3" { Ok(()) } else { Err(format!("{said:?}")) }
    })
    .await;
    child.kill().unwrap();
    child.wait().unwrap();
}

fn told(result: &Result) -> String {
    match result {
        Same(_) | SameLines(..) => "same as with etcd".to_owned(),
        Works(..) | Tried => "works".to_owned(),
        ByHand => "works (run by hand)".to_owned(),
        Local(_) => "asks no server".to_owned(),
    }
}

fn table(newer: &BTreeSet<String>, older: &BTreeSet<String>) -> String {
    let mut table = "| verb | 3.5.1 | 3.4.23 | |\n|---|---|---|---|\n".to_owned();
    for (verb, result, remark) in VERBS {
        let cell = |known: &BTreeSet<String>| match known.contains(*verb) {
            true => told(result),
            false => "—".to_owned(),
        };
        writeln!(table, "| `{verb}` | {} | {} | {remark} |", cell(newer), cell(older)).unwrap();
    }
    table
}

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_verbs_do_what_the_table_says() {
    let newer = Ctl::to("");
    let older = newer.with_program(tools::system("etcdctl", "etcd-client"));
    assert!(newer.run(&["version"]).ok().starts_with("etcdctl version: 3.5.1\n"));
    assert!(older.run(&["version"]).ok().starts_with("etcdctl version: 3.4."));
    let (newer, older) = (play(&newer).await, play(&older).await);
    let listed: BTreeSet<String> = VERBS.iter().map(|(verb, ..)| (*verb).to_owned()).collect();
    assert_eq!(newer.union(&older).cloned().collect::<BTreeSet<_>>(), listed);

    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/etcdctl.md");
    let found = fs::read_to_string(&page).unwrap();
    let from = found.find(BEGIN).expect("the page has a place for the table") + BEGIN.len();
    let to = found.find(END).expect("the place has an end");
    let fresh = format!("{}{}{}", &found[..from], table(&newer, &older), &found[to..]);
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        fs::write(&page, fresh).unwrap();
    } else {
        assert!(
            found == fresh,
            "docs/reference/etcdctl.md is stale: run this test with UPDATE_GOLDENFILES=1"
        );
    }
}

/// With a scheme in the endpoint, clientv3 3.4 sends all of it as the `:authority` of requests to one member.
#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_of_debian_asks_members_by_url() {
    let etcd = Ctl::with_real_etcd().await;
    let cluster = Cluster::start(1).await;
    let id = format!("{:x}", cluster.id(0).await);
    let at = |endpoints: &str| Ctl::to(&format!("http://{endpoints}"));
    let older = |ctl: Ctl| ctl.with_program(tools::system("etcdctl", "etcd-client"));
    let (theirs, ours) = (older(at(etcd.endpoints())), older(at(&cluster.endpoints())));
    for verb in [&["endpoint", "status"][..], &["endpoint", "hashkv"], &["defrag"]] {
        assert_eq!(theirs.run(verb).code, Some(0), "{verb:?}");
        let said = ours.run(verb);
        assert_eq!(said.code, Some(0), "{verb:?}: {said:?}");
    }
    assert_eq!(ours.run(&["move-leader", &id]).code, Some(0));
}
