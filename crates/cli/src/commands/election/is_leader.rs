//! Whether this host, this command's own tenure, or another identity leads: for scripts.

use tenure::api::wire::tenure::v1 as pb;

use crate::args::Settings;
use crate::exit::Exit;
use crate::talk::talk;

/// Whose leadership to ask about.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The name of the election or lock
    name: String,
    /// Ask about this identity, to the letter [default: this command's own tenure, if it was started by tenure run or lock
    /// for NAME; otherwise TENURE_IDENTITY and this host]
    #[arg(long, value_name = "TEXT")]
    identity: Option<String>,
    /// Say on stderr who leads, and why the answer is what it is
    #[arg(long, short)]
    verbose: bool,
}

/// Whose leadership it is about.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    /// One identity, to the letter.
    Identity(String),
    /// The tenure that this command was started under.
    Token(i64),
    /// Any process of this host, and the identity of the environment if there is one.
    Host { host: String, identity: Option<String> },
}

/// Tells by its exit code whether it leads.
pub(crate) async fn run(args: Args, settings: Settings) -> anyhow::Result<Exit> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let asked = Asked::of(args.identity, &args.name, host, |name| std::env::var(name).ok());
    let election = settings.client().elections().candidates(args.name.clone()).await?;
    let mut holders = election.candidates.iter().filter(|candidate| candidate.holds);
    let leads = holders.clone().any(|holder| asked.is(holder));
    if args.verbose {
        let name = &args.name;
        let holder = match holders.next() {
            Some(holder) => format!("{} leads {name} with token {}", holder.identity, holder.token),
            None => format!("{name} has no leader"),
        };
        talk!("{}: {holder}; asked about {asked}", if leads { "yes" } else { "no" });
    }
    Ok(if leads { Exit::Done } else { Exit::NotTaken })
}

impl Asked {
    /// What the flag, or else the environment, says.
    fn of(
        identity: Option<String>,
        name: &str,
        host: String,
        env: impl Fn(&str) -> Option<String>,
    ) -> Asked {
        let env = |name: &str| env(name).filter(|value| !value.is_empty());
        if let Some(identity) = identity {
            return Asked::Identity(identity);
        }
        let is_ours = env("TENURE_ELECTION").is_some_and(|election| election == name);
        match env("TENURE_TOKEN").and_then(|token| token.parse().ok()).filter(|_| is_ours) {
            Some(token) => Asked::Token(token),
            None => Asked::Host { host, identity: env("TENURE_IDENTITY") },
        }
    }

    fn is(&self, holder: &pb::Candidate) -> bool {
        match self {
            Asked::Identity(identity) => holder.identity == *identity,
            Asked::Token(token) => holder.token == *token,
            Asked::Host { host, identity } => {
                let of_host = holder.identity.strip_prefix(host.as_str());
                of_host.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                    || identity.as_ref() == Some(&holder.identity)
            }
        }
    }
}

impl std::fmt::Display for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Asked::Identity(identity) => write!(f, "identity {identity}"),
            Asked::Token(token) => write!(f, "this command's own tenure, token {token}"),
            Asked::Host { host, identity: Some(identity) } => {
                write!(f, "identity {identity} (TENURE_IDENTITY) and host {host}")
            }
            Asked::Host { host, identity: None } => write!(f, "host {host}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(identity: Option<&str>, env: &[(&str, &str)]) -> Asked {
        let value = |name: &str| {
            env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        Asked::of(identity.map(Into::into), "jobs", "web-3".into(), value)
    }

    fn holder(identity: &str, token: i64) -> pb::Candidate {
        pb::Candidate { identity: identity.into(), token, holds: true, ..Default::default() }
    }

    #[test]
    fn is_leader_means_any_process_of_this_host() {
        let asked = asked(None, &[]);
        assert!(asked.is(&holder("web-3", 1)) && asked.is(&holder("web-3/1742", 1)));
        assert!(!asked.is(&holder("web-31/1742", 1)) && !asked.is(&holder("alice", 1)));
    }

    #[test]
    fn is_leader_takes_the_flag_then_the_token_then_the_environment() {
        let inside =
            [("TENURE_ELECTION", "jobs"), ("TENURE_TOKEN", "7"), ("TENURE_IDENTITY", "alice")];
        assert_eq!(asked(Some("bob"), &inside), Asked::Identity("bob".into()));
        let own = asked(None, &inside);
        assert!(own.is(&holder("x", 7)) && !own.is(&holder("alice", 8)), "{own:?}");
        let elsewhere = [("TENURE_ELECTION", "other"), inside[1], inside[2]];
        let host = asked(None, &elsewhere);
        assert!(host.is(&holder("alice", 8)) && host.is(&holder("web-3/1", 8)), "{host:?}");
    }
}
