//! How a command is to be run under an election or a lock.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use tenure::backend::JoinSpec;
use tenure::tenancy::margin;

use super::fence_map::FenceMap;
use super::signals::signal;
use super::size::{Size, size};
use crate::args::{CandidateArgs, duration, patience};
use crate::exit::{Exit, usage};
use crate::guardian::{kill_time, watchdog_timeout};
use crate::output::Format;

/// The shortest lease under which a command can be started and ended again in time.
const TTL_MIN: Duration = Duration::from_secs(1);
/// As long as most people are ready to wait for a command to end.
const GRACE_MAX: Duration = Duration::from_secs(5);

/// What follows a group stands above it, where all arguments stand.
const NONE: Option<&str> = None;
const WAITING: &str = "Waiting";
const CANDIDATE: &str = "The candidate";
const COMMAND: &str = "The command";
const LOSS: &str = "When it is lost";

/// Run a command while leading.
#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// The election
    #[arg(value_name = "NAME", required_unless_present = "election")]
    name: Option<String>,
    /// The election: the same as NAME
    #[arg(long, short = 'e', value_name = "NAME", conflicts_with = "name")]
    election: Option<String>,
    #[command(flatten)]
    pub(super) how: How,
    /// The command and its arguments, after --
    #[arg(last = true, required = true, value_name = "CMD", help_heading = NONE)]
    pub(super) command: Vec<OsString>,
}

/// Run a command while holding a lock.
#[derive(Debug, clap::Args)]
pub(crate) struct Lock {
    /// The name of the lock
    pub(super) name: String,
    /// Hold it together with others that ask for the same
    #[arg(long, short = 's', conflicts_with_all = ["permits", "exclusive"])]
    pub(super) shared: bool,
    /// Hold it alone, which is what happens anyway
    #[arg(long, short = 'x', visible_short_alias = 'e', conflicts_with = "permits")]
    exclusive: bool,
    /// How many may hold it at once; all must ask for the same number
    #[arg(long, value_name = "N")]
    pub(super) permits: Option<NonZeroU32>,
    #[command(flatten)]
    pub(super) how: How,
    /// A command to run by sh, as one word
    #[arg(long = "command", short = 'c', value_name = "CMD", conflicts_with = "command", help_heading = NONE)]
    shell: Option<OsString>,
    /// The command and its arguments, with or without -- before it; without one the token is printed and the lock held
    #[arg(trailing_var_arg = true, value_name = "CMD", help_heading = NONE)]
    command: Vec<OsString>,
}

impl Run {
    /// What is campaigned for. clap has seen to it that one of the two is there.
    pub(super) fn name(&self) -> String {
        self.name.clone().or_else(|| self.election.clone()).unwrap_or_default()
    }
}

impl Lock {
    /// The command, or nothing.
    pub(super) fn command(&self) -> Vec<OsString> {
        match &self.shell {
            Some(line) => vec!["sh".into(), "-c".into(), line.clone()],
            None => self.command.clone(),
        }
    }
}

