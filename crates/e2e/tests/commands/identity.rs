//! Who a candidate is, and whether it is this host that leads.

use std::ffi::OsString;

use tenure_e2e::{Cluster, Ctl, Supervised, eventually, tools};

struct Stage {
    cluster: Cluster,
    ctl: Ctl,
}

impl Stage {
    async fn set() -> Stage {
        let cluster = Cluster::start(1).await;
        let ctl = Ctl::to(&cluster.endpoints()).with_program(tools::tenure());
        Stage { cluster, ctl }
    }

    fn start(&self, words: &[&str]) -> Supervised {
        Supervised::start(&self.cluster.endpoints(), words)
    }

    async fn led_by(&self, name: &str, is_it: impl Fn(&str) -> bool) {
        eventually(&format!("{name} has its leader"), async || {
            let said = self.ctl.run(&["leader", name, "-w", "json"]);
            let leader: serde_json::Value =
                serde_json::from_str(said.out.trim()).map_err(|_| said.err.clone())?;
            let identity = leader["identity"].as_str().unwrap_or_default();
            if is_it(identity) { Ok(()) } else { Err(said.out) }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn is_leader_says_yes_where_a_process_of_this_host_leads() {
    let stage = Stage::set().await;
    let asked = |words: &[&str]| stage.ctl.run(&[&["is-leader"], words].concat());
    assert_eq!(asked(&["jobs"]).code, Some(3), "no candidate leads");
    let here = stage.start(&["elect", "jobs"]);
    here.program.says("leading jobs").await;
    assert_eq!(asked(&["jobs"]).code, Some(0));
    let why = asked(&["jobs", "-v"]).err;
    assert!(why.starts_with("yes: ") && why.contains("asked about host "), "{why}");

    let elsewhere = stage.start(&["elect", "other", "--identity", "alice"]);
    elsewhere.program.says("leading other").await;
    let no = asked(&["other", "-v"]);
    assert!(no.code == Some(3) && no.err.starts_with("no: alice leads other with token"), "{no:?}");
    assert_eq!(asked(&["other", "--identity", "alice"]).code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn is_leader_inside_a_command_means_its_own_tenure() {
    let stage = Stage::set().await;
    let tenure = tools::tenure();
    let asks = format!("{} is-leader jobs -v", tenure.display());
    let work =
        format!("{asks} && echo it leads; TENURE_TOKEN=1 {asks} || echo a former one does not");
    let mut command = stage.start(&["run", "-e", "jobs", "--", "sh", "-c", &work]);
    command.program.ends().await;
    let said = command.program.lines().join("\n");
    assert!(said.contains("yes: ") && said.contains("this command's own tenure, token"), "{said}");
    assert!(said.contains("it leads") && said.contains("a former one does not"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn identity_is_the_flag_then_the_environment_then_host_and_pid_in_every_verb() {
    let stage = Stage::set().await;
    let verbs: [(&str, &[&str]); 4] = [
        ("by-elect", &["elect", "by-elect"]),
        ("by-lock", &["lock", "by-lock"]),
        ("by-run", &["run", "--election", "by-run"]),
        ("by-sidecar", &["sidecar", "--election", "by-sidecar", "--listen", "127.0.0.1:0"]),
    ];
    let environment: Vec<OsString> = vec!["env".into(), "TENURE_IDENTITY=carol".into()];
    let endpoints = stage.cluster.endpoints();
    for (name, words) in verbs {
        let command: &[&str] = if name == "by-run" { &["--", "sleep", "60"] } else { &[] };
        let plain = stage.start(&[words, command].concat());
        let own = format!("/{}", plain.pid());
        stage.led_by(name, |identity| identity.ends_with(&own)).await;
        drop(plain);
        stage.ctl.run(&["evict", name]);

        let named = Supervised::start_behind(&environment, &endpoints, &[words, command].concat());
        stage.led_by(name, |identity| identity == "carol").await;
        drop(named);
        stage.ctl.run(&["evict", name]);

        let flag = [words, &["--identity", "dave"], command].concat();
        let flagged = Supervised::start_behind(&environment, &endpoints, &flag);
        stage.led_by(name, |identity| identity == "dave").await;
        drop(flagged);
    }
}
