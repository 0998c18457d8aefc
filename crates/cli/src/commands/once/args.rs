//! What is to be run once, and which time of it is meant.

use std::ffi::OsString;
use std::time::Duration;

use jiff::Timestamp;

use crate::args::{CandidateArgs, duration};
use crate::commands::run::{FenceArgs, HealthArgs, How, OnDoubt, Restart};
use crate::exit::{Exit, usage};
use crate::jobs::{Delivery, Slots, Timetable, utc};

/// How long a slot is remembered, unless something else is said.
const KEEP: Duration = Duration::from_secs(7 * 86400);
/// A slot must be remembered for as long as some host may still ask for it.
const KEEP_MIN: Duration = Duration::from_secs(60);

/// Run a command once for all hosts that ask for the same slot.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").args(["slot", "every", "cron", "history"]).required(true))]
pub(crate) struct Once {
    /// The job
    pub(super) name: String,
    /// Which run of the job: any text that all hosts compute alike, as 2026-11-18 or v7
    #[arg(long, value_name = "TEXT", help_heading = WHICH)]
    slot: Option<String>,
    /// One run in each period, counted from 1970 in UTC: 1d, 1h, 15m
    #[arg(long, value_parser = duration, value_name = "PERIOD", help_heading = WHICH)]
    every: Option<Duration>,
    /// One run for each time that a crontab's pattern names, as "0 3 * * *"
    #[arg(long, value_name = "PATTERN", help_heading = WHICH)]
    cron: Option<String>,
    /// The time zone in which --cron is read [default: UTC, on every host]
    #[arg(long, value_name = "ZONE", requires = "cron", help_heading = WHICH)]
    time_zone: Option<String>,
    /// How far this host's clock may be behind: the slot that begins within this time is meant, not the one before it
    /// [default: a tenth of the period, 30s at most]
    #[arg(long, value_parser = duration, value_name = "DURATION", conflicts_with = "slot", help_heading = WHICH)]
    skew: Option<Duration>,
    /// Show what came of earlier slots
    #[arg(long, help_heading = WHICH)]
    pub(super) history: bool,
    /// Claim the slot before the command starts: a crash in the middle is not repeated (default)
    #[arg(long, conflicts_with = "at_least_once", help_heading = HOW)]
    at_most_once: bool,
    /// The slot is done when the command has succeeded: after a crash or a failure a waiting host runs it again
    #[arg(long, help_heading = HOW)]
    at_least_once: bool,
    /// Start the command again on this host when it fails, so many times
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, help_heading = HOW)]
    pub(super) retries: u32,
    /// How long a slot is remembered after it began [default: 7d, and two periods at least]
    #[arg(long, value_parser = duration, value_name = "DURATION", help_heading = HOW)]
    keep: Option<Duration>,
    /// The exit code if another process has the slot, instead of 0
    #[arg(long, short = 'E', value_name = "CODE", default_value_t = 0, hide_default_value = true, help_heading = HOW)]
    conflict_exit_code: u8,
    /// End the command after this time, and exit with 124
    #[arg(long, value_parser = duration, value_name = "DURATION", help_heading = HOW)]
    hold_at_most: Option<Duration>,
    /// How long the lease lasts without a renewal
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "DURATION", help_heading = HOW)]
    ttl: Duration,
    /// How long the command may take to end by itself before it is killed [default: a quarter of --ttl]
    #[arg(long, value_parser = duration, value_name = "DURATION", help_heading = HOW)]
    grace: Option<Duration>,
    #[command(flatten, next_help_heading = HOW)]
    candidate: CandidateArgs,
    /// Print only what goes wrong
    #[arg(long, short = 'q', help_heading = HOW)]
    quiet: bool,
    #[command(flatten)]
    fence: FenceArgs,
    /// The command and its arguments, after --
    #[arg(last = true, required_unless_present = "history", value_name = "CMD")]
    command: Vec<OsString>,
}

const WHICH: &str = "Which slot (one of --slot, --every, --cron)";
const HOW: &str = "How it is run";

impl Once {
    /// The slot that is meant.
    pub(super) fn slot(&self) -> anyhow::Result<String> {
        if let Some(slot) = &self.slot {
            Slots::check_name(slot).map_err(usage)?;
            return Ok(slot.clone());
        }
        let Some(timetable) = self.timetable()? else {
            return Err(usage("which slot? give --slot, --every or --cron"));
        };
        let now = Timestamp::now();
        let skew = self.skew.unwrap_or_else(|| timetable.usual_skew(now));
        let slot = now.checked_add(skew).ok().and_then(|now| timetable.latest(now));
        slot.map(utc).ok_or_else(|| usage("there was no such time yet"))
    }

    /// How long a slot is remembered.
    pub(super) fn keep(&self) -> anyhow::Result<Duration> {
        let timetable = self.timetable()?;
        let period =
            timetable.map_or(Duration::ZERO, |timetable| timetable.period(Timestamp::now()));
        let least = KEEP_MIN.max(2 * period);
        match self.keep {
            None => Ok(KEEP.max(least)),
            Some(keep) if keep < least => Err(usage(format!(
                "--keep {keep:?} is too short: a host that comes late would run the slot again; make it {least:?} or more"
            ))),
            Some(keep) => Ok(keep),
        }
    }

    fn timetable(&self) -> anyhow::Result<Option<Timetable>> {
        match (self.every, &self.cron) {
            (Some(period), _) => {
                let timetable = Timetable::every(period);
                timetable.map(Some).map_err(|e| usage(format!("--every: {e}")))
            }
            (None, Some(pattern)) => {
                let timetable = Timetable::cron(pattern, self.time_zone.as_deref());
                timetable.map(Some).map_err(|e| usage(format!("--cron: {e}")))
            }
            (None, None) => Ok(None),
        }
    }

    pub(super) fn delivery(&self) -> Delivery {
        if self.at_least_once { Delivery::AtLeastOnce } else { Delivery::AtMostOnce }
    }

    /// Whether a server is waited for.
    pub(super) fn waits(&self) -> bool {
        self.candidate.wait_for_server.unwrap_or(false)
    }

    pub(super) fn taken(&self) -> Exit {
        Exit::Code(self.conflict_exit_code)
    }

    /// What `tenure run` would be told, and the command.
    pub(super) fn how(self) -> (How, Vec<OsString>) {
        let how = How {
            ttl: self.ttl,
            candidate: self.candidate,
            value: String::new(),
            grace: self.grace,
            // What was lost in the middle is not begun again.
            once: !self.at_least_once,
            nonblock: false,
            timeout: None,
            conflict_exit_code: self.conflict_exit_code,
            won: None,
            lost: None,
            marker: None,
            allow_new_privileges: true,
            standby_cmd: None,
            hold_at_least: None,
            hold_at_most: self.hold_at_most,
            restart: Restart::Never,
            on_doubt: OnDoubt::Stop,
            watchdog: None,
            watchdog_timeout: None,
            quiet: self.quiet,
            health: HealthArgs::none(),
            fence: self.fence,
            _write_out: None,
        };
        (how, self.command)
    }
}
