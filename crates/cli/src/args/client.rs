//! The flags of every command that talks to a cluster.
//!
//! A flag wins over `TENURE_*`, which wins over etcdctl's variable, without a word about it.

use std::time::Duration;

use anyhow::Context;
use tenure::Engine;
use tenure::grpc::{Client, Endpoint, Options, Password};

use super::duration;
use super::tls::{TlsArgs, TlsFiles};
use super::user::{User, UserArgs};
use crate::exit::usage;
use crate::output::Format;
use crate::prompt;

pub(super) const HEADING: &str = "Client options";
const ENDPOINTS_DEFAULT: &str = "127.0.0.1:2379";

/// Flags with etcdctl's names.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ClientArgs {
    /// Members to ask, separated by commas [default: 127.0.0.1:2379] [env: TENURE_ENDPOINTS, ETCDCTL_ENDPOINTS]
    #[arg(long, global = true, value_name = "ADDRESSES", help_heading = HEADING)]
    endpoints: Vec<String>,
    /// How long to wait for a connection [default: 2s] [env: TENURE_DIAL_TIMEOUT]
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration, hide_short_help = true, help_heading = HEADING)]
    dial_timeout: Option<Duration>,
    /// How long to wait for an answer [default: 5s] [env: TENURE_COMMAND_TIMEOUT]
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration, hide_short_help = true, help_heading = HEADING)]
    command_timeout: Option<Duration>,
    #[command(flatten)]
    user: UserArgs,
    /// How to write results [default: simple] [env: TENURE_WRITE_OUT]
    #[arg(short = 'w', long, global = true, value_enum, value_name = "FORMAT", help_heading = HEADING)]
    write_out: Option<Format>,
    /// Write keys and values in hexadecimal (simple format)
    #[arg(long, global = true, hide_short_help = true, help_heading = HEADING)]
    hex: bool,
    #[command(flatten)]
    tls: TlsArgs,
    /// Say on stderr which settings are in effect
    #[arg(long, global = true, hide_short_help = true, help_heading = HEADING)]
    debug: bool,
}

/// What flags and environment came to.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Where to go; at least one.
    pub(crate) endpoints: Vec<Endpoint>,
    /// How to go there.
    pub(crate) options: Options,
    /// TLS as it was asked for, which the options have too.
    pub(crate) tls: Option<TlsFiles>,
    /// The user, whose credentials the options have too.
    pub(crate) user: User,
    /// How to write what comes back.
    pub(crate) format: Format,
    /// Bytes in hexadecimal.
    pub(crate) hex: bool,
}

impl Settings {
    /// A client of these endpoints. Must be called inside a runtime.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.endpoints.clone(), self.options.clone())
    }

    /// The engine at these endpoints, for sessions, elections and locks. Every verb that opens a session gets it here.
    pub(crate) fn engine(&self) -> Engine {
        Engine::tenure_at(self.endpoints.clone(), self.options.clone())
    }
}

impl ClientArgs {
    /// Takes from the environment what was not given as a flag.
    pub(crate) fn settings(self) -> anyhow::Result<Settings> {
        let debug = self.debug;
        let ask = |user: &str| prompt::password(&format!("Password of {user}: "));
        let settings = self.settings_with(|name| std::env::var(name).ok(), ask)?;
        if debug {
            eprintln!("{settings:?}");
        }
        Ok(settings)
    }

    /// How to write results, for verbs that have no other use for these flags: the files that they name need not be there.
    pub(crate) fn format(&self) -> anyhow::Result<Format> {
        let ours = std::env::var("TENURE_WRITE_OUT").ok().filter(|text| !text.is_empty());
        format(self.write_out, ours)
    }

