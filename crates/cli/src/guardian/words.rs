//! What the levels say to each other: lines of text over a socket.
//!
//! Orders go down, news come up. The first line down is the [`Charge`], with the standard input of the
//! command attached.

use std::fmt;
use std::time::Duration;

use rustix::process::getpriority_process;
use serde::{Deserialize, Serialize};
use tenure::clock::Moment;
use tenure::grpc::Credentials;

use super::plan::kill_time;
use crate::args::TlsFiles;

/// What a guardian is told once, before anything else.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Charge {
    /// How long a command may take to end by itself.
    pub(crate) grace_ms: u64,
    /// How long killing may take.
    pub(crate) kill_time_ms: u64,
    /// The priority that the command is to have; that of the guardians is higher, if that is allowed.
    pub(crate) nice: i32,
    /// The command may gain privileges: by sudo, say.
    pub(crate) new_privileges: bool,
    /// The first deadline; none if the command runs under no lease.
    pub(crate) until_ns: Option<u64>,
    /// What to tell the server when the tree is gone and no process above can.
    pub(crate) session: Option<SessionCharge>,
    /// The file that exists while the command may run.
    pub(crate) marker: Option<std::path::PathBuf>,
    /// The device that resets the machine if nothing is written to it.
    pub(crate) watchdog: Option<WatchdogCharge>,
}

/// A session, and where it lives.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SessionCharge {
    pub(crate) id: i64,
    pub(crate) secret: SessionSecretBytes,
    pub(crate) ttl_ms: u64,
    pub(crate) endpoints: String,
    #[serde(default)]
    pub(crate) user: Option<UserCharge>,
    #[serde(default)]
    pub(crate) tls: Option<TlsFiles>,
}

/// Who says that a session has ended. It goes over the socket, never through an environment.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct UserCharge {
    /// None for a token that was made elsewhere.
    name: Option<String>,
    password: String,
}

impl UserCharge {
    pub(crate) fn new(credentials: &Credentials) -> UserCharge {
        let password = credentials.password().reveal().to_owned();
        UserCharge { name: credentials.name().map(str::to_owned), password }
    }

    pub(super) fn credentials(&self) -> Credentials {
        match &self.name {
            Some(name) => Credentials::user(name.as_str(), self.password.as_str()),
            None => Credentials::token(self.password.as_str()),
        }
    }
}

impl fmt::Debug for UserCharge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserCharge").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What the server wants to see from a process that says that a session's work has ended.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct SessionSecretBytes(pub(crate) Vec<u8>);

impl std::fmt::Debug for SessionSecretBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionSecretBytes(..)")
    }
}

/// A watchdog device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WatchdogCharge {
    pub(crate) device: std::path::PathBuf,
    pub(crate) timeout_ms: u64,
}

impl Charge {
    /// A command that may run until that moment, under a lease of `ttl`; for ever if there is none.
    pub(crate) fn new(grace: Duration, ttl: Duration, until: Option<Moment>) -> Charge {
        Charge {
            grace_ms: millis(grace),
            kill_time_ms: millis(kill_time(ttl)),
            nice: getpriority_process(None).unwrap_or(0),
            new_privileges: true,
            until_ns: until.map(nanos),
            session: None,
            marker: None,
            watchdog: None,
        }
    }

    pub(super) fn grace(&self) -> Duration {
        Duration::from_millis(self.grace_ms)
    }

    pub(super) fn kill_time(&self) -> Duration {
        Duration::from_millis(self.kill_time_ms)
    }

    pub(super) fn until(&self) -> Option<Moment> {
        self.until_ns.map(moment)
    }
}

/// What the level above wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The lease is sure to last until then.
    Until(Moment),
    /// End it: this signal, grace, SIGKILL.
    Stop(i32),
    /// End it without grace.
    Kill,
    /// Pass a signal on to the command.
    Signal(i32),
    /// Pass a signal on as soon as the command has something that hears it: others die of it.
    Tell(i32),
    /// The server knows that all has ended: nothing is left to do.
    Done,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By itself, with this code.
    Code(u8),
    /// By a signal.
    Signal(u8),
}

