//! What is said about members: a line for people, or an object a line as JSON.

use std::io::{IsTerminal, Write};
use std::process::ExitStatus;

use serde::Serialize;

use super::plan::name;
use crate::output::Format;

/// Something that happened.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Told {
    /// All members follow one raft leader for the first time.
    Ready {
        after_ms: u64,
        members: Vec<Seen>,
        endpoints: String,
        /// What clients set in their environment beside the endpoints, to speak TLS.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tls: Vec<String>,
        /// The user that the certificate for clients stands for, if users count.
        #[serde(skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        /// The dashboard, unless it is switched off.
        #[serde(skip_serializing_if = "Option::is_none")]
        browse: Option<String>,
        data_dir: String,
        kept: bool,
    },
    Started {
        member: String,
        pid: u32,
    },
    /// By itself or not.
    Ended {
        member: String,
        pid: u32,
        code: Option<i32>,
        signal: Option<i32>,
        asked_for: bool,
    },
    Paused {
        member: String,
    },
    Continued {
        member: String,
    },
    RaftLeader {
        member: Option<String>,
    },
    Status {
        members: Vec<Seen>,
    },
    /// All members have ended, and so does this.
    Down {
        members: usize,
    },
}

/// One member at one moment.
#[derive(Debug, Serialize)]
pub(super) struct Seen {
    pub(super) member: String,
    pub(super) client_url: String,
    pub(super) peer_url: String,
    pub(super) pid: Option<u32>,
    pub(super) state: &'static str,
    pub(super) raft_leader: bool,
}

impl Seen {
    fn line(&self) -> String {
        let pid = self.pid.map_or_else(|| self.state.to_owned(), |pid| format!("pid {pid}"));
        let mut line = format!("{}  {}  {pid}", self.member, self.client_url);
        if self.pid.is_some() && self.state != "runs" {
            line += &format!("  {}", self.state);
        }
        if self.raft_leader {
            line += "  raft leader";
        }
        line
    }
}

/// Where output goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mouth {
    json: bool,
    colours: bool,
}

impl Mouth {
    pub(super) fn new(format: Format) -> Mouth {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let colours = std::io::stderr().is_terminal() && !plain;
        Mouth { json: format == Format::Json, colours }
    }

    /// Results, on stdout. A failed write is no reason to let members die.
    pub(super) fn tell(&self, told: &Told) {
        let text = if self.json {
            serde_json::to_string(told).expect("names and numbers can be written")
        } else {
            told.text()
        };
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{text}").and_then(|()| out.flush());
    }

    /// Talk, on stderr.
    pub(super) fn say(&self, text: &str) {
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }

    /// A member's own talk, with its name before it.
    pub(super) fn pass_on(&self, at: usize, line: &str) {
        const COLOURS: [u8; 7] = [36, 33, 35, 32, 34, 31, 37];
        let name = name(at);
        let _ = match self.colours {
            true => {
                let colour = COLOURS[at % COLOURS.len()];
                writeln!(std::io::stderr().lock(), "\x1b[{colour}m{name}\x1b[0m {line}")
            }
            false => writeln!(std::io::stderr().lock(), "{name} {line}"),
        };
    }
}

impl Told {
    fn text(&self) -> String {
        let lines =
            |members: &[Seen]| members.iter().map(Seen::line).collect::<Vec<_>>().join("\n");
        match self {
            Told::Ready { after_ms, members, endpoints, tls, user, browse, data_dir, kept } => {
                let stays = if *kept { "it stays" } else { "gone at the end" };
                let browse =
                    browse.as_ref().map(|url| format!("\nbrowse {url}")).unwrap_or_default();
                let user = user.as_ref().map(|user| {
                    format!("\nusers count: the certificate below is the login of {user}, with role root")
                });
                let user = user.unwrap_or_default();
                format!(
                    "{}{browse}{user}\nready after {after_ms} ms; data in {data_dir} ({stays}); in another terminal:\n\
                     export TENURE_ENDPOINTS={endpoints}{}",
                    lines(members),
                    tls.iter().map(|one| format!(" {one}")).collect::<String>()
                )
            }
            Told::Started { member, pid } => format!("{member} started, pid {pid}"),
            Told::Ended { member, pid, code, signal, asked_for } => {
                let how = match (code, signal) {
                    (Some(code), _) => format!("with exit code {code}"),
                    (None, Some(signal)) => format!("by signal {signal}"),
                    (None, None) => "somehow".into(),
                };
                let by_itself = if *asked_for { "" } else { " by itself or from outside" };
                let number = member.trim_start_matches('n');
                format!("{member} (pid {pid}) ended{by_itself} {how}; r {number} restarts it")
            }
            Told::Paused { member } => {
                format!("{member} is paused; c {} lets it continue", member.trim_start_matches('n'))
            }
            Told::Continued { member } => format!("{member} continues"),
            Told::RaftLeader { member: Some(member) } => format!("{member} is the raft leader"),
            Told::RaftLeader { member: None } => "there is no raft leader".into(),
            Told::Status { members } => lines(members),
            Told::Down { members: 1 } => "the member is down".into(),
            Told::Down { members } => format!("all {members} members are down"),
        }
    }

    /// How a process ended.
    pub(super) fn ended(at: usize, pid: u32, status: Option<ExitStatus>, asked_for: bool) -> Told {
        use std::os::unix::process::ExitStatusExt;
        Told::Ended {
            member: name(at),
            pid,
            code: status.and_then(|status| status.code()),
            signal: status.and_then(|status| status.signal()),
            asked_for,
        }
    }
}
