//! From a real etcd 3.5.1 to tenure, by a snapshot file: everything that a client could see before, it must
//! see after, and history goes on where it ended.

use std::{path::Path, process::Command};

use tempfile::TempDir;
use tenure::grpc::{Client, Endpoint, Options};
use tenure_e2e::{Cluster, Ctl, Member, Plan, Said, eventually, mvccpb, pb, tools};

use super::view::{View, leases, range};

fn client_of(ctl: &Ctl) -> Client {
    Client::new(Endpoint::list(ctl.endpoints()).unwrap(), Options::default())
}

/// Writes of every kind. Returns the compacted revision.
async fn fill(etcd: &Ctl) -> i64 {
    for n in 0..30 {
        etcd.run(&["put", &format!("key{:02}", n % 10), &format!("value {n}")]).ok();
    }
    let granted = |ttl: &str| {
        let said = etcd.run(&["lease", "grant", ttl]).ok();
        said.split_whitespace().nth(1).unwrap().to_owned()
    };
    let (long, short, empty) = (granted("3000"), granted("600"), granted("70"));
    etcd.run(&["put", "leased/1", "a", "--lease", &long]).ok();
    etcd.run(&["put", "leased/2", "b", "--lease", &long]).ok();
    etcd.run(&["put", "leased/2", "c", "--lease", &short]).ok();
    etcd.run(&["put", "leased/3", "d", "--lease", &empty]).ok();
    etcd.run(&["put", "leased/3", "free"]).ok();
    etcd.run(&["del", "key03"]).ok();
    // Keys in another order than theirs, deletions among puts: sub revisions must keep it.
    etcd.run_with(&["txn"], "\nput z 1\nput a 1\ndel key04\nput m 1\ndel key05 key07\n\n\n").ok();
    etcd.run(&["put", "key03", "again"]).ok();
    let dying = granted("900");
    etcd.run(&["put", "dying/b", "x", "--lease", &dying]).ok();
    etcd.run(&["put", "dying/a", "x", "--lease", &dying]).ok();
    etcd.run(&["compaction", "20", "--physical"]).ok();
    etcd.run(&["lease", "revoke", &dying]).ok();
    etcd.run_with(&["put", "large"], &"x".repeat(100_000)).ok();
    for n in 0..100 {
        // Enough for branch pages.
        etcd.run_with(&["txn"], &format!("\nput many/{n} {n}\nput more/{n} {n}\n\n\n")).ok();
    }
    20
}

fn save(etcd: &Ctl, to: &Path) {
    etcd.run(&["snapshot", "save", to.to_str().unwrap()]).ok();
}

