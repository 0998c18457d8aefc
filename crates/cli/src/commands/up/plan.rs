//! Where members listen, and where the data is.
//!
//! A member's address is part of what its cluster agreed on. So a directory that is kept remembers the
//! ports in a file, and a cluster that comes up again there listens where it did before.

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tenure::tls::PairFiles;

use super::temp_dir::TempHome;
use super::{Args, MEMBERS_DEFAULT};
use crate::args::TlsFiles;
use crate::commands::certs::{Member, Store, Wish, create};
use crate::exit::usage;

const CLIENT_PORT: u16 = 2379;
const PEER_PORT: u16 = 2380;
/// From one member's port to the next one's.
const STEP: u16 = 10;
/// Where free ports are looked for.
const ANY: Range<u16> = 12_000..32_000;
/// In a directory that is kept: a line for each member, its two ports.
const PORTS_FILE: &str = "ports";
/// There, the certificates.
const CERTS_DIR: &str = "certs";
/// Whom the certificate for clients names.
pub(super) const CLIENT: &str = "client";

/// The settings of `tenure serve` that follow from the plan.
const OURS: [&str; 9] = [
    "--name",
    "--data-dir",
    "--listen-client-urls",
    "--advertise-client-urls",
    "--listen-peer-urls",
    "--initial-advertise-peer-urls",
    "--initial-cluster",
    "--initial-cluster-state",
    "--log-format",
];

/// Whether a flag would contradict the plan.
pub(super) fn is_ours(flag: &str) -> bool {
    OURS.contains(&flag.split('=').next().unwrap_or(flag))
}

/// Where one member listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ports {
    pub(super) client: u16,
    pub(super) peer: u16,
}

/// A directory, and whether it stays.
#[derive(Debug)]
pub(super) enum Home {
    Kept(PathBuf),
    Temporary(TempHome),
}

impl Home {
    pub(super) fn path(&self) -> &Path {
        match self {
            Home::Kept(path) => path,
            Home::Temporary(temp_dir) => temp_dir.path(),
        }
    }
}

/// Everything there is to know before a member is started.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) home: Home,
    pub(super) ports: Vec<Ports>,
    /// The certificates, if TLS is spoken.
    pub(super) tls: Option<Store>,
    /// Why these are not the usual ones, if no others were asked for.
    pub(super) elsewhere: Option<String>,
}

impl Plan {
    pub(super) fn make(args: &Args) -> anyhow::Result<Plan> {
        let Some(dir) = &args.data_dir else {
            let (ports, elsewhere) = choose(args, args.members.unwrap_or(MEMBERS_DEFAULT))?;
            let home = Home::Temporary(TempHome::open().context("a temporary directory")?);
            let tls = args.tls.then(|| certificates(home.path(), ports.len())).transpose()?;
            return Ok(Plan { home, ports, tls, elsewhere });
        };
        fs::create_dir_all(dir).with_context(|| format!("--data-dir {}", dir.display()))?;
        let file = dir.join(PORTS_FILE);
        let (ports, elsewhere) = match fs::read_to_string(&file) {
            Ok(text) => (remembered(args, &text, &file)?, None),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let chosen = choose(args, args.members.unwrap_or(MEMBERS_DEFAULT))?;
                fs::write(&file, written(&chosen.0))
                    .with_context(|| format!("cannot write {}", file.display()))?;
                chosen
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", file.display()));
            }
        };
        let tls = args.tls.then(|| certificates(dir, ports.len())).transpose()?;
        Ok(Plan { home: Home::Kept(dir.clone()), ports, tls, elsewhere })
    }

    /// All members, as `--initial-cluster` has them.
    pub(super) fn initial_cluster(&self) -> String {
        let member =
            |(at, ports): (usize, &Ports)| format!("{}={}", name(at), self.url(ports.peer));
        self.ports.iter().enumerate().map(member).collect::<Vec<_>>().join(",")
    }

    /// Where something listens.
    pub(super) fn url(&self, port: u16) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{port}")
    }

    /// What clients need beside addresses, as it is set in their environment.
    pub(super) fn client_tls(&self) -> Option<TlsFiles> {
        let store = self.tls.as_ref()?;
        let PairFiles { cert, key } = store.pair(CLIENT);
        Some(TlsFiles::new(store.ca(), cert, key))
    }

    /// The flags of a member for its certificates.
    pub(super) fn tls_flags(&self, at: usize) -> Vec<String> {
        let Some(store) = &self.tls else { return vec![] };
        let PairFiles { cert, key } = store.pair(&name(at));
        let mut flags = Vec::new();
        for prefix in ["", "peer-"] {
            for (flag, path) in
                [("cert-file", &cert), ("key-file", &key), ("trusted-ca-file", &store.ca())]
            {
                flags.extend([format!("--{prefix}{flag}"), path.display().to_string()]);
            }
            flags.push(format!("--{prefix}client-cert-auth"));
        }
        flags
    }

    /// All client addresses, as `TENURE_ENDPOINTS` has them.
    pub(super) fn endpoints(&self) -> String {
        let all = self.ports.iter().map(|ports| format!("127.0.0.1:{}", ports.client));
        all.collect::<Vec<_>>().join(",")
    }
}

