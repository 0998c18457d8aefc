//! Our command with users: its verbs beside etcdctl's, where its password comes from, and where it does not go.

use std::{fs, process::Command};

use tenure_e2e::{Cluster, Ctl, Program, Said, Side, Supervised, tools};

use crate::stage;

/// The life of users and roles, as people type it. Both programs say the same to all of it.
const LIFE: &[&[&str]] = &[
    &["auth", "status"],
    &["user", "add", "root", "--new-user-password", "root-secret"],
    &["user", "add", "ann:ann-secret"],
    &["user", "add", "ann:again"],
    &["user", "add", "zoe", "--no-password"],
    &["user", "list"],
    &["role", "add", "ops"],
    &["role", "add", "ops"],
    &["role", "grant-permission", "ops", "readwrite", "a", "b"],
    &["role", "grant-permission", "ops", "read", "foo/", "--prefix"],
    &["role", "grant-permission", "ops", "write", "z", "--from-key"],
    &["role", "grant-permission", "ops", "READ", "k1"],
    &["role", "grant-permission", "none", "read", "k1"],
    &["role", "get", "ops"],
    &["role", "get", "none"],
    &["role", "list"],
    &["user", "grant-role", "ann", "ops"],
    &["user", "grant-role", "ann", "none"],
    &["user", "get", "ann"],
    &["user", "get", "ann", "--detail"],
    &["user", "get", "nobody"],
    &["auth", "enable"],
    &["--user", "root:root-secret", "auth", "status"],
    &["--user", "ann", "--password", "ann-secret", "put", "a", "1"],
    &["--user", "ann:ann-secret", "put", "c", "1"],
    &["--user", "ann:wrong", "put", "a", "1"],
    &["put", "a", "1"],
    &["--user", "ann:ann-secret", "get", "a", "--print-value-only"],
    &["--user", "root:root-secret", "role", "revoke-permission", "ops", "foo/", "--prefix"],
    &["--user", "root:root-secret", "role", "revoke-permission", "ops", "z", "--from-key"],
    &["--user", "root:root-secret", "role", "revoke-permission", "ops", "a", "b"],
    &["--user", "root:root-secret", "role", "revoke-permission", "ops", "k1"],
    &["--user", "root:root-secret", "role", "revoke-permission", "ops", "k1"],
    &["--user", "root:root-secret", "user", "revoke-role", "ann", "ops"],
    &["--user", "root:root-secret", "user", "revoke-role", "ann", "ops"],
    &["--user", "root:root-secret", "role", "delete", "ops"],
    &["--user", "root:root-secret", "role", "delete", "ops"],
    &["--user", "root:root-secret", "user", "delete", "ann"],
    &["--user", "root:root-secret", "user", "delete", "ann"],
    &["--user", "root:root-secret", "user", "delete", "root"],
    &["--user", "root:root-secret", "auth", "disable"],
    &["auth", "disable"],
    &["role", "get", "root"],
    &["user", "delete", "root"],
    &["user", "delete", "zoe"],
    &["role", "delete", "root"],
];

/// Without what differs from one server to the next.
fn plain(said: Said) -> Said {
    let mut out = String::new();
    for line in said.out.lines() {
        let is_header = ["\"ClusterID\"", "\"MemberID\"", "\"Revision\"", "\"RaftTerm\""]
            .iter()
            .any(|h| line.starts_with(h));
        let json: Result<serde_json::Value, _> = serde_json::from_str(line);
        match json {
            Ok(serde_json::Value::Object(mut object)) => {
                object.remove("header");
                object.remove("authRevision");
                out += &serde_json::Value::Object(object).to_string();
                out.push('\n');
            }
            _ if is_header => {}
            _ if line.starts_with("AuthRevision") => {}
            _ => {
                out += line;
                out.push('\n');
            }
        }
    }
    Said { out, ..said }
}