fn import(args: &[&str]) -> Said {
    let output = Command::new(tools::tenure()).arg("import").args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

fn import_for(member: &Member, file: &Path, flags: &[&str]) -> Said {
    let args = [
        "--from",
        file.to_str().unwrap(),
        "--data-dir",
        member.data_dir.to_str().unwrap(),
        "--name",
        &member.name,
        "--initial-cluster",
        member.initial_cluster(),
    ];
    let said = import(&[&args, flags].concat());
    assert!(said.out.contains("tenure serve --name"), "{said:?}");
    assert_eq!(said.code, Some(0), "{said:?}");
    said
}

/// A cluster in which all members begin with the file.
async fn imported(count: usize, file: &Path, flags: &[&str]) -> Cluster {
    let mut cluster = Cluster::prepare(count, Plan::default());
    for member in &mut cluster.members {
        import_for(member, file, flags);
        member.start();
    }
    cluster.ready().await;
    cluster
}

#[tokio::test(flavor = "multi_thread")]
async fn import_keeps_keys_revisions_and_leases() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("etcd.db");
    let etcd = Ctl::with_real_etcd().await;
    let compacted = fill(&etcd).await;
    save(&etcd, &file);
    let before = View::whole(&client_of(&etcd), compacted).await;
    for count in [1, 3] {
        let mut cluster = imported(count, &file, &[]).await;
        cluster.same_everywhere().await;
        for member in &cluster.members {
            let after = View::whole(&member.client(), compacted).await;
            assert_eq!(after.revision, before.revision);
            for (ours, theirs) in after.keys.iter().zip(&before.keys) {
                assert_eq!(ours, theirs, "at revision {}", theirs.0);
            }
            for (ours, theirs) in after.events.iter().zip(&before.events) {
                assert_eq!(ours, theirs);
            }
            assert_eq!(after, before);
        }
        let client = cluster.client();
        let gone = range(&client, compacted - 1).await.unwrap_err();
        assert_eq!(gone, "etcdserver: mvcc: required revision has been compacted");

        // History goes on, so a fencing token made now is larger than any before.
        let put = pb::PutRequest { key: "new".into(), value: "1".into(), ..Default::default() };
        let put = client.kv().put(put).await.unwrap();
        assert_eq!(put.header.unwrap().revision, before.revision + 1);

        // Leases are alive: they can be renewed, and take their keys with them when they end.
        let (lease, _, keys) = before.leases.iter().find(|(_, _, keys)| !keys.is_empty()).unwrap();
        let ctl = Ctl::of(&cluster);
        let hex = format!("{lease:x}");
        ctl.run(&["lease", "keep-alive", "--once", &hex]).ok();
        ctl.run(&["lease", "revoke", &hex]).ok();
        for key in keys {
            assert_eq!(ctl.run(&["get", std::str::from_utf8(key).unwrap()]).ok(), "");
        }

        // All of it survives: the log goes on after the import.
        let last = range(&client, 0).await.unwrap();
        for member in &mut cluster.members {
            member.kill();
            member.start();
        }
        cluster.ready().await;
        cluster.leader().await;
        assert_eq!(range(&cluster.client(), 0).await.unwrap().kvs, last.kvs);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn import_revision_does_not_fall_behind_a_compaction() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("etcd.db");
    let etcd = Ctl::with_real_etcd().await;
    for n in 0..9 {
        etcd.run(&["put", "a", &n.to_string()]).ok();
    }
    etcd.run(&["del", "a"]).ok();
    etcd.run(&["compaction", "11", "--physical"]).ok();
    save(&etcd, &file);
    let cluster = imported(1, &file, &[]).await;
    let now = range(&cluster.client(), 0).await.unwrap();
    assert_eq!((now.header.unwrap().revision, now.kvs.len()), (11, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn import_refuses_with_a_reason() {
    let home = TempDir::new().unwrap();
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let etcd = Ctl::with_real_etcd().await;
    for n in 0..200 {
        etcd.run_with(&["txn"], &format!("\nput k/{n} {n}\nput l/{n} {n}\n\n\n")).ok();
    }
    save(&etcd, Path::new(&path("sound")));
    let sound = std::fs::read(path("sound")).unwrap();
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = sound.clone();
        change(&mut bytes);
        bytes
    };
    // Every page with this flag, in use or not: 1 is a branch, 2 a leaf.
    let pages = |flag: u8| {
        let all = sound.chunks_exact(4096).enumerate();
        let found = all.filter(move |(_, page)| page[8..10] == [flag, 0] && page[10] > 1);
        found.map(|(at, _)| at * 4096).collect::<Vec<_>>()
    };
    let (branches, leaves) = (pages(1), pages(2));
    assert!(!branches.is_empty(), "the tree must have branches");
    let half = sound.len() / 2 / 4096 * 4096;
    for (name, bytes, flags, reason) in [
        ("empty", vec![], &[][..], "is no etcd snapshot: it is too short"),
        (
            "text",
            b"not a database, but long enough to be one?".repeat(50),
            &[],
            "is no etcd snapshot: bbolt's mark",
        ),
        ("half", sound[..half].to_vec(), &[], &format!("at offset {half}: the file ends here")),
        ("raw", sound[..sound.len() - 32].to_vec(), &[], "has no checksum at its end"),
        ("flipped", changed(&|b| b[leaves[0] + 3000] ^= 1), &[], "the checksum of its"),
        (
            "metas",
            changed(&|b| [16 + 40, 4096 + 16 + 40].iter().for_each(|at| b[*at] ^= 1)),
            &["--skip-hash-check"],
            "at offset 16: a meta page whose checksum is wrong",
        ),
        (
            "branch",
            changed(&|b| branches.iter().for_each(|at| b[at + 16 + 8 + 5] ^= 1)),
            &["--skip-hash-check"],
            "is asked for, but there are",
        ),
        (
            "leaf",
            changed(&|b| leaves.iter().for_each(|at| b[at + 16 + 7] ^= 1)),
            &["--skip-hash-check"],
            ": an element points out of its page",
        ),
    ] {
        std::fs::write(path(name), bytes).unwrap();
        let said = import(&[&["--from", &path(name), "--data-dir", &path("new")], flags].concat());
        assert_eq!(said.code, Some(1), "{name}: {said:?}");
        assert!(
            said.err.contains(reason) && said.err.contains(&path(name)),
            "{name}: {}",
            said.err
        );
        assert!(!Path::new(&path("new")).exists(), "{name} left something behind");
    }
    let raw =
        import(&["--from", &path("raw"), "--data-dir", &path("raw.new"), "--skip-hash-check"]);
    assert_eq!(raw.code, Some(0), "{raw:?}");
    let again = import(&["--from", &path("sound"), "--data-dir", &path("raw.new")]);
    assert!(again.err.contains("is not empty"), "{again:?}");

    // Our own files, given by mistake.
    let cluster = imported(1, Path::new(&path("sound")), &[]).await;
    let member = &cluster.members[0];
    for (file, reason) in [
        (member.files("snap")[0].clone(), "it is a snapshot of a tenure server"),
        (member.files("wal")[0].clone(), "it is the log of a tenure server"),
        (member.data_dir.clone(), "it is a directory"),
    ] {
        let said = import(&["--from", file.to_str().unwrap(), "--data-dir", &path("new")]);
        assert!(said.err.contains(reason), "{said:?}");
    }
    let name = import(&["--from", "x", "--data-dir", "y", "--initial-cluster", "n1=http://a:1"]);
    assert_eq!(name.code, Some(2), "{name:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn import_takes_over_users_and_roles() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("etcd.db");
    let etcd = Ctl::with_real_etcd().await;
    etcd.run(&["put", "foo/a", "x"]).ok();
    etcd.run(&["user", "add", "root:pw"]).ok();
    etcd.run(&["user", "add", "ann:ann-pw"]).ok();
    etcd.run(&["user", "add", "cert", "--no-password"]).ok();
    etcd.run(&["role", "add", "ops"]).ok();
    etcd.run(&["role", "grant-permission", "ops", "read", "foo/", "--prefix"]).ok();
    etcd.run(&["user", "grant-role", "ann", "ops"]).ok();
    etcd.run(&["auth", "enable"]).ok();
    let root = ["--user", "root:pw"];
    let status = |ctl: &Ctl| ctl.run(&[&root[..], &["auth", "status"]].concat()).ok();
    let before = status(&etcd);
    etcd.run(&[&root[..], &["snapshot", "save", file.to_str().unwrap()]].concat()).ok();

    let mut cluster = Cluster::prepare(1, Plan::default());
    let member = &mut cluster.members[0];
    let said = import_for(member, &file, &[]);
    assert!(said.out.contains("3 users and 2 roles; they count"), "{said:?}");
    member.start();
    let ours = Ctl::at(member);
    let told = eventually("the member serves", async || {
        let said = ours.run(&[&root[..], &["auth", "status"]].concat());
        if said.code == Some(0) { Ok(said.out) } else { Err(said.err) }
    })
    .await;
    assert_eq!(told, before, "the revision of users goes on");
    for words in [&["user", "list"][..], &["role", "get", "ops"], &["user", "get", "ann"]] {
        let words = [&root[..], words].concat();
        assert_eq!(ours.run(&words).ok(), etcd.run(&words).ok());
    }
    let ann = ["--user", "ann:ann-pw"];
    assert_eq!(ours.run(&[&ann[..], &["get", "foo/a"]].concat()).ok(), "foo/a\nx\n");
    let refused = ours.run(&[&ann[..], &["put", "foo/a", "y"]].concat());
    assert!(refused.err.contains("permission denied"), "{refused:?}");
    assert!(ours.run(&["get", "foo/a"]).err.contains("user name is empty"));

    let mut open = Cluster::prepare(1, Plan::default());
    let member = &mut open.members[0];
    import_for(member, &file, &["--without-auth"]);
    member.start();
    member.ready().await;
    assert_eq!(Ctl::at(member).run(&["get", "foo/a"]).ok(), "foo/a\nx\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn import_log_can_have_a_place_of_its_own() {
    let home = TempDir::new().unwrap();
    let (file, log) = (home.path().join("etcd.db"), home.path().join("log"));
    let etcd = Ctl::with_real_etcd().await;
    etcd.run(&["put", "key", "1"]).ok();
    save(&etcd, &file);
    let mut cluster = Cluster::prepare(1, Plan::default());
    let member = &mut cluster.members[0];
    let flags = ["--wal-dir", log.to_str().unwrap()];
    let said = import_for(member, &file, &flags);
    assert!(said.out.contains(&flags.join(" ")), "it must be started with it: {said:?}");
    assert!(log.is_dir() && !member.data_dir.join("wal").exists());
    let over = home.path().join("over");
    let again = ["--from", file.to_str().unwrap(), "--data-dir", over.to_str().unwrap()];
    let again = import(&[&again, &flags[..]].concat());
    assert!(again.err.contains("log is not empty"), "{again:?}");
    assert!(!over.exists());
    member.spawn.flags = flags.map(str::to_owned).to_vec();
    member.start();
    member.ready().await;
    assert_eq!(has(member).await, ["key"]);
}

/// A nightly backup, and etcd went on after it.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_larger_than_any_that_etcd_gave_out_after_the_file() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("etcd.db");
    let etcd = Ctl::with_real_etcd().await;
    etcd.run(&["put", "kept", "1"]).ok();
    let granted = etcd.run(&["lease", "grant", "3000"]).ok();
    let lease = granted.split_whitespace().nth(1).unwrap();
    etcd.run(&["put", "leased", "1", "--lease", lease]).ok();
    save(&etcd, &file);
    let saved = range(&client_of(&etcd), 0).await.unwrap();
    for n in 0..20 {
        etcd.run(&["put", &format!("lost/{n}"), "1"]).ok();
    }
    let newest = range(&client_of(&etcd), 0).await.unwrap().header.unwrap().revision;
    let mut cluster = imported(3, &file, &["--bump-revision", "1000"]).await;
    let client = cluster.client();
    let before = range(&client, 0).await.unwrap();
    let last = saved.header.unwrap().revision;
    assert_eq!((before.header.unwrap().revision, before.kvs), (last + 1000, saved.kvs));
    let put = pb::PutRequest { key: "token".into(), ..Default::default() };
    let token = client.kv().put(put).await.unwrap().header.unwrap().revision;
    assert!(token == last + 1001 && token > newest, "{token}");
    // What happened between is unknown; a client that had come further is told so.
    for past in [last, newest] {
        let told = range(&client, past).await.unwrap_err();
        assert_eq!(told, "etcdserver: mvcc: required revision has been compacted");
    }
    assert_eq!(leases(&client).await.len(), 1);
    cluster.members.iter_mut().for_each(Member::kill);
    cluster.members.iter_mut().for_each(Member::start);
    cluster.ready().await;
    cluster.same_everywhere().await;
    assert_eq!(range(&cluster.client(), 0).await.unwrap().header.unwrap().revision, token);
}

/// What a member has, whether it finds the others or not.
async fn has(member: &Member) -> Vec<String> {
    let all = pb::RangeRequest {
        key: vec![0].into(),
        range_end: vec![0].into(),
        serializable: true,
        ..Default::default()
    };
    let found = eventually("it answers", async || {
        member.client().kv().range(all.clone()).await.map_err(|error| error.to_string())
    });
    let text = |kv: mvccpb::KeyValue| String::from_utf8(kv.key.to_vec()).unwrap();
    found.await.kvs.into_iter().map(text).collect()
}

/// One snapshot per etcd member instead of the same for all, or a member that was forgotten: all of them begin at the
/// same place of the log, and must not take each other's states for their own.
#[tokio::test(flavor = "multi_thread")]
async fn members_that_did_not_import_the_same_do_not_mix() {
    let home = TempDir::new().unwrap();
    let (file, other) = (home.path().join("etcd.db"), home.path().join("other.db"));
    let etcd = Ctl::with_real_etcd().await;
    etcd.run(&["put", "early", "1"]).ok();
    save(&etcd, &other);
    etcd.run(&["put", "late", "1"]).ok();
    save(&etcd, &file);
    let (all, file, other) = (["early", "late"], Some(&file), Some(&other));
    for begins in [[file, file, other], [file, file, None], [file, None, None]] {
        let mut cluster = Cluster::prepare(3, Plan::default());
        for (member, begins) in cluster.members.iter_mut().zip(begins) {
            begins.into_iter().for_each(|file| drop(import_for(member, file, &[])));
            member.start();
        }
        for member in &cluster.members {
            member.logs("all of them were made of the same file").await;
        }
        // Those that are two of three go on; the third has what it had, and waits.
        let majority = if begins[1] == file { [0, 1] } else { [1, 2] };
        cluster.leader_among(&majority).await;
        let client = cluster.members[majority[1]].client();
        let put = pb::PutRequest { key: "new".into(), ..Default::default() };
        client.kv().put(put).await.unwrap();
        let alone = if begins[1] == file { 2 } else { 0 };
        for at in 0..3 {
            let expected: &[&str] = match begins[at] {
                begun if begun == file => &all,
                Some(_) => &all[..1],
                None => &[],
            };
            let mut found = has(&cluster.members[at]).await;
            found.retain(|key| key != "new" || at == alone);
            assert_eq!(found, expected, "member {at} of {begins:?}");
        }
        assert_eq!(cluster.status(alone).await.unwrap().leader, 0);

        // Put right, it is one cluster, and nothing of what was imported is lost.
        for (member, begun) in cluster.members.iter_mut().zip(begins) {
            if begun != file {
                member.kill();
                std::fs::remove_dir_all(&member.data_dir).unwrap();
                import_for(member, file.unwrap(), &[]);
                member.start();
            }
        }
        cluster.ready().await;
        cluster.same_everywhere().await;
        let found = has(&cluster.members[2]).await;
        assert!(all.iter().all(|key| found.iter().any(|one| one == key)), "{found:?}");
    }
}
