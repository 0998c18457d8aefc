//! Log lines on stderr.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use super::flags::{Args, LogFormat, text};

/// Starts logging as the flags say; what cannot be understood falls back to the default.
pub(super) fn start(args: &Args) {
    let level = text(&args.log_level, "log-level").unwrap_or_else(|| "info".to_owned());
    let filter = EnvFilter::try_new(&level).unwrap_or_else(|_| EnvFilter::new("info"));
    let terminal = std::io::stderr().is_terminal();
    let format = args.log_format.unwrap_or(match terminal {
        true => LogFormat::Console,
        false => LogFormat::Json,
    });
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Json => lines.json().flatten_event(true).init(),
        LogFormat::Console => {
            let colours = terminal && std::env::var_os("NO_COLOR").is_none();
            lines.with_target(false).with_ansi(colours).init();
        }
    }
}
