//! What will expire, and what does not fit.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use tenure::tls::{Allowed, Certificate, Clients, Protocol, ServerOptions};

use super::show::{days_left, in_days};
use super::store::{AUTHORITY, is_open_to_others};
use super::{Horizon, Place, Store, day};
use crate::exit::Exit;
use crate::output::Format;

/// Which to check.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    horizon: Horizon,
}

/// What is to be said of one certificate.
#[derive(Debug, Serialize)]
struct Finding {
    name: String,
    not_after: Option<String>,
    days_left: Option<i64>,
    /// What to do something about; empty if all is well.
    wrong: Vec<String>,
}

pub(super) fn run(args: &Args, format: Format) -> anyhow::Result<Exit> {
    let store = Store::at(&args.place.dir);
    let findings = findings(&store, args.horizon.within, SystemTime::now())?;
    for finding in &findings {
        match format {
            Format::Json => println!("{}", serde_json::to_string(finding)?),
            _ => {
                let until = match (finding.days_left, &finding.not_after) {
                    (Some(days), Some(until)) => format!("until {until}, {}", in_days(days)),
                    _ => "cannot be read".to_owned(),
                };
                println!("{}: {until}", finding.name);
                for wrong in &finding.wrong {
                    println!("  {wrong}");
                }
            }
        }
    }
    let well = findings.iter().all(|finding| finding.wrong.is_empty());
    Ok(if well { Exit::Done } else { Exit::Error })
}

fn findings(store: &Store, within: Duration, now: SystemTime) -> anyhow::Result<Vec<Finding>> {
    let names = store.names()?;
    let ca = store.load(AUTHORITY).ok();
    Ok(names.iter().map(|name| finding(store, name, ca.as_ref(), within, now)).collect())
}

fn finding(
    store: &Store,
    name: &str,
    ca: Option<&Certificate>,
    within: Duration,
    now: SystemTime,
) -> Finding {
    let found = match store.load(name) {
        Ok(found) => found,
        Err(error) => {
            let wrong = vec![error.to_string()];
            return Finding { name: name.to_owned(), not_after: None, days_left: None, wrong };
        }
    };
    let mut wrong = Vec::new();
    let is_ca = name == AUTHORITY;
    match found.left(now) {
        None => wrong.push(if is_ca {
            "it has expired, and so has all that it signed: make a new authority in another directory".to_owned()
        } else {
            format!("it has expired: tenure certs renew {name}")
        }),
        Some(left) if left <= within => wrong.push(if is_ca {
            "it expires soon: make a new authority in another directory, and let members and clients trust both \
             (--trusted-ca-file takes several certificates in a file) until all pairs are replaced"
                .to_owned()
        } else {
            format!("it expires soon: tenure certs renew {name}")
        }),
        Some(_) => {}
    }
    if found.not_before > now {
        wrong
            .push(format!("it counts from {} on only: is the clock right?", day(found.not_before)));
    }
    if is_open_to_others(&store.key(name)) {
        let key = store.key(name);
        wrong.push(format!("others can read its key: chmod 600 {}", key.display()));
    }
    match ca {
        _ if is_ca && !found.is_authority => {
            wrong.push("it may not sign others: it is no authority".to_owned());
        }
        None => wrong.push(format!(
            "{} cannot be read, so nothing is known of who signed it",
            store.ca().display()
        )),
        Some(ca) if !ca.has_signed(&found) => {
            wrong.push(format!("{} has not signed it", store.ca().display()));
        }
        Some(ca) if found.not_after > ca.not_after => {
            wrong.push(format!("its authority expires before it does: {}", day(ca.not_after)));
        }
        Some(_) => {}
    }
    if !is_ca {
        wrong.extend(key_problem(store, name));
        let nameless = found.names.dns.is_empty() && found.names.ips.is_empty();
        if found.for_servers && nameless {
            wrong.push("it is for a server and names no host: no client will take it".to_owned());
        }
    } else if !store.key(name).exists() {
        // It is safest elsewhere.
    } else if let Err(error) = store.authority() {
        wrong.push(format!("{error:#}"));
    }
    Finding {
        name: name.to_owned(),
        not_after: Some(day(found.not_after)),
        days_left: Some(days_left(&found, now)),
        wrong,
    }
}

/// What is wrong with the key, as a server would find.
fn key_problem(store: &Store, name: &str) -> Option<String> {
    let options = ServerOptions {
        pair: store.pair(name),
        clients: Clients::NotAsked,
        revoked: None,
        allowed: Allowed::Any,
        protocol: Protocol::default(),
        alpn: vec![],
    };
    options.problems().into_iter().next().map(|(_, error)| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::{DAY, Member, Wish, create};
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn made() -> (tempfile::TempDir, Store) {
        let home = tempfile::tempdir().unwrap();
        let store = Store::at(home.path());
        let members = vec![Member { name: "n1".into(), hosts: vec!["a".into()] }];
        let clients = vec!["ops".into()];
        create(&store, &Wish { members, clients, ..Wish::default() }).unwrap();
        (home, store)
    }

    /// What is wrong after so many days.
    fn wrong(store: &Store, days: u32) -> Vec<String> {
        let now = SystemTime::now() + days * DAY;
        let found = findings(store, 30 * DAY, now).unwrap();
        let one = |finding: Finding| {
            finding.wrong.into_iter().map(move |wrong| format!("{}: {wrong}", finding.name))
        };
        found.into_iter().flat_map(one).collect()
    }

    #[test]
    fn certs_check_finds_nothing_until_something_expires() {
        let (_home, store) = made();
        assert_eq!(wrong(&store, 0), [""; 0]);
        assert_eq!(wrong(&store, 330), [""; 0]);
        let soon = wrong(&store, 340);
        assert_eq!(soon.len(), 2, "{soon:?}");
        assert!(soon.iter().all(|line| line.contains("expires soon")), "{soon:?}");
        let late = wrong(&store, 366);
        assert!(late[0].contains("it has expired: tenure certs renew n1"), "{late:?}");
        assert_eq!(wrong(&store, 3640).iter().filter(|line| line.starts_with("ca: ")).count(), 1);
    }

    #[test]
    fn certs_check_names_what_does_not_fit() {
        let (_home, store) = made();
        std::fs::copy(store.key("ops"), store.key("n1")).unwrap();
        let mixed = wrong(&store, 0);
        assert!(mixed.len() == 1 && mixed[0].contains("does not match"), "{mixed:?}");
        let (_other_home, other) = made();
        std::fs::copy(other.cert("n1"), store.cert("n1")).unwrap();
        std::fs::copy(other.key("n1"), store.key("n1")).unwrap();
        let foreign = wrong(&store, 0);
        assert!(foreign.len() == 1 && foreign[0].contains("has not signed it"), "{foreign:?}");
        let open = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(store.key("ops"), open).unwrap();
        assert!(wrong(&store, 0).iter().any(|line| line.contains("ops: others can read its key")));
    }
}