/// How often and why the two programs differ on one server.
fn compare(theirs: &Ctl, ours: &Ctl, format: &str) {
    let mut wrong = Vec::new();
    let play = |ctl: &Ctl| -> Vec<Said> {
        LIFE.iter().map(|words| plain(ctl.run(&[&["-w", format], *words].concat()))).collect()
    };
    let (theirs, ours) = (play(theirs), play(ours));
    for ((words, theirs), ours) in LIFE.iter().zip(theirs).zip(ours) {
        let words = words.join(" ");
        // What etcdctl writes as text in every format.
        let is_text = words.contains("--detail") || words.contains("auth ");
        if is_text && format != "simple" {
            continue;
        }
        // etcdctl has no fields for some, and its codes of failures are its own.
        if theirs.code == Some(4) {
            assert_eq!(ours.code, Some(0), "{words}: {}", ours.err);
            continue;
        }
        let failed = |said: &Said| said.code != Some(0);
        // Our refusals may say more.
        let says_why = !failed(&theirs) || ours.err.contains("permission denied") || {
            let why = theirs.err.trim_start_matches("Error: ");
            ours.err.contains(why)
        };
        if (failed(&theirs), &theirs.out) != (failed(&ours), &ours.out) || !says_why {
            wrong.push(format!("{words}\n  theirs: {theirs:?}\n  ours:   {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{format}:\n{}", wrong.join("\n"));
}

async fn speak_alike(side: Side) {
    let theirs = side.ctl();
    let ours = theirs.with_program(tools::tenure());
    for format in ["simple", "fields", "json"] {
        // `user get --detail` writes a heading before any format there.
        compare(&theirs, &ours, format);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn auth_verbs_say_what_etcdctl_says_on_a_real_etcd() {
    speak_alike(stage::etcd(1, &[]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn auth_verbs_say_what_etcdctl_says_on_tenure() {
    speak_alike(stage::tenure(1, &[]).await).await;
}

/// Flags and variables.
type Given<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)]);

/// Flags, variables of either name, and a file mean the same.
async fn passwords_come_from(side: Side) {
    let side = stage::with_users(side).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    fs::write(&file, stage::password("alice") + "\n").unwrap();
    let file = file.to_str().unwrap();
    let secret = stage::password("alice");
    let whole = format!("alice:{secret}");
    let run = |flags: &[&str], env: &[(&str, &str)]| {
        let said = Command::new(tools::tenure())
            .args(["--endpoints", &side.endpoints()])
            .args(flags)
            .args(["put", "foo/a", "1"])
            .envs(env.iter().copied())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(!errors.contains(&secret), "{errors}");
        (said.status.code(), errors)
    };
    let good: [Given<'_>; 8] = [
        (&["--user", &whole], &[]),
        (&["--user", "alice", "--password", &secret], &[]),
        (&["--user", "alice", "--password-file", file], &[]),
        (&["--user", "alice"], &[("TENURE_PASSWORD", &secret)]),
        (&[], &[("TENURE_USER", "alice"), ("TENURE_PASSWORD_FILE", file)]),
        (&[], &[("ETCDCTL_USER", &whole)]),
        (&[], &[("ETCDCTL_USER", "alice"), ("ETCDCTL_PASSWORD", &secret)]),
        (&["--debug", "--user", &whole], &[]),
    ];
    for (flags, env) in good {
        let (code, errors) = run(flags, env);
        assert_eq!(code, Some(0), "{flags:?} {env:?}: {errors}");
    }
    let (code, errors) = run(&["--user", "alice"], &[]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("no password for user \"alice\""), "{errors}");
    let (code, errors) = run(&[], &[]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("this cluster has users: give --user"), "{errors}");
    let (_, errors) = run(&["--user", "bob", "--password", &stage::password("bob")], &[]);
    assert!(errors.contains("user \"bob\" may not write \"foo/a\""), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn password_comes_from_flags_variables_and_files_on_a_real_etcd() {
    passwords_come_from(stage::etcd(1, &[]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn password_comes_from_flags_variables_and_files_on_tenure() {
    passwords_come_from(stage::tenure(1, &[]).await).await;
}

/// The variables of a command of `run`.
async fn inherited(cluster: &Cluster, flags: &[&str], env: &[(&str, &str)]) -> String {
    let before: Vec<_> = ["env".to_owned()]
        .into_iter()
        .chain(env.iter().map(|(name, value)| format!("{name}={value}")))
        .map(Into::into)
        .collect();
    let work = ["run", "job", "--once", "--", "sh", "-c", "env; echo that is all"];
    let words = [flags, &work].concat();
    let run = Supervised::start_behind(&before, &cluster.endpoints(), &words);
    run.program.says("that is all").await;
    run.program.lines().join("\n")
}

/// A process that can read another's environment would know the password otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn run_gives_its_command_no_password_but_the_file_it_is_in() {
    // Without users: a login is offered and not needed.
    let cluster = Cluster::start(1).await;
    let env = [
        ("TENURE_PASSWORD", "s3cret"),
        ("ETCDCTL_PASSWORD", "s3cret"),
        ("ETCDCTL_USER", "ann:s3cret"),
        ("TENURE_USER", "ann:s3cret"),
    ];
    let said = inherited(&cluster, &[], &env).await;
    assert!(!said.contains("s3cret"), "{said}");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    fs::write(&file, "s3cret\n").unwrap();
    let file = file.to_str().unwrap();
    let said = inherited(&cluster, &["--user", "ann", "--password-file", file], &[]).await;
    assert!(said.contains(&format!("TENURE_PASSWORD_FILE={file}")), "{said}");
    assert!(said.contains("TENURE_USER=ann") && !said.contains("s3cret"), "{said}");
}

/// At a terminal a password is asked for, and does not appear on it.
#[tokio::test(flavor = "multi_thread")]
async fn password_is_asked_for_at_a_terminal_and_not_shown() {
    let side = stage::with_users(stage::etcd(1, &[]).await).await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/terminal.py");
    let at_a_terminal = |words: &[&str]| {
        let mut command = Command::new(tools::installed("python"));
        command.arg(script).arg(tools::tenure()).args(["--endpoints", &side.endpoints()]);
        Program::start("a terminal", command.args(words))
    };
    let mut put = at_a_terminal(&["--user", "alice", "put", "foo/a", "1"]);
    put.says("Password of alice:").await;
    put.tell("type alice-secret");
    put.says("[exit 0]").await;
    let said = put.lines().join("\n");
    assert!(said.contains("OK") && !said.contains("alice-secret"), "{said}");

    let root = ["--user", "root", "--password", "root-secret"];
    let mut add = at_a_terminal(&[&root[..], &["user", "add", "dan"]].concat());
    add.says("Password of dan:").await;
    add.tell("type dan-secret");
    add.says("Type password of dan again for confirmation:").await;
    add.tell("type dan-secret");
    add.says("User dan created").await;
    let ann = side.ctl().with_program(tools::tenure());
    let said = ann.run(&["--user", "dan:dan-secret", "get", "foo/a"]);
    assert!(said.err.contains("permission denied"), "dan can log in: {}", said.err);

    let mut other = at_a_terminal(&[&root[..], &["user", "passwd", "dan"]].concat());
    other.says("Password of dan:").await;
    other.tell("type one");
    other.says("Type password of dan again").await;
    other.tell("type another");
    other.says("the two passwords of dan differ").await;
    // An interrupt ends it, and the terminal is as before.
    let mut interrupted = at_a_terminal(&["--user", "alice", "put", "foo/a", "1"]);
    interrupted.says("Password of alice:").await;
    interrupted.tell("key 03");
    interrupted.says("[exit 1]").await;
}
