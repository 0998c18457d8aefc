//! What every verb takes that becomes a candidate: `run`, `lock`, `elect`, `sidecar`, `once`, `schedule`.

use std::time::Duration;

use clap::ValueEnum;
use clap::builder::BoolishValueParser;
use tenure::SessionOptions;

use super::duration;
use crate::output::Format;

/// Reads how long to wait: a length of time, or a number of seconds as after flock's -w.
pub(crate) fn patience(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Duration::try_from_secs_f64(seconds)
            .map_err(|_| format!("{text:?} is too long, or negative"));
    }
    if Format::from_str(text, true).is_ok() {
        return Err(format!("here -w is how long to wait; the format is --write-out {text}"));
    }
    duration(text).map_err(|_| {
        format!("{text:?} is not a time to wait; write it as 5 (seconds), 300ms or 1m30s")
    })
}

/// Flags of a candidate.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CandidateArgs {
    /// Identity of this candidate, for people [default: TENURE_IDENTITY, then HOST/PID]
    #[arg(long, value_name = "TEXT")]
    pub(crate) identity: Option<String>,
    /// Higher priority is elected first, 0 to 1000
    #[arg(
        long,
        default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=1000),
        hide_default_value = true,
        hide_short_help = true,
        value_name = "N"
    )]
    pub(crate) priority: u32,
    /// Let the next candidate hold it about 50 ms after this process dies, not after --ttl. A server that restarts then
    /// ends it too, and work that goes on after this process may overlap with the next holder's: only where tokens are
    /// checked [default: off]
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        default_value = "off",
        default_missing_value = "on",
        hide_default_value = true,
        value_parser = BoolishValueParser::new(),
        hide_possible_values = true,
        hide_short_help = true,
        value_name = "on|off"
    )]
    pub(crate) fast_release: bool,
    /// Wait at the start until a server can be reached [default: on for run without -n, sidecar and schedule; otherwise off]
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "on",
        value_parser = BoolishValueParser::new(),
        hide_possible_values = true,
        hide_short_help = true,
        value_name = "on|off"
    )]
    pub(crate) wait_for_server: Option<bool>,
}

impl CandidateArgs {
    /// Settings of its sessions. Without `--identity` the library says what it is.
    pub(crate) fn session(&self, ttl: Duration) -> SessionOptions {
        let options = SessionOptions::new(ttl);
        let identity = self.identity.clone().unwrap_or(options.identity);
        SessionOptions { identity, fast_release: self.fast_release, ..options }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        candidate: CandidateArgs,
        name: String,
    }

    #[test]
    fn candidate_switches_take_on_and_off_and_never_the_name_behind_them() {
        let read = |words: &[&str]| {
            let cli = Cli::parse_from([&["x"], words].concat());
            assert_eq!(cli.name, "jobs");
            (cli.candidate.fast_release, cli.candidate.wait_for_server)
        };
        assert_eq!(read(&["jobs"]), (false, None));
        assert_eq!(read(&["--fast-release", "--wait-for-server", "jobs"]), (true, Some(true)));
        let off = ["--fast-release=off", "--wait-for-server=off", "jobs"];
        assert_eq!(read(&off), (false, Some(false)));
        assert_eq!(read(&["--fast-release=on", "jobs"]), (true, None));
    }

    #[test]
    fn candidate_waits_for_seconds_if_no_unit_is_given() {
        for (text, millis) in [("1", 1000), ("0.5", 500), ("0", 0), ("2m", 120_000)] {
            assert_eq!(patience(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "-1", "1x", "inf", "NaN", "1e300"] {
            assert!(patience(text).is_err(), "{text}");
        }
        assert!(patience("json").unwrap_err().contains("--write-out json"));
    }

    #[test]
    fn candidate_identity_is_that_of_the_flag_if_there_is_one() {
        let cli = Cli::parse_from(["x", "jobs", "--identity", "alice"]);
        assert_eq!(cli.candidate.session(Duration::from_secs(1)).identity, "alice");
        let cli = Cli::parse_from(["x", "jobs"]);
        let options = SessionOptions::new(Duration::from_secs(1));
        assert_eq!(cli.candidate.session(Duration::from_secs(1)).identity, options.identity);
    }
}
