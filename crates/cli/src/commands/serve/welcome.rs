//! What a person sees when a server has started: where it listens and what to type next.

use std::io::Write;

use tenure_server::{Config, config::UiMode};

/// Prints it on stdout. The server goes on even if that fails.
pub(super) fn print(config: &Config, clients: &[String]) {
    let members = config.members().len();
    let what = match members {
        1 => "one durable node".to_owned(),
        _ => format!("member {} of {members}", config.name),
    };
    let first = clients.first().map_or("", String::as_str);
    let endpoints = match first.strip_prefix("http://").unwrap_or(first) {
        "127.0.0.1:2379" => String::new(),
        other => format!(" --endpoints {other}"),
    };
    let browse = match config.ui {
        UiMode::Off => String::new(),
        UiMode::On => format!("  browse   {first}/ui/\n"),
        UiMode::ReadOnly => format!("  browse   {first}/ui/  (read-only)\n"),
    };
    let mut out = std::io::stdout().lock();
    let _ = write!(
        out,
        "tenure {} is ready: {what}\n  clients  {}  (etcd v3 API, /health, /metrics)\n{browse}  data     {}\n  \
         try      {}{endpoints} elect nightly-job\n",
        env!("CARGO_PKG_VERSION"),
        clients.join(" "),
        config.data_dir.display(),
        std::env::args().next().unwrap_or_else(|| "tenure".to_owned()),
    );
    let _ = out.flush();
}