/// What both have in common.
#[derive(Debug, clap::Args)]
pub(crate) struct How {
    /// How long the lease lasts without a sign of life
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "DURATION", help_heading = CANDIDATE)]
    pub(in crate::commands) ttl: Duration,
    #[command(flatten, next_help_heading = CANDIDATE)]
    pub(in crate::commands) candidate: CandidateArgs,
    /// What others read of the holder: its address, say
    #[arg(long, default_value = "", hide_default_value = true, help_heading = CANDIDATE, hide_short_help = true)]
    pub(in crate::commands) value: String,
    /// How long the command may take to end by itself before it is killed [default: a quarter of --ttl]
    #[arg(long, value_parser = duration, value_name = "DURATION", help_heading = COMMAND)]
    pub(in crate::commands) grace: Option<Duration>,
    /// Let the command gain privileges, by sudo or another program that runs as its owner
    #[arg(long, help_heading = COMMAND, hide_short_help = true)]
    pub(in crate::commands) allow_new_privileges: bool,
    /// When it is lost, do not campaign again: exit with 4
    #[arg(long, help_heading = LOSS)]
    pub(in crate::commands) once: bool,
    /// Do not wait: exit with 3 if another candidate holds it
    #[arg(long, short = 'n', help_heading = WAITING)]
    pub(in crate::commands) nonblock: bool,
    /// Wait no longer than this: exit with 3. A bare number is seconds
    #[arg(
        long,
        short = 'w',
        visible_alias = "max-wait",
        value_parser = patience,
        value_name = "DURATION",
        conflicts_with = "nonblock", help_heading = WAITING)]
    pub(in crate::commands) timeout: Option<Duration>,
    /// The exit code of -n and -w instead of 3
    #[arg(long, short = 'E', value_name = "CODE", default_value_t = 3, hide_default_value = true, help_heading = WAITING, hide_short_help = true)]
    pub(in crate::commands) conflict_exit_code: u8,
    /// Start the command at once, and tell it by this signal that it leads
    #[arg(long, value_parser = signal, value_name = "SIGNAL", help_heading = COMMAND, hide_short_help = true)]
    pub(in crate::commands) won: Option<i32>,
    /// Tell the command by this signal, and not by TERM, that it leads no more
    #[arg(long, value_parser = signal, value_name = "SIGNAL", help_heading = COMMAND, hide_short_help = true)]
    pub(in crate::commands) lost: Option<i32>,
    /// A file that exists while the command may run, with the token in it
    #[arg(long, value_name = "FILE", help_heading = COMMAND, hide_short_help = true)]
    pub(in crate::commands) marker: Option<PathBuf>,
    /// A command to run while waiting (by sh)
    #[arg(long, value_name = "CMD", help_heading = WAITING, hide_short_help = true)]
    pub(in crate::commands) standby_cmd: Option<String>,
    /// Keep it at least so long, also if the command ends earlier
    #[arg(long, value_parser = duration, value_name = "DURATION", help_heading = COMMAND, hide_short_help = true)]
    pub(in crate::commands) hold_at_least: Option<Duration>,
    /// End the command after this time, and exit with 124
    #[arg(long, value_parser = duration, value_name = "DURATION", help_heading = COMMAND, hide_short_help = true)]
    pub(in crate::commands) hold_at_most: Option<Duration>,
    /// Start the command again when it fails, instead of giving up the lead
    #[arg(long, value_enum, default_value_t = Restart::Never, help_heading = COMMAND)]
    pub(in crate::commands) restart: Restart,
    /// When the lease cannot be confirmed: stop (at most one runs) or continue (duplicates possible)
    #[arg(long, value_enum, default_value_t = OnDoubt::Stop, help_heading = LOSS, hide_short_help = true)]
    pub(in crate::commands) on_doubt: OnDoubt,
    /// A device that resets the machine if the guardian cannot do its work, as /dev/watchdog
    #[arg(long, value_name = "DEVICE", help_heading = LOSS, hide_short_help = true)]
    pub(in crate::commands) watchdog: Option<PathBuf>,
    /// The timeout of that device, if the system does not tell it
    #[arg(long, value_parser = duration, value_name = "DURATION", requires = "watchdog", help_heading = LOSS, hide_short_help = true)]
    pub(in crate::commands) watchdog_timeout: Option<Duration>,
    /// Say nothing but what goes wrong
    #[arg(long, short = 'q', help_heading = NONE)]
    pub(in crate::commands) quiet: bool,
    #[command(flatten)]
    pub(in crate::commands) health: HealthArgs,
    #[command(flatten)]
    pub(in crate::commands) fence: FenceArgs,
    /// Taken here without its short form, which is that of --timeout
    #[arg(id = "write_out", long = "write-out", value_enum, hide = true)]
    pub(in crate::commands) _write_out: Option<Format>,
}

