//! Servers restart, and the verbs go on: candidates, streams, and what is said while there is no server.

use tenure_e2e::{Cluster, Ctl, Plan, Supervised, eventually, tools};

fn ours(cluster: &Cluster) -> Ctl {
    Ctl::to(&cluster.endpoints()).with_program(tools::tenure())
}

/// What comes after the last word of a line: tokens are said last.
fn last_number(line: &str) -> i64 {
    line.rsplit(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{line}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn elect_and_lock_are_candidates_again_when_their_session_ends_with_the_server() {
    let mut cluster = Cluster::start(1).await;
    let endpoints = cluster.endpoints();
    let elect = Supervised::start(&endpoints, &["elect", "jobs", "--fast-release"]);
    let first = last_number(&elect.program.says("leading jobs with token").await);
    let lock = Supervised::start(&endpoints, &["lock", "deploy", "--fast-release"]);
    let locked = eventually("the lock's token", async || {
        let lines = lock.program.lines();
        lines.first().and_then(|line| line.parse::<i64>().ok()).ok_or(format!("{lines:?}"))
    })
    .await;
    cluster.members[0].kill();
    elect.program.says("lost jobs: the connection broke; a candidate again").await;
    lock.program.says("lost deploy: the connection broke; a candidate again").await;
    let (told, told_by_lock) = (elect.program.lines().len(), lock.program.lines().len());
    cluster.members[0].start();
    let second = elect.program.says_after(told, "leading jobs with token").await;
    assert!(last_number(&second) > first, "{second} after {first}");
    eventually("another token of the lock", async || {
        let lines = lock.program.lines();
        let mut tokens =
            lines.iter().skip(told_by_lock).filter_map(|line| line.parse::<i64>().ok());
        tokens.next_back().filter(|token| *token > locked).ok_or(format!("{lines:?}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn elect_keeps_its_token_when_its_server_is_back_within_the_ttl() {
    let mut cluster = Cluster::start(1).await;
    let ctl = ours(&cluster);
    let mut elect = Supervised::start(&cluster.endpoints(), &["elect", "jobs", "--ttl", "60s"]);
    let token = last_number(&elect.program.says("leading jobs with token").await);
    cluster.members[0].kill();
    cluster.members[0].start();
    cluster.ready().await;
    // Only a session that is attached again hears of the freeze, or finds its key gone.
    ctl.run(&["freeze", "jobs"]).ok();
    elect.program.says("lost jobs: ").await;
    assert_eq!(elect.program.ends().await.code(), Some(4));
    let history = ctl.run(&["history", "jobs"]).ok();
    assert!(
        history.lines().count() == 1 && history.contains(&format!("token {token}")),
        "{history}"
    );
}

/// Three members are restarted in turn, and every stream goes on without a gap or a repetition.
#[tokio::test(flavor = "multi_thread")]
async fn streams_resume_on_another_member_without_gap_or_repetition() {
    let mut cluster = Cluster::start(3).await;
    let (ctl, endpoints) = (ours(&cluster), cluster.endpoints());
    let granted = ctl.run(&["lease", "grant", "60", "-w", "json"]).ok();
    let granted: serde_json::Value = serde_json::from_str(&granted).unwrap();
    let lease = format!("{:x}", granted["ID"].as_i64().unwrap());
    let observe = Supervised::start(&endpoints, &["observe", "jobs"]);
    observe.program.says("nobody leads").await;
    let watch = Supervised::start(&endpoints, &["watch", "key/", "--prefix"]);
    let renew = Supervised::start(&endpoints, &["lease", "keep-alive", &lease]);
    renew.program.says("keepalived").await;
    // A watch says nothing of its beginning.
    eventually("the watch is there", async || {
        ctl.run(&["put", "key/first", "v"]).ok();
        if watch.program.lines().is_empty() { Err("nothing seen") } else { Ok(()) }
            .map_err(Into::into)
    })
    .await;
    let mut written = 0;
    for at in 0..cluster.members.len() {
        cluster.members[at].kill();
        for _ in 0..3 {
            eventually("a tenure", async || {
                let said = ctl.run(&["lock", "jobs", "--", "true"]);
                if said.code == Some(0) { Ok(()) } else { Err(said.err) }
            })
            .await;
            eventually("a write", async || {
                let said = ctl.run(&["put", &format!("key/{written:03}"), "v"]);
                if said.code == Some(0) { Ok(()) } else { Err(said.err) }
            })
            .await;
            written += 1;
        }
        cluster.members[at].start();
        cluster.ready().await;
    }
    let history = ctl.run(&["history", "jobs", "-w", "json"]).ok();
    let tenures: Vec<serde_json::Value> =
        history.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let wanted: Vec<(String, String)> = tenures
        .iter()
        .flat_map(|tenure| {
            ["leads", "ended"].map(|what| (what.to_owned(), tenure["token"].to_string()))
        })
        .collect();
    eventually("every beginning and end, once and in order", async || {
        let seen: Vec<(String, String)> = observe
            .program
            .lines()
            .iter()
            .filter_map(|line| {
                let columns: Vec<&str> = line.split('\t').collect();
                let token = columns.iter().find_map(|column| column.strip_prefix("token "))?;
                Some((columns[1].to_owned(), token.to_owned()))
            })
            .collect();
        if seen == wanted { Ok(()) } else { Err(format!("{seen:?} is not {wanted:?}")) }
    })
    .await;
    eventually("every key, in order", async || {
        let lines = watch.program.lines();
        let mut keys: Vec<String> =
            lines.into_iter().filter(|line| line.starts_with("key/0")).collect();
        // What was written twice, because the first answer was lost, is seen twice.
        keys.dedup();
        let wanted: Vec<String> = (0..written).map(|key| format!("key/{key:03}")).collect();
        if keys == wanted { Ok(()) } else { Err(format!("{keys:?}")) }
    })
    .await;
    let said = renew.program.lines().len();
    renew.program.says_after(said, "keepalived").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn candidates_wait_for_a_server_if_they_are_asked_to() {
    let mut cluster = Cluster::prepare(1, Plan::default());
    let (ctl, endpoints) = (ours(&cluster), cluster.endpoints());
    let off = ctl.run(&["run", "-e", "jobs", "--wait-for-server=off", "--", "true"]);
    assert!(off.code == Some(69) && off.err.contains("no session could be opened"), "{off:?}");
    assert_eq!(ctl.run(&["elect", "jobs"]).code, Some(69), "elect does not wait by itself");
    assert_eq!(ctl.run(&["lock", "deploy"]).code, Some(69), "nor does lock");

    let elect = Supervised::start(&endpoints, &["elect", "jobs", "--wait-for-server"]);
    let run = Supervised::start(&endpoints, &["run", "-e", "work", "--", "sh", "-c", "echo works"]);
    for waiting in [&elect, &run] {
        waiting.program.says("waiting for a server: no session could be opened").await;
        waiting.program.says("is a server running? start one with: tenure serve").await;
    }
    cluster.members[0].start();
    elect.program.says("leading jobs with token").await;
    run.program.says("works").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn minority_is_called_no_quorum_by_every_verb() {
    let mut cluster = Cluster::start(3).await;
    let (ctl, alone) = (ours(&cluster), cluster.members[2].client);
    eventually("all members know elections", async || {
        let said = ctl.run(&["lock", "first", "--", "true"]);
        if said.code == Some(0) { Ok(()) } else { Err(said.err) }
    })
    .await;
    cluster.members[0].kill();
    cluster.members[1].kill();
    let text = format!("no quorum: member {alone} reachable, no raft leader");
    for words in [
        &["leader", "jobs"][..],
        &["get", "key"],
        &["put", "key", "value"],
        &["elect", "jobs"],
        &["lock", "deploy", "--", "true"],
        &["run", "-e", "jobs", "--wait-for-server=off", "--", "true"],
    ] {
        let said = ctl.run(words);
        assert!(said.code == Some(69) && said.err.contains(&text), "{words:?}: {said:?}");
    }
    // The time that a session may take to be opened is that of every request.
    let patient = ["--command-timeout", "90s", "elect", "jobs", "--ttl", "30s"];
    let patient = Supervised::start(&cluster.endpoints(), &patient);
    patient.program.says("waiting to lead jobs").await;
    assert_eq!(ctl.run(&["leader", "jobs"]).code, Some(69), "it takes the ten seconds it has");
    cluster.members[0].start();
    patient.program.says("leading jobs with token").await;
}
