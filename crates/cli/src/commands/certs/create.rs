//! An authority, and what it signs.

use std::time::Duration;

use serde::Serialize;
use tenure::tls::issue::{Authority, Wanted};

use super::store::{AUTHORITY, checked_name};
use super::{DAY, Place, Store};
use crate::args::duration;
use crate::exit::{Exit, usage};
use crate::output::Format;

/// Where a member can always be reached from its own machine.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// What to make.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// A member, by its --name, and the hosts in its URLs: names or addresses
    #[arg(long = "member", value_name = "NAME=HOST,HOST", value_parser = member)]
    members: Vec<Member>,
    /// A client, by the name that its certificate is to have; with users, the name of one
    #[arg(long = "client", value_name = "NAME", value_parser = checked_name)]
    clients: Vec<String>,
    /// How long the certificates count
    #[arg(long, value_name = "DURATION", default_value = "365d", value_parser = duration)]
    valid: Duration,
    /// How long the authority counts, if there is none yet
    #[arg(long, value_name = "DURATION", default_value = "3650d", value_parser = duration)]
    ca_valid: Duration,
    /// Leave localhost and its addresses out of the certificates of members
    #[arg(long)]
    no_loopback: bool,
}

/// A member and its hosts.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) hosts: Vec<String>,
}

/// What is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) members: Vec<Member>,
    pub(crate) clients: Vec<String>,
    pub(crate) valid: Duration,
    pub(crate) ca_valid: Duration,
    pub(crate) loopback: bool,
}

impl Default for Wish {
    fn default() -> Wish {
        Wish {
            members: vec![],
            clients: vec![],
            valid: 365 * DAY,
            ca_valid: 3650 * DAY,
            loopback: true,
        }
    }
}

fn member(text: &str) -> Result<Member, String> {
    let (name, hosts) = text.split_once('=').unwrap_or((text, ""));
    let hosts: Vec<String> = hosts.split(',').map(str::trim).map(str::to_owned).collect();
    let hosts: Vec<String> = hosts.into_iter().filter(|host| !host.is_empty()).collect();
    if let Some(bad) = hosts
        .iter()
        .find(|host| host.contains([':', '/']) && host.parse::<std::net::IpAddr>().is_err())
    {
        return Err(format!(
            "{bad:?} is no host: give names or addresses, without a scheme and a port"
        ));
    }
    Ok(Member { name: checked_name(name)?, hosts })
}

/// What was made.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Made {
    dir: String,
    /// Whether the authority is new.
    authority: bool,
    members: Vec<String>,
    clients: Vec<String>,
}

/// Makes what is wanted. Nothing that exists is written over.
pub(crate) fn create(store: &Store, wish: &Wish) -> anyhow::Result<Made> {
    let names = || wish.members.iter().map(|member| &member.name).chain(&wish.clients);
    let mut sorted: Vec<&String> = names().collect();
    sorted.sort_unstable();
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(usage(format!("{} is named twice: each pair has files of its own", twice[0])));
    }
    if let Some(name) = names().find(|name| store.has(name)) {
        return Err(usage(format!(
            "{} exists: renew it with tenure certs renew {name}, or remove it first",
            store.cert(name).display()
        )));
    }
    store.make()?;
    let mut made = Made { dir: store.dir().display().to_string(), ..Made::default() };
    let authority = if store.has(AUTHORITY) {
        store.authority()?
    } else {
        let authority = Authority::new("tenure authority", wish.ca_valid)?;
        store.write(AUTHORITY, &authority.pem())?;
        made.authority = true;
        authority
    };
    let loopback = LOOPBACK.iter().filter(|_| wish.loopback);
    for Member { name, hosts } in &wish.members {
        let mut hosts = hosts.clone();
        hosts.extend(loopback.clone().map(|host| (*host).to_owned()));
        hosts.dedup();
        let wanted = Wanted {
            common_name: name.clone(),
            hosts,
            // It calls the other members, too.
            for_servers: true,
            for_clients: true,
            valid: wish.valid,
            ..Wanted::default()
        };
        store.write(name, &authority.issue(&wanted)?)?;
        made.members.push(name.clone());
    }
    for name in &wish.clients {
        let wanted = Wanted {
            common_name: name.clone(),
            for_clients: true,
            valid: wish.valid,
            ..Wanted::default()
        };
        store.write(name, &authority.issue(&wanted)?)?;
        made.clients.push(name.clone());
    }
    Ok(made)
}