/// How it is seen whether the command does its work.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Health: an unhealthy candidate does not lead")]
pub(crate) struct HealthArgs {
    /// A command that succeeds while all is well (by sh); asked of candidates too
    #[arg(long, value_name = "CMD")]
    pub(in crate::commands) health_cmd: Option<String>,
    /// An address that answers 200 to 399 while all is well
    #[arg(long, value_name = "URL", hide_short_help = true)]
    pub(in crate::commands) health_http: Option<String>,
    /// An address that takes connections while all is well
    #[arg(long, value_name = "HOST:PORT", hide_short_help = true)]
    pub(in crate::commands) health_tcp: Option<String>,
    /// Memory that the command and all it started may use, as 512M
    #[arg(long, value_parser = size, value_name = "SIZE", hide_short_help = true)]
    pub(in crate::commands) max_rss: Option<Size>,
    /// Disk that must be free, as 1G or 1G:/var/lib; asked of candidates too
    #[arg(long, value_name = "SIZE[:PATH]", hide_short_help = true)]
    pub(in crate::commands) min_disk_free: Option<String>,
    /// How often to look
    #[arg(long, default_value = "5s", value_parser = duration, value_name = "DURATION", hide_short_help = true)]
    pub(in crate::commands) health_interval: Duration,
    /// How many failures in a row are too many
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), hide_short_help = true)]
    pub(in crate::commands) unhealthy_after: u32,
}

/// What to do about a holder that may not have stopped.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Fencing: what cannot check tokens")]
pub(crate) struct FenceArgs {
    /// Must succeed before the command is started after a holder that did not resign: cuts it off. By sh;
    /// a Pacemaker agent (fence_*) gets key=value on its stdin
    #[arg(long, value_name = "CMD", hide_short_help = true)]
    pub(super) fence_cmd: Option<String>,
    /// What else a fence agent is told
    #[arg(long, value_name = "KEY=VALUE", requires = "fence_cmd", hide_short_help = true)]
    pub(super) fence_option: Vec<String>,
    /// Which target each identity stands for, a line each: `IDENTITY TARGET`. No other is cut off: after a holder that the
    /// file does not name, the command is not started. `*` names all others, the target `-` nothing to cut off
    #[arg(long, value_name = "FILE", requires = "fence_cmd", value_parser = FenceMap::load, hide_short_help = true)]
    pub(super) fence_map: Option<FenceMap>,
    /// How long fencing may take
    #[arg(long, default_value = "60s", value_parser = duration, value_name = "DURATION", hide_short_help = true)]
    pub(super) fence_timeout: Duration,
}

/// When to start the command again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Restart {
    Never,
    OnFailure,
}

/// What to do when the lease is not confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnDoubt {
    Stop,
    Continue,
}

impl HealthArgs {
    /// No checks.
    pub(in crate::commands) fn none() -> HealthArgs {
        HealthArgs {
            health_cmd: None,
            health_http: None,
            health_tcp: None,
            max_rss: None,
            min_disk_free: None,
            health_interval: Duration::from_secs(5),
            unhealthy_after: 3,
        }
    }
}

impl How {
    /// How long the command may take to end.
    pub(super) fn grace(&self) -> Duration {
        self.grace.unwrap_or_else(|| usual_grace(self.ttl))
    }

    /// What this asks for as a candidate.
    pub(super) fn apply_to(&self, join: &mut JoinSpec) {
        join.value = self.value.clone().into();
        join.priority = self.candidate.priority;
        join.try_only = self.nonblock;
        // Not before the last holder has surely stopped; with fast release, tokens are what keeps them apart.
        join.no_overlap = !self.candidate.fast_release;
    }

    /// The exit code if it is held by others.
    pub(super) fn conflict(&self) -> Exit {
        match self.conflict_exit_code {
            3 => Exit::NotTaken,
            code => Exit::Code(code),
        }
    }