    fn settings_with(
        self,
        env: impl Fn(&str) -> Option<String>,
        ask: impl Fn(&str) -> anyhow::Result<Option<Password>>,
    ) -> anyhow::Result<Settings> {
        let ours = |name: &str| env(&format!("TENURE_{name}")).filter(|value| !value.is_empty());
        let either = |name: &str| {
            ours(name).or_else(|| env(&format!("ETCDCTL_{name}")).filter(|value| !value.is_empty()))
        };
        let time = |flag: Option<Duration>, name: &str, default: Duration| match (flag, ours(name))
        {
            (Some(flag), _) => Ok(flag),
            (None, Some(text)) => duration(&text).map_err(|e| usage(format!("TENURE_{name}: {e}"))),
            (None, None) => Ok(default),
        };
        let theirs = |name: &str| env(&format!("ETCDCTL_{name}")).filter(|value| !value.is_empty());
        let tls = self.tls.files(ours, theirs)?;
        let format = format(self.write_out, ours("WRITE_OUT"))?;
        // A flag given twice adds up, as with etcdctl.
        let flag = Some(self.endpoints.join(",")).filter(|_| !self.endpoints.is_empty());
        let (place, endpoints) = match (flag, ours("ENDPOINTS")) {
            (Some(flag), _) => ("--endpoints", flag),
            (None, Some(ours)) => ("TENURE_ENDPOINTS", ours),
            (None, None) => (
                "ETCDCTL_ENDPOINTS",
                either("ENDPOINTS").unwrap_or_else(|| ENDPOINTS_DEFAULT.into()),
            ),
        };
        let endpoints = Endpoint::list(&endpoints).context(place)?;
        let user = self.user.resolve(ours, theirs, ask)?;
        let defaults = Options::default();
        let options = Options {
            dial_timeout: time(self.dial_timeout, "DIAL_TIMEOUT", defaults.dial_timeout)?,
            request_timeout: time(
                self.command_timeout,
                "COMMAND_TIMEOUT",
                defaults.request_timeout,
            )?,
            credentials: user.credentials.clone(),
            tls: None,
        };
        Ok(Settings {
            endpoints,
            options: match &tls {
                Some(tls) => tls.on(options)?,
                None => options,
            },
            tls,
            user,
            format,
            hex: self.hex,
        })
    }
}

fn format(flag: Option<Format>, ours: Option<String>) -> anyhow::Result<Format> {
    match (flag, ours) {
        (Some(format), _) => Ok(format),
        (None, Some(text)) => <Format as clap::ValueEnum>::from_str(&text, true)
            .map_err(|e| usage(format!("TENURE_WRITE_OUT: {e}"))),
        (None, None) => Ok(Format::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn settle(args: ClientArgs, env: &[(&str, &str)]) -> anyhow::Result<Settings> {
        let env: HashMap<String, String> =
            env.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        args.settings_with(|name| env.get(name).cloned(), |_| Ok(None))
    }

    fn first(settings: &Settings) -> String {
        settings.endpoints[0].to_string()
    }

    #[test]
    fn client_flag_wins_over_our_variable_and_ours_over_etcdctls() {
        let theirs = ("ETCDCTL_ENDPOINTS", "c:3");
        let ours = ("TENURE_ENDPOINTS", "b:2");
        let flag = ClientArgs { endpoints: vec!["a:1".into()], ..Default::default() };
        assert_eq!(first(&settle(flag, &[theirs, ours]).unwrap()), "a:1");
        assert_eq!(first(&settle(Default::default(), &[theirs, ours]).unwrap()), "b:2");
        assert_eq!(first(&settle(Default::default(), &[theirs]).unwrap()), "c:3");
        assert_eq!(first(&settle(Default::default(), &[]).unwrap()), ENDPOINTS_DEFAULT);
    }

    #[test]
    fn client_names_the_place_of_a_bad_address() {
        let flag = ClientArgs { endpoints: vec!["ftp://a".into()], ..Default::default() };
        let error = format!("{:#}", settle(flag, &[]).unwrap_err());
        assert!(error.starts_with("--endpoints: ") && error.contains("ftp://a"), "{error}");
        for name in ["TENURE_ENDPOINTS", "ETCDCTL_ENDPOINTS"] {
            let error = settle(Default::default(), &[(name, "ftp://a")]).unwrap_err();
            assert_eq!(error.to_string(), name);
            assert_eq!(crate::exit::Exit::of(&error), crate::exit::Exit::Usage);
        }
    }

    #[test]
    fn client_names_a_bad_variable() {
        let error = settle(Default::default(), &[("TENURE_DIAL_TIMEOUT", "5")]).unwrap_err();
        assert!(error.to_string().starts_with("TENURE_DIAL_TIMEOUT: "), "{error}");
    }
}
