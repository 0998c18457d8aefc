//! What stands in certificates.

use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::Context;
use serde::Serialize;
use tenure::tls::Certificate;

use super::{Place, Store, day};
use crate::exit::Exit;
use crate::output::Format;

/// Which to show.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Files with certificates, instead of those in --dir
    files: Vec<PathBuf>,
}

/// One certificate, for programs.
#[derive(Debug, Serialize)]
struct Shown {
    file: String,
    subject: String,
    issuer: String,
    serial: String,
    hosts: Vec<String>,
    uris: Vec<String>,
    not_before: String,
    not_after: String,
    days_left: i64,
    authority: bool,
    for_servers: bool,
    for_clients: bool,
}

impl Shown {
    fn new(file: String, found: Certificate) -> Shown {
        let hosts = found.names.dns.iter().cloned();
        Shown {
            file,
            hosts: hosts.chain(found.names.ips.iter().map(ToString::to_string)).collect(),
            days_left: days_left(&found, SystemTime::now()),
            not_before: day(found.not_before),
            not_after: day(found.not_after),
            authority: found.is_authority,
            for_servers: found.for_servers && !found.is_authority,
            for_clients: found.for_clients && !found.is_authority,
            subject: found.subject,
            issuer: found.issuer,
            serial: found.serial,
            uris: found.names.uris,
        }
    }

    fn text(&self) -> String {
        let uses = [
            (self.authority, "signs others"),
            (self.for_servers, "servers"),
            (self.for_clients, "clients"),
        ];
        let uses: Vec<&str> = uses.iter().filter(|(is, _)| *is).map(|(_, what)| *what).collect();
        let mut text = format!(
            "{}\n  subject  {}\n  issuer   {}\n  serial   {}\n  for      {}\n",
            self.file,
            self.subject,
            self.issuer,
            self.serial,
            uses.join(", ")
        );
        let names: Vec<&str> = self.hosts.iter().chain(&self.uris).map(String::as_str).collect();
        if !names.is_empty() {
            text += &format!("  names    {}\n", names.join(", "));
        }
        text + &format!(
            "  from     {}\n  until    {}, {}\n",
            self.not_before,
            self.not_after,
            in_days(self.days_left)
        )
    }
}

/// Whole days; below zero once it has expired.
pub(super) fn days_left(found: &Certificate, now: SystemTime) -> i64 {
    const DAY_S: u64 = 86400;
    let days =
        |time: std::time::Duration| i64::try_from(time.as_secs() / DAY_S).unwrap_or(i64::MAX);
    match found.left(now) {
        Some(left) => days(left),
        None => -1 - days(now.duration_since(found.not_after).unwrap_or_default()),
    }
}

pub(super) fn in_days(days: i64) -> String {
    match days {
        ..0 => "expired".to_owned(),
        0 => "less than a day left".to_owned(),
        1 => "1 day left".to_owned(),
        _ => format!("{days} days left"),
    }
}

pub(super) fn run(args: &Args, format: Format) -> anyhow::Result<Exit> {
    let store = Store::at(&args.place.dir);
    let files: Vec<PathBuf> = match &args.files[..] {
        [] => store.names()?.iter().map(|name| store.cert(name)).collect(),
        files => files.to_vec(),
    };
    for file in files {
        let shown = file.display().to_string();
        let found = Certificate::load(&file).with_context(|| shown.clone())?;
        let found = Shown::new(shown, found);
        match format {
            Format::Json => println!("{}", serde_json::to_string(&found)?),
            _ => print!("{}", found.text()),
        }
    }
    Ok(Exit::Done)
}