    /// The timeout of the watchdog.
    pub(super) fn watchdog_timeout(&self) -> Option<Duration> {
        self.watchdog_timeout.or_else(|| watchdog_timeout(self.watchdog.as_deref()?))
    }

    /// Refuses what says something about a command when there is none.
    pub(super) fn without_command(&self) -> anyhow::Result<()> {
        let health = &self.health;
        let given = [
            ("--grace", self.grace.is_some()),
            ("--won", self.won.is_some()),
            ("--lost", self.lost.is_some()),
            ("--marker", self.marker.is_some()),
            ("--standby-cmd", self.standby_cmd.is_some()),
            ("--hold-at-least", self.hold_at_least.is_some()),
            ("--hold-at-most", self.hold_at_most.is_some()),
            ("--restart", self.restart != Restart::Never),
            ("--on-doubt", self.on_doubt != OnDoubt::Stop),
            ("--watchdog", self.watchdog.is_some()),
            ("--health-cmd", health.health_cmd.is_some()),
            ("--health-http", health.health_http.is_some()),
            ("--health-tcp", health.health_tcp.is_some()),
            ("--max-rss", health.max_rss.is_some()),
            ("--min-disk-free", health.min_disk_free.is_some()),
            ("--fence-cmd", self.fence.fence_cmd.is_some()),
        ];
        let given: Vec<&str> = given.iter().filter(|(_, is)| *is).map(|(flag, _)| *flag).collect();
        match given.is_empty() {
            true => Ok(()),
            false => {
                Err(usage(format!("without a command there is no use for {}", given.join(", "))))
            }
        }
    }

    /// Checks every rule.
    ///
    /// # Errors
    /// Names all that are broken.
    pub(super) fn validate(&self) -> anyhow::Result<()> {
        let mut broken = Vec::new();
        if let Err(error) = check_grace(self.ttl, self.grace()) {
            broken.push(error.to_string());
        }
        if let (Some(least), Some(most)) = (self.hold_at_least, self.hold_at_most)
            && least > most
        {
            broken
                .push(format!("--hold-at-least {least:?} is longer than --hold-at-most {most:?}"));
        }
        if self.watchdog.is_some() {
            match self.watchdog_timeout() {
                None => broken.push("--watchdog: say its --watchdog-timeout".to_owned()),
                Some(timeout) if timeout > self.ttl / 2 => broken.push(format!(
                    "--watchdog: its timeout {timeout:?} must be at most half of --ttl {:?}, or the \
                     lease could end before it resets the machine",
                    self.ttl
                )),
                Some(_) => {}
            }
        }
        if self.health.health_interval.is_zero() {
            broken.push("--health-interval must not be zero".to_owned());
        }
        match broken.is_empty() {
            true => Ok(()),
            false => Err(usage(broken.join("; "))),
        }
    }
}

/// How long a command may take to end, if nothing else is said.
pub(in crate::commands) fn usual_grace(ttl: Duration) -> Duration {
    GRACE_MAX.min(ttl / 4).min(grace_max(ttl))
}

/// Whether a command can be ended in time for its lease.
///
/// # Errors
/// Says what to change.
pub(in crate::commands) fn check_grace(ttl: Duration, grace: Duration) -> anyhow::Result<()> {
    if ttl < TTL_MIN {
        return Err(usage(format!("--ttl {ttl:?} must be at least {TTL_MIN:?}")));
    }
    if grace > grace_max(ttl) {
        // What is left of the lease must be enough for a renewal and one more attempt.
        let needed = 2 * (grace + 2 * kill_time(ttl) + margin(ttl));
        return Err(usage(format!(
            "--grace {grace:?} with --ttl {ttl:?} leaves no time to renew: make --ttl {needed:?} or more"
        )));
    }
    Ok(())
}

/// Of the lease, a third passes before a renewal, and a sixth before another attempt.
fn grace_max(ttl: Duration) -> Duration {
    (ttl / 2).saturating_sub(margin(ttl) + 2 * kill_time(ttl))
}