/// Members are counted from 1.
pub(super) fn name(at: usize) -> String {
    format!("n{}", at + 1)
}

/// The certificates in a directory, which are made if there are none. One that is kept may have fewer members than it had.
fn certificates(home: &Path, members: usize) -> anyhow::Result<Store> {
    let store = Store::at(home.join(CERTS_DIR));
    if !store.ca().exists() {
        let members = (0..members).map(|at| Member { name: name(at), hosts: vec![] }).collect();
        create(&store, &Wish { members, clients: vec![CLIENT.into()], ..Wish::default() })?;
    }
    Ok(store)
}

/// The usual ports if all of them are free, or any, and why. Ports that were asked for must be free.
fn choose(args: &Args, members: usize) -> anyhow::Result<(Vec<Ports>, Option<String>)> {
    choose_near(Ports { client: CLIENT_PORT, peer: PEER_PORT }, args, members)
}

fn choose_near(
    usual: Ports,
    args: &Args,
    members: usize,
) -> anyhow::Result<(Vec<Ports>, Option<String>)> {
    if args.client_port == Some(0) || args.peer_port == Some(0) {
        return Ok((any(members)?, None));
    }
    let asked = args.client_port.is_some() || args.peer_port.is_some();
    let client = args.client_port.unwrap_or(usual.client);
    let peer = args.peer_port.unwrap_or(if asked { client.saturating_add(1) } else { usual.peer });
    let nth = |base: u16, at: usize| {
        let port = STEP.checked_mul(at as u16).and_then(|step| base.checked_add(step));
        port.ok_or_else(|| usage(format!("there are no {members} ports from {base} on")))
    };
    let mut ports = Vec::new();
    for at in 0..members {
        ports.push(Ports { client: nth(client, at)?, peer: nth(peer, at)? });
    }
    match free(&ports) {
        Ok(()) => Ok((ports, None)),
        Err(taken) if !asked => {
            let why = format!(
                "cannot listen on {}: {}; other ports are used: paste the line that names them",
                taken.at, taken.why
            );
            Ok((any(members)?, Some(why)))
        }
        Err(taken) => Err(taken.refusal()),
    }
}

/// A port that cannot be listened to.
#[derive(Debug)]
struct Taken {
    at: SocketAddr,
    why: String,
    flag: &'static str,
}

impl Taken {
    fn refusal(self) -> anyhow::Error {
        let Taken { at, why, flag } = self;
        anyhow::anyhow!("cannot listen on {at}: {why}; choose other ports with {flag}")
    }
}

/// Whether all of them can be listened to; if not, which one is taken and what to do.
fn free(ports: &[Ports]) -> Result<(), Taken> {
    let mut held = Vec::new();
    for ports in ports {
        for (port, flag) in [(ports.client, "--client-port"), (ports.peer, "--peer-port")] {
            let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let listener = TcpListener::bind(at).map_err(|cause| {
                let in_use = cause.kind() == ErrorKind::AddrInUse;
                let own = held.iter().any(|listener: &TcpListener| {
                    listener.local_addr().is_ok_and(|at| at.port() == port)
                });
                let why = match tenure_server::owner_of(at).filter(|_| in_use) {
                    _ if own => "two members cannot share it".to_owned(),
                    Some(owner) => format!("it is in use by {owner}"),
                    None => cause.to_string(),
                };
                Taken { at, why, flag }
            })?;
            held.push(listener);
        }
    }
    Ok(())
}

