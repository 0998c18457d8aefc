//! docs/how-to/operate.md and docs/how-to/migrate-from-etcd.md, run from top to bottom.
//!
//! Their shell blocks run in one shell against real members, and a real etcd, with the addresses of the page
//! replaced by free ones. `tenure_e2e::page` says what else a page may ask for.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use tempfile::TempDir;
use tenure_e2e::{Address, Cluster, Ctl, Etcd, Plan, page, pb, reserve, tools};

/// Longer than this nothing on a page takes.
const PATIENCE_SECS: &str = "120";

/// A page whose machines, 10.0.0.1 and so on, are these.
fn with_machines(name: &str, machines: &[(Address, Address)]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    let mut page = fs::read_to_string(path).unwrap();
    for (machine, (client, peer)) in machines.iter().enumerate().rev() {
        let machine = machine + 1;
        page = page.replace(&format!("10.0.0.{machine}:2379"), &client.to_string());
        page = page.replace(&format!("10.0.0.{machine}:2380"), &peer.to_string());
    }
    page
}

fn machines(count: usize) -> Vec<(Address, Address)> {
    reserve(2 * count).chunks(2).map(|pair| (pair[0], pair[1])).collect()
}

/// Runs a script to its end, in a directory of its own. Each process is known as `$pid_` and its name.
async fn run(script: String, processes: &[(&str, u32)]) -> Output {
    let home = TempDir::new().unwrap();
    let folder = |program: &Path| program.parent().unwrap().display().to_string();
    let rest = std::env::var("PATH").unwrap_or_default();
    let path = [folder(&tools::tenure()), folder(&tools::installed("etcdctl")), rest].join(":");
    let mut shell = Command::new("timeout");
    shell.args([PATIENCE_SECS, "bash", "-c", &script]).current_dir(home.path());
    shell.env("PATH", path).env("ETCDCTL_API", "3");
    for (name, pid) in processes {
        shell.env(format!("pid_{name}"), pid.to_string());
    }
    let said = tokio::task::spawn_blocking(move || shell.output()).await.unwrap().unwrap();
    let errors = String::from_utf8_lossy(&said.stderr);
    let last: Vec<_> = errors.lines().filter(|line| !line.contains(" INFO ")).collect();
    assert!(said.status.success(), "{}: {}", said.status, last.join("\n"));
    said
}

#[tokio::test]
async fn operations_page_commands_work() {
    let machines = machines(9);
    let page = with_machines("how-to/operate.md", &machines);
    let plan = Plan { addresses: Some(machines[..3].to_vec()), ..Plan::default() };
    let cluster = Cluster::with(3, plan).await;
    let put = pb::PutRequest { key: "old/1".into(), ..Default::default() };
    cluster.client().kv().put(put).await.unwrap();
    let processes: Vec<_> =
        cluster.members.iter().map(|member| (&member.name[..], member.pid())).collect();
    run(page::script(&page), &processes).await;
}

#[tokio::test]
async fn import_page_commands_work() {
    let machines = machines(3);
    let etcd = Etcd::start(1).await;
    let page = with_machines("how-to/migrate-from-etcd.md", &machines);
    let page = page.replace("10.0.0.9:2379", &etcd.endpoints());
    let ctl = Ctl::to(&etcd.endpoints());
    for n in 0..20 {
        ctl.run(&["put", &format!("key{n}"), &format!("value {n}")]).ok();
    }
    let granted = ctl.run(&["lease", "grant", "3000"]).ok();
    let lease = granted.split_whitespace().nth(1).unwrap();
    ctl.run(&["put", "leased", "by a lease", "--lease", lease]).ok();
    ctl.run(&["compaction", "10"]).ok();

    // What a client sees of it afterwards, at each of the three.
    let mut script = page::script(page::section(&page, "Import"));
    for (client, _) in &machines {
        script.push_str(&format!(
            "until curl -fs http://{client}/readyz; do sleep 1; done
             export ETCDCTL_ENDPOINTS={client}
             etcdctl get key7 --print-value-only
             etcdctl get key7 --print-value-only --rev 10
             etcdctl lease timetolive {lease} --keys\n"
        ));
    }
    let said = run(script, &[("etcd", etcd.pid(0).unwrap())]).await;
    let said = String::from_utf8_lossy(&said.stdout);
    for told in [
        "21 keys at revision 22, history from revision 10 on",
        "1 leases with 1 keys",
        "is ready to start:",
    ] {
        assert!(said.contains(told), "{told} is not in: {said}");
    }
    assert_eq!(said.matches("value 7\n").count(), 6, "{said}");
    assert_eq!(said.matches("granted with TTL(3000s)").count(), 3, "{said}");
    assert_eq!(said.matches("attached keys([leased])").count(), 3, "{said}");
}

#[tokio::test]
async fn writing_to_both_page_commands_work() {
    let machines = machines(3);
    let etcd = Etcd::start(1).await;
    let page = with_machines("how-to/migrate-from-etcd.md", &machines);
    let page = page.replace("10.0.0.9:2379", &etcd.endpoints());
    let cluster = Cluster::with(3, Plan { addresses: Some(machines), ..Plan::default() }).await;
    let (theirs, ours) = (Ctl::to(&etcd.endpoints()), Ctl::of(&cluster));
    theirs.run(&["put", "only/there", "old"]).ok();
    theirs.run(&["put", "both", "old"]).ok();
    ours.run(&["put", "both", "newer"]).ok();
    run(page::script(page::section(&page, "Writing to both")), &[]).await;
    assert_eq!(ours.run(&["get", "only/there"]).ok(), "only/there\nold\n");
    assert_eq!(ours.run(&["get", "both"]).ok(), "both\nnewer\n", "what was put since is newer");
}
