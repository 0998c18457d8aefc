//! Elections from the shell: the leader is shown, handed over, frozen and remembered.

use std::process::{Child, Command, Stdio};

use tenure_e2e::{Cluster, Ctl, Said, eventually, tools};

struct Candidate(Child);

impl Candidate {
    fn stand(cluster: &Cluster, name: &str, identity: &str) -> Candidate {
        let mut command = Command::new(tools::tenure());
        command.args(["--endpoints", &cluster.endpoints(), "elect", name, "--identity", identity]);
        Candidate(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// SIGSTOP: it neither runs nor dies.
    fn pause(&self) {
        let pid = rustix::process::Pid::from_raw(self.0.id() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    }

    fn ends(mut self) -> (i32, String) {
        let code = self.0.wait().unwrap().code().unwrap_or(-1);
        let mut said = String::new();
        std::io::Read::read_to_string(&mut self.0.stderr.take().unwrap(), &mut said).unwrap();
        (code, said)
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn led_by(ctl: &Ctl, name: &str, identity: &str) -> serde_json::Value {
    eventually(&format!("{identity} leads"), async || {
        let said = ctl.run(&["leader", name, "-w", "json"]).out;
        let leader: serde_json::Value =
            serde_json::from_str(said.trim()).map_err(|_| format!("nobody: {said}"))?;
        if leader["identity"] == identity { Ok(leader) } else { Err(said) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn leadership_is_handed_over_frozen_and_remembered() {
    let cluster = Cluster::start(3).await;
    let ctl = Ctl::to(&cluster.endpoints()).with_program(tools::tenure());
    let alice = Candidate::stand(&cluster, "jobs", "alice");
    let first = led_by(&ctl, "jobs", "alice").await;
    let bob = Candidate::stand(&cluster, "jobs", "bob");
    eventually("bob waits", async || {
        let said = ctl.run(&["candidates", "jobs"]).out;
        let lines: Vec<&str> = said.lines().collect();
        if lines.len() == 2 && lines[1].starts_with("bob\twaits") { Ok(()) } else { Err(said) }
    })
    .await;
    let is_leader = |who: &str| ctl.run(&["is-leader", "jobs", "--identity", who]).code;
    assert_eq!((is_leader("alice"), is_leader("bob")), (Some(0), Some(3)));

    ctl.run(&["transfer", "jobs", "--to", "bob"]).ok();
    let second = led_by(&ctl, "jobs", "bob").await;
    assert!(second["token"].as_i64() > first["token"].as_i64());
    let (code, said) = alice.ends();
    assert!(code == 0 && said.contains("making room in jobs for bob"), "{code}: {said}");

    let frozen = ctl.run(&["freeze", "jobs", "-w", "json"]).ok();
    assert_eq!(frozen.trim(), r#"{"name":"jobs","done":"frozen"}"#);
    let (code, said) = bob.ends();
    assert!(code == 4 && said.contains("frozen"), "{code}: {said}");
    assert_eq!(ctl.run(&["leader", "jobs"]).code, Some(3));
    ctl.run(&["resume", "jobs"]).ok();
    let told: Vec<String> = ctl.run(&["history", "jobs"]).ok().lines().map(str::to_owned).collect();
    assert!(told[0].starts_with("alice") && told[0].ends_with("handed over"), "{told:?}");
    assert!(told[1].starts_with("bob") && told[1].ends_with("frozen"), "{told:?}");
    let began = told[0].split('\t').nth(2).unwrap();
    assert!(began.parse::<jiff::Timestamp>().is_ok() && began.ends_with('Z'), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn elect_without_waiting_is_told_at_once() {
    let cluster = Cluster::start(1).await;
    let ctl = Ctl::to(&cluster.endpoints()).with_program(tools::tenure());
    let _alice = Candidate::stand(&cluster, "jobs", "alice");
    let leader = led_by(&ctl, "jobs", "alice").await;
    let Said { code, err, .. } = ctl.run(&["elect", "jobs", "-n"]);
    assert!(
        code == Some(3) && err.contains("jobs is held by another candidate"),
        "{code:?}: {err}"
    );
    let token = leader["token"].to_string();
    let evicted = ctl.run(&["evict", "jobs", "--token", &token]).ok();
    assert_eq!(evicted.trim(), format!("evicted alice with token {token}"));
    let again = ctl.run(&["evict", "jobs", "--token", &token]).ok();
    assert_eq!(again.trim(), format!("nobody has token {token} any more"));
    assert_eq!(ctl.run(&["resume", "jobs"]).code, Some(1), "it is not frozen");
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_resigns_when_an_operator_asks_for_it() {
    let cluster = Cluster::start(3).await;
    let ctl = Ctl::to(&cluster.endpoints()).with_program(tools::tenure());
    assert_eq!(ctl.run(&["resign", "jobs"]).code, Some(3), "nobody leads");
    let alice = Candidate::stand(&cluster, "jobs", "alice");
    led_by(&ctl, "jobs", "alice").await;
    let Said { code, err, .. } = ctl.run(&["resign", "jobs"]);
    assert!(code == Some(1) && err.contains("nobody waits behind alice"), "{code:?}: {err}");
    let _bob = Candidate::stand(&cluster, "jobs", "bob");
    eventually("bob waits", async || {
        let said = ctl.run(&["candidates", "jobs"]).out;
        if said.contains("bob\twaits") { Ok(()) } else { Err(said) }
    })
    .await;
    let said = ctl.run(&["resign", "jobs", "-w", "json"]).ok();
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["from"], &said["to"]), (&"alice".into(), &"bob".into()));
    assert_eq!(said["ended"], "transferred");
    let leader = led_by(&ctl, "jobs", "bob").await;
    assert_eq!(leader["token"], said["to_token"]);
    assert_eq!(alice.ends().0, 0, "alice made room by itself");
}

/// A candidate that has waited has not led meanwhile, wherever that is shown.
#[tokio::test(flavor = "multi_thread")]
async fn leader_times_count_from_leading_and_waiting_is_told_apart() {
    let cluster = Cluster::start(1).await;
    let ctl = Ctl::to(&cluster.endpoints()).with_program(tools::tenure());
    let alice = Candidate::stand(&cluster, "jobs", "alice");
    let first = led_by(&ctl, "jobs", "alice").await;
    let bob = Candidate::stand(&cluster, "jobs", "bob");
    let waiting = eventually("bob waits", async || {
        let said = ctl.run(&["candidates", "jobs", "-w", "json"]).out;
        let bob = said.lines().nth(1).ok_or_else(|| said.clone())?;
        Ok(serde_json::from_str::<serde_json::Value>(bob).unwrap())
    })
    .await;
    assert_eq!(waiting["waits_since_unix_ms"], waiting["since_unix_ms"]);
    assert_eq!(waiting.get("leads_since_unix_ms"), None, "{waiting}");
    ctl.run(&["resign", "jobs"]).ok();
    let leader = led_by(&ctl, "jobs", "bob").await;
    let history = ctl.run(&["history", "jobs", "-w", "json"]).json();
    assert_eq!(first["leads_since_unix_ms"], history[0]["from_unix_ms"]);
    assert_eq!(leader["leads_since_unix_ms"], history[1]["from_unix_ms"]);
    assert_eq!(leader["since_unix_ms"], waiting["since_unix_ms"], "when it joined is kept");
    assert_eq!(leader.get("waits_since_unix_ms"), None, "{leader}");
    let ms = |value: &serde_json::Value| value.as_u64().unwrap();
    let waited = ms(&leader["leads_since_unix_ms"]) - ms(&leader["since_unix_ms"]);
    assert!(waited > 0, "{leader}");
    assert_eq!(ms(&leader["waited_ms"]), waited);
    let locks = &ctl.run(&["locks", "-w", "json"]).json()[0];
    assert_eq!(locks["leader"]["leads_since_unix_ms"], leader["leads_since_unix_ms"]);
    let doctor = &ctl.run(&["doctor", "jobs", "-w", "json"]).json()[0];
    assert!(doctor.to_string().contains("\"leads_since_unix_ms\""), "{doctor}");
    drop((alice, bob));
}

/// A leader that does not answer is overtaken when its time is over, and no earlier.
#[tokio::test(flavor = "multi_thread")]
async fn leader_that_does_not_make_room_is_overtaken() {
    let cluster = Cluster::start(1).await;
    let ctl = Ctl::to(&cluster.endpoints()).with_program(tools::tenure());
    let alice = Candidate::stand(&cluster, "jobs", "alice");
    led_by(&ctl, "jobs", "alice").await;
    let _bob = Candidate::stand(&cluster, "jobs", "bob");
    eventually("bob waits", async || {
        let said = ctl.run(&["candidates", "jobs"]).out;
        if said.contains("bob\twaits") { Ok(()) } else { Err(said) }
    })
    .await;
    alice.pause();
    let asked = std::time::Instant::now();
    let said = ctl.run(&["resign", "jobs", "--within", "1s"]).ok();
    assert!(asked.elapsed() >= std::time::Duration::from_secs(1), "alice had a second");
    assert!(said.starts_with("bob leads jobs with token"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_by_etcds_means_cannot_be_asked_and_that_is_said() {
    let cluster = Cluster::start(1).await;
    let ctl = Ctl::to(&cluster.endpoints()).with_program(tools::tenure());
    let mut command = Ctl::of(&cluster).command(&["elect", "jobs", "alice"]);
    let _alice = Candidate(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    eventually("alice leads", async || {
        let said = ctl.run(&["leader", "jobs"]);
        if said.code == Some(0) { Ok(()) } else { Err(said.err) }
    })
    .await;
    let _bob = Candidate::stand(&cluster, "jobs", "bob");
    let Said { code, err, .. } = ctl.run(&["resign", "jobs"]);
    assert_eq!(code, Some(1));
    assert!(err.contains("by etcd's means") && err.contains("tenure evict jobs"), "{err}");
    eventually("bob waits", async || {
        let said = ctl.run(&["candidates", "jobs"]).out;
        if said.contains("bob\twaits") { Ok(()) } else { Err(said) }
    })
    .await;
    let refused = ctl.command(&["transfer", "jobs", "--to", "bob"]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said.contains("it came by etcd's means") && said.contains("tenure evict"), "{said}");
}

/// Candidates choose their names: none may clear an operator's screen or forge a line.
#[tokio::test(flavor = "multi_thread")]
async fn identity_of_others_cannot_rule_a_terminal() {
    let cluster = Cluster::start(1).await;
    let ctl = Ctl::to(&cluster.endpoints()).with_program(tools::tenure());
    let evil = "mallory\x1b[2J\r\nroot\tleads";
    let shown = "mallory\\x1b[2J\\r\\nroot\\tleads";
    // By etcd's means, where an identity is a key's value: a session's may have no control characters.
    let lease = ctl.run(&["lease", "grant", "3600"]).ok();
    let lease = lease.split(' ').nth(1).unwrap().to_owned();
    ctl.run(&["put", &format!("jobs\x1b[H/{lease}"), evil, "--lease", &lease]).ok();
    led_by(&ctl, "jobs\x1b[H", evil).await;
    let _bob = Candidate::stand(&cluster, "jobs\x1b[H", "bob");
    eventually("bob waits", async || {
        let said = ctl.run(&["candidates", "jobs\x1b[H"]).out;
        if said.contains("bob\twaits") { Ok(()) } else { Err(said) }
    })
    .await;
    for (words, lines) in [
        (&["leader", "jobs\x1b[H"][..], Some(1)),
        (&["candidates", "jobs\x1b[H"], Some(2)),
        (&["history", "jobs\x1b[H"], Some(1)),
        (&["locks"], Some(1)),
        (&["doctor"], None),
    ] {
        let said = ctl.run(words).out;
        let unseen = |c: char| c.is_control() && c != '\n' && c != '\t';
        assert!(said.contains(shown) && !said.contains(unseen), "{words:?}: {said:?}");
        assert!(lines.is_none_or(|lines| said.lines().count() == lines), "{words:?}: {said:?}");
    }
    let err = ctl.run(&["resign", "jobs\x1b[H", "--no-wait"]).err;
    assert!(err.contains(shown) && !err.contains('\x1b'), "{err:?}");
}