/// Any that are free, below those that the kernel gives to outgoing connections: nothing must sit on
/// one while its member restarts. All are held until all are found, so that no two are the same.
fn any(members: usize) -> anyhow::Result<Vec<Ports>> {
    // Not the same beginning for two of us at once.
    let begin = std::process::id().wrapping_mul(41) as u16 % ANY.len() as u16;
    let mut candidates = (0..ANY.len() as u16).map(|n| ANY.start + (begin + n) % ANY.len() as u16);
    let mut held = Vec::new();
    let mut next = || -> anyhow::Result<u16> {
        let found = candidates
            .find_map(|port| Some((TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?, port)));
        let (listener, port) = found.context("no free port")?;
        held.push(listener);
        Ok(port)
    };
    (0..members).map(|_| Ok(Ports { client: next()?, peer: next()? })).collect()
}

fn written(ports: &[Ports]) -> String {
    ports.iter().map(|ports| format!("{} {}\n", ports.client, ports.peer)).collect()
}

/// The ports of a directory that was used before. Whatever was asked for must not contradict them.
fn remembered(args: &Args, text: &str, file: &Path) -> anyhow::Result<Vec<Ports>> {
    let line = |line: &str| -> Option<Ports> {
        let (client, peer) = line.split_once(' ')?;
        Some(Ports { client: client.parse().ok()?, peer: peer.parse().ok()? })
    };
    let ports: Option<Vec<Ports>> = text.lines().map(line).collect();
    let ports = ports.filter(|ports| !ports.is_empty());
    let ports = ports.with_context(|| format!("{} is not what tenure up wrote", file.display()))?;
    let dir = file.parent().unwrap_or(file).display();
    if args.members.is_some_and(|members| members != ports.len()) {
        return Err(usage(format!("{dir} holds {} members: leave the number out", ports.len())));
    }
    let other = |asked: Option<u16>, is: u16| asked.is_some_and(|asked| asked != 0 && asked != is);
    if other(args.client_port, ports[0].client) || other(args.peer_port, ports[0].peer) {
        return Err(usage(format!(
            "the members in {dir} know each other by their ports: leave --client-port and --peer-port out"
        )));
    }
    free(&ports).map_err(Taken::refusal).with_context(|| {
        format!("the members in {dir} must listen where they did before ({})", file.display())
    })?;
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(dir: &Path, members: Option<usize>) -> Args {
        Args {
            members,
            data_dir: Some(dir.to_owned()),
            client_port: None,
            peer_port: None,
            tls: false,
            restart: false,
            flags: vec![],
        }
    }

    #[test]
    fn up_plan_of_a_kept_directory_remembers_where_members_listen() {
        let home = tempfile::tempdir().unwrap();
        let first = Plan::make(&args(home.path(), Some(5))).unwrap();
        let again = Plan::make(&args(home.path(), None)).unwrap();
        assert_eq!(first.ports, again.ports);
        assert_eq!(again.ports.len(), 5);
        let other = Plan::make(&args(home.path(), Some(3))).unwrap_err();
        assert!(other.to_string().contains("holds 5 members"), "{other}");
        fs::write(home.path().join(PORTS_FILE), "nonsense").unwrap();
        let spoilt = Plan::make(&args(home.path(), None)).unwrap_err();
        assert!(spoilt.to_string().contains("not what tenure up wrote"), "{spoilt}");
    }

    #[test]
    fn up_plan_names_the_flag_of_a_port_that_is_taken() {
        let home = tempfile::tempdir().unwrap();
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let wanted = Args { client_port: Some(port), ..args(home.path(), Some(1)) };
        let refused = Plan::make(&wanted).unwrap_err().to_string();
        let owner = format!("process {}", std::process::id());
        assert!(refused.contains("--client-port") && refused.contains(&owner), "{refused}");
        let twice = Args { client_port: Some(port), peer_port: Some(port), ..wanted };
        drop(taken);
        let refused = Plan::make(&twice).unwrap_err().to_string();
        assert!(refused.contains("two members cannot share it"), "{refused}");
    }

    #[test]
    fn up_plan_names_the_program_on_a_usual_port() {
        let home = tempfile::tempdir().unwrap();
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let usual = Ports { client: port, peer: port };
        let (ports, why) = choose_near(usual, &args(home.path(), None), 1).unwrap();
        let why = why.unwrap();
        let owner = format!("127.0.0.1:{port}: it is in use by process {}", std::process::id());
        assert!(why.contains(&owner), "{why}");
        assert_ne!(ports[0].client, port);
    }

    #[test]
    fn up_plan_knows_the_flags_that_would_contradict_it() {
        assert!(is_ours("--name") && is_ours("--data-dir=x"));
        assert!(!is_ours("--log-level") && !is_ours("--names"));
    }
}
