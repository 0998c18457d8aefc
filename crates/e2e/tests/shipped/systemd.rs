//! Under systemd: the units are read by systemd itself, and the server says when it is ready.

use std::{
    fs,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use tenure_e2e::{Cluster, Plan, fetch, tools};

/// How long any word may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

fn units() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/systemd");
    let mut found: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    found.sort();
    found
}

/// Everything that is wrong with a unit, in systemd's words; the programs in it are replaced by one
/// that is there.
fn verdict(unit: &Path, text: &str) -> (bool, String) {
    let home = tempfile::tempdir().unwrap();
    let copy = home.path().join(unit.file_name().unwrap());
    let tenure = tools::tenure();
    let text = text.replace("/usr/local/bin/tenure", tenure.to_str().unwrap());
    fs::write(&copy, text).unwrap();
    let analyze = tools::system("systemd-analyze", "systemd");
    let output = Command::new(analyze).args(["verify", "--man=no"]).arg(&copy).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // It reads what else is installed on this machine, too.
    let name = unit.file_name().unwrap().to_str().unwrap();
    let ours: Vec<_> = said.lines().filter(|line| line.contains(name)).collect();
    (output.status.success(), ours.join("\n"))
}

#[test]
fn units_are_understood_by_systemd() {
    let units = units();
    assert_eq!(units.len(), 5, "{units:?}");
    for unit in units {
        let text = fs::read_to_string(&unit).unwrap();
        let (good, said) = verdict(&unit, &text);
        assert!(good && said.is_empty(), "{}: {said}", unit.display());
        // What it says about a slip proves that it looks.
        let slip = text
            .replace("NoNewPrivileges=yes", "NoNewPrivilege=yes")
            .replace("Persistent=true", "NoNewPrivilege=yes");
        let (_, said) = verdict(&unit, &slip);
        assert!(said.contains("NoNewPrivilege"), "{}: {said}", unit.display());
    }
}

/// A unit that is given up stays down until an operator looks.
#[test]
fn unit_is_not_given_up_for_what_may_pass() {
    let refuses = [
        ("tenure.service", Some("2 5")),
        ("tenure-run.service", None),
        ("tenure-schedule.service", None),
    ];
    for (name, codes) in refuses {
        let unit = units().into_iter().find(|unit| unit.ends_with(name)).unwrap();
        let text = fs::read_to_string(unit).unwrap();
        let value =
            |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        assert_eq!(value("StartLimitIntervalSec"), Some("0"), "{name}");
        // Codes of the server are its own; those of `tenure run` are the program's.
        assert_eq!(value("RestartPreventExitStatus"), codes, "{name}");
    }
}

/// A job that ends must not be started again by its unit: it would be run in turn by every machine, for ever.
#[test]
fn unit_of_a_job_does_not_restart_it() {
    let unit = units().into_iter().find(|unit| unit.ends_with("tenure-once.service")).unwrap();
    let text = fs::read_to_string(unit).unwrap();
    assert!(text.lines().any(|line| line == "Type=oneshot"), "{text}");
    assert!(!text.lines().any(|line| line.starts_with("Restart=")), "{text}");
    assert!(text.contains("ExecStart=/usr/local/bin/tenure once "), "{text}");
}

/// The command line of the unit, as systemd would run it.
#[test]
fn unit_command_is_understood_by_the_server() {
    let unit = units().into_iter().find(|unit| unit.ends_with("tenure.service")).unwrap();
    let text = fs::read_to_string(unit).unwrap();
    let command = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let args = command.strip_prefix("/usr/local/bin/tenure ").unwrap().split(' ');
    // The comment at its top shows settings of a member of three.
    let shown = text.lines().filter_map(|line| line.strip_prefix("#   TENURE_"));
    let settings: Vec<_> = shown.filter_map(|line| line.split_once('=')).collect();
    assert_eq!(settings.len(), 6);
    let output = Command::new(tools::tenure())
        .args(args)
        .arg("--print-config")
        .envs(settings.iter().map(|(name, value)| (format!("TENURE_{name}"), value)))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (name, value) in settings {
        let line = said.lines().find(|line| line.ends_with(&format!("# TENURE_{name}")));
        assert!(line.is_some_and(|line| line.contains(value)), "{name}: {said}");
    }
}

async fn word(socket: UnixDatagram) -> (UnixDatagram, String) {
    let heard = tokio::task::spawn_blocking(move || {
        let mut bytes = [0; 256];
        let length = socket.recv(&mut bytes).expect("a word");
        (socket, String::from_utf8_lossy(&bytes[..length]).into_owned())
    });
    heard.await.unwrap()
}

/// Tells a server where systemd listens, and hears what it says from its start to its end.
async fn hears_everything(socket: UnixDatagram, named: &str) {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut cluster = Cluster::prepare(1, Plan::default());
    let member = &mut cluster.members[0];
    member.spawn.env.push(("NOTIFY_SOCKET".into(), named.into()));
    member.start();
    let (socket, said) = word(socket).await;
    assert_eq!(said, "READY=1");
    // A process that was told so can connect: there is nothing to wait for.
    fetch(&member.client.to_string(), "/livez").await.expect("it listens");
    member.ask_to_stop();
    let (_, said) = word(socket).await;
    assert_eq!(said, "STOPPING=1");
    assert!(member.wait_for_end().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn unit_says_when_it_is_ready_and_when_it_stops() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("notify");
    hears_everything(UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap()).await;
    // systemd in containers, and older ones, name no file.
    let name = format!("tenure-e2e-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    hears_everything(UnixDatagram::bind_addr(&address).unwrap(), &format!("@{name}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unit_serves_although_its_readiness_is_not_heard() {
    let mut cluster = Cluster::prepare(1, Plan::default());
    let member = &mut cluster.members[0];
    member.spawn.env.push(("NOTIFY_SOCKET".into(), "/nowhere/notify".into()));
    member.start();
    member.ready().await;
    member.logs("cannot tell systemd READY=1").await;
    assert!(member.stop().await.success());
}

/// A manager that is busy has no room for a word; if that is lost, the unit is activating for ever.
#[tokio::test(flavor = "multi_thread")]
async fn unit_says_again_that_it_is_ready_until_there_is_room_for_it() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let others = UnixDatagram::unbound().unwrap();
    others.set_nonblocking(true).unwrap();
    while others.send_to(b"of others", &path).is_ok() {}
    let mut cluster = Cluster::prepare(1, Plan::default());
    let member = &mut cluster.members[0];
    member.spawn.env.push(("NOTIFY_SOCKET".into(), path.into()));
    member.start();
    member.ready().await;
    let mut heard = word(socket).await;
    while heard.1 == "of others" {
        heard = word(heard.0).await;
    }
    assert_eq!(heard.1, "READY=1");
    assert!(member.stop().await.success());
}

/// As the first process of a container it would otherwise ignore the signal, and be killed much later.
#[tokio::test(flavor = "multi_thread")]
async fn unit_that_waits_for_its_cluster_ends_when_it_is_told_to() {
    let flags = ["--initial-cluster-state", "existing"];
    let mut cluster = Cluster::prepare(3, Plan::flags(&flags));
    let member = &mut cluster.members[0];
    member.start();
    member.logs("waiting for a member of the cluster").await;
    member.ask_to_stop();
    assert!(member.wait_for_end().await.success());
}