/// What the level below has to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The command runs, as the leader of the process group of this number.
    Started(i32),
    /// The new deadline is known where it counts.
    Heard(Moment),
    /// The command was stopped by a signal of the terminal.
    Halted(i32),
    /// The lease was not confirmed in time: the tree is being stopped.
    Doubt,
    /// The inner guardian was killed: the tree is being killed too.
    Unguarded,
    /// The command ended; others that it started may live on for a moment.
    Ended(Ending),
    /// The tree is gone.
    Gone,
}

impl Order {
    pub(super) fn line(self) -> String {
        match self {
            Order::Until(until) => format!("until {}\n", nanos(until)),
            Order::Stop(signal) => format!("stop {signal}\n"),
            Order::Kill => "kill\n".to_owned(),
            Order::Signal(signal) => format!("signal {signal}\n"),
            Order::Tell(signal) => format!("tell {signal}\n"),
            Order::Done => "done\n".to_owned(),
        }
    }

    pub(super) fn parse(line: &str) -> Option<Order> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        Some(match word {
            "until" => Order::Until(moment(rest.parse().ok()?)),
            "stop" => Order::Stop(rest.parse().ok()?),
            "kill" => Order::Kill,
            "signal" => Order::Signal(rest.parse().ok()?),
            "tell" => Order::Tell(rest.parse().ok()?),
            "done" => Order::Done,
            _ => return None,
        })
    }
}

impl News {
    pub(super) fn line(self) -> String {
        match self {
            News::Started(pid) => format!("started {pid}\n"),
            News::Heard(until) => format!("heard {}\n", nanos(until)),
            News::Halted(signal) => format!("halted {signal}\n"),
            News::Doubt => "doubt\n".to_owned(),
            News::Unguarded => "unguarded\n".to_owned(),
            News::Ended(Ending::Code(code)) => format!("ended-code {code}\n"),
            News::Ended(Ending::Signal(signal)) => format!("ended-signal {signal}\n"),
            News::Gone => "gone\n".to_owned(),
        }
    }

    pub(super) fn parse(line: &str) -> Option<News> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        Some(match word {
            "started" => News::Started(rest.parse().ok()?),
            "heard" => News::Heard(moment(rest.parse().ok()?)),
            "halted" => News::Halted(rest.parse().ok()?),
            "doubt" => News::Doubt,
            "unguarded" => News::Unguarded,
            "ended-code" => News::Ended(Ending::Code(rest.parse().ok()?)),
            "ended-signal" => News::Ended(Ending::Signal(rest.parse().ok()?)),
            "gone" => News::Gone,
            _ => return None,
        })
    }
}

impl WatchdogCharge {
    /// A device that wants to be written to within its timeout.
    pub(crate) fn new(device: std::path::PathBuf, timeout: Duration) -> WatchdogCharge {
        WatchdogCharge { device, timeout_ms: millis(timeout) }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A moment as a number: all levels share one machine and one boot.
pub(super) fn nanos(moment: Moment) -> u64 {
    u64::try_from(moment.since_start().as_nanos()).unwrap_or(u64::MAX)
}

fn moment(nanos: u64) -> Moment {
    Moment::after_start(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guardian_hears_what_is_said() {
        let until = Moment::after_start(Duration::from_nanos(1_234_567_890_123));
        for order in
            [Order::Until(until), Order::Stop(15), Order::Kill, Order::Signal(10), Order::Done]
        {
            assert_eq!(Order::parse(order.line().trim_end()), Some(order));
        }
        for news in [
            News::Started(77),
            News::Heard(until),
            News::Halted(21),
            News::Doubt,
            News::Unguarded,
            News::Ended(Ending::Code(3)),
            News::Ended(Ending::Signal(9)),
            News::Gone,
        ] {
            assert_eq!(News::parse(news.line().trim_end()), Some(news));
        }
    }

    #[test]
    fn guardian_takes_garbage_for_nothing() {
        for line in ["", "until", "until soon", "stop now", "started 1 2", "ended-code 300"] {
            assert_eq!(Order::parse(line), None, "{line}");
            assert_eq!(News::parse(line), None, "{line}");
        }
    }
}