pub(super) fn run(args: Args, format: Format) -> anyhow::Result<Exit> {
    let store = Store::at(args.place.dir);
    let wish = Wish {
        members: args.members,
        clients: args.clients,
        valid: args.valid,
        ca_valid: args.ca_valid,
        loopback: !args.no_loopback,
    };
    let made = create(&store, &wish)?;
    if format == Format::Json {
        println!("{}", serde_json::to_string(&made)?);
        return Ok(Exit::Done);
    }
    let shown = |path: std::path::PathBuf| path.display().to_string();
    let ca = shown(store.ca());
    if made.authority {
        println!(
            "{ca} is the authority. Who has {} can sign certificates: keep it off the members.",
            shown(store.key(AUTHORITY))
        );
    }
    for name in &made.members {
        let (cert, key) = (shown(store.cert(name)), shown(store.key(name)));
        println!(
            "\nmember {name}, with https:// in its URLs:\n  tenure serve --name {name} … \\\n    \
             --cert-file {cert} --key-file {key} --trusted-ca-file {ca} --client-cert-auth \\\n    \
             --peer-cert-file {cert} --peer-key-file {key} --peer-trusted-ca-file {ca} --peer-client-cert-auth"
        );
    }
    for name in &made.clients {
        println!(
            "\nclient {name}:\n  export TENURE_CACERT={ca} TENURE_CERT={} TENURE_TLS_KEY={}",
            shown(store.cert(name)),
            shown(store.key(name))
        );
    }
    if made.members.is_empty() && made.clients.is_empty() && !made.authority {
        println!(
            "there is an authority already; name members and clients: --member NAME=HOST, --client NAME"
        );
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::certs::store::is_open_to_others;

    fn wish() -> Wish {
        Wish {
            members: vec![Member { name: "n1".into(), hosts: vec!["10.0.0.1".into()] }],
            clients: vec!["ops".into()],
            ..Wish::default()
        }
    }

    #[test]
    fn certs_create_signs_members_and_clients_and_writes_over_nothing() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::at(home.path().join("certs"));
        let made = create(&store, &wish()).unwrap();
        assert!(made.authority && made.members == ["n1"] && made.clients == ["ops"]);
        let (ca, member, client) =
            (store.load(AUTHORITY).unwrap(), store.load("n1").unwrap(), store.load("ops").unwrap());
        assert!(ca.has_signed(&member) && ca.has_signed(&client));
        assert!(member.for_servers && member.for_clients && !client.for_servers);
        assert_eq!(member.names.common_name, "n1");
        assert!(member.fits_host("10.0.0.1") && member.fits_host("localhost"));
        for name in [AUTHORITY, "n1", "ops"] {
            assert!(!is_open_to_others(&store.key(name)), "{name}");
        }
        assert!(!is_open_to_others(&store.dir()));
        let again = create(&store, &wish()).unwrap_err().to_string();
        assert!(again.contains("n1.crt exists"), "{again}");
        // One more member, by the same authority.
        let more = Member { name: "n2".into(), hosts: vec![] };
        let more = Wish { members: vec![more], loopback: false, ..Wish::default() };
        assert!(!create(&store, &more).unwrap().authority);
        let member = store.load("n2").unwrap();
        assert!(ca.has_signed(&member) && member.names.dns.is_empty());
    }

    #[test]
    fn certs_create_refuses_what_would_be_no_name_or_no_host() {
        assert!(member("n1=10.0.0.1,db-1.example,::1").is_ok());
        for bad in ["", "=a", "../n1=a", "ca=a", "n1=http://a", "n1=a:2379", "-n=a"] {
            assert!(member(bad).is_err(), "{bad}");
        }
        let home = tempfile::tempdir().unwrap();
        let twice = Wish { clients: vec!["n1".into()], ..wish() };
        assert!(create(&Store::at(home.path()), &twice).is_err());
    }
}
