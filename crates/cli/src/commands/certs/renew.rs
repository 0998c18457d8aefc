//! New certificates for the same names.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use tenure::tls::issue::Wanted;
use tenure::tls::write_public;

use super::store::AUTHORITY;
use super::{Horizon, Place, Store, day};
use crate::args::duration;
use crate::exit::{Exit, usage};
use crate::output::Format;

/// Which to renew.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    horizon: Horizon,
    /// Renew these, due or not [default: those that are due]
    names: Vec<String>,
    /// Renew all of them, due or not
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Make new keys, too: members and clients see both files change, and use the pair once both fit
    #[arg(long)]
    new_key: bool,
    /// How long the new certificates count
    #[arg(long, value_name = "DURATION", default_value = "365d", value_parser = duration)]
    valid: Duration,
}

/// What was renewed.
#[derive(Debug, Serialize)]
struct Renewed {
    name: String,
    not_after: String,
}

pub(super) fn run(args: &Args, format: Format) -> anyhow::Result<Exit> {
    let store = Store::at(&args.place.dir);
    let known = store.names()?;
    if let Some(unknown) =
        args.names.iter().find(|name| !known.contains(name) || *name == AUTHORITY)
    {
        return Err(usage(format!(
            "{unknown} cannot be renewed; there are {}",
            known.iter().filter(|name| *name != AUTHORITY).cloned().collect::<Vec<_>>().join(", ")
        )));
    }
    let now = SystemTime::now();
    let mut renewed = Vec::new();
    for name in known.iter().filter(|name| *name != AUTHORITY) {
        let found = store.load(name)?;
        let due = found.left(now).is_none_or(|left| left <= args.horizon.within);
        if args.all || args.names.contains(name) || (args.names.is_empty() && due) {
            renewed.push(renew(&store, name, args.valid, args.new_key)?);
        }
    }
    for one in &renewed {
        match format {
            Format::Json => println!("{}", serde_json::to_string(one)?),
            _ => println!("{} counts until {} now", one.name, one.not_after),
        }
    }
    if renewed.is_empty() && format != Format::Json {
        println!("none is due: tenure certs check says until when they count");
    }
    Ok(Exit::Done)
}

/// The certificate alone is replaced, which is one step, unless there shall be a new key.
fn renew(store: &Store, name: &str, valid: Duration, new_key: bool) -> anyhow::Result<Renewed> {
    let found = store.load(name)?;
    let authority = store.authority()?;
    let ips = found.names.ips.iter().map(ToString::to_string);
    let wanted = Wanted {
        common_name: found.names.common_name.clone(),
        hosts: found.names.dns.iter().cloned().chain(ips).collect(),
        for_servers: found.for_servers,
        for_clients: found.for_clients,
        valid,
        ..Wanted::default()
    };
    if new_key {
        store.write(name, &authority.issue(&wanted)?)?;
    } else {
        let issued = authority.issue_again(&wanted, &store.key(name))?;
        write_public(&store.cert(name), &issued.cert)?;
    }
    Ok(Renewed { name: name.to_owned(), not_after: day(store.load(name)?.not_after) })
}

#[cfg(test)]
mod tests {
    use super::super::{DAY, Member, Wish, create};
    use super::*;

    #[test]
    fn certs_renew_keeps_names_and_key_and_may_make_a_new_one() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::at(home.path());
        let members = vec![Member { name: "n1".into(), hosts: vec!["a.example".into()] }];
        create(&store, &Wish { members, valid: DAY, ..Wish::default() }).unwrap();
        let (before, key) = (store.load("n1").unwrap(), std::fs::read(store.key("n1")).unwrap());
        renew(&store, "n1", 90 * DAY, false).unwrap();
        let after = store.load("n1").unwrap();
        assert_eq!((&after.names, after.for_servers), (&before.names, true));
        assert_ne!(after.serial, before.serial);
        assert!(after.left(SystemTime::now() + 80 * DAY).is_some());
        assert_eq!(std::fs::read(store.key("n1")).unwrap(), key);
        renew(&store, "n1", 90 * DAY, true).unwrap();
        assert_ne!(std::fs::read(store.key("n1")).unwrap(), key);
        assert!(store.load(AUTHORITY).unwrap().has_signed(&store.load("n1").unwrap()));
    }
}
