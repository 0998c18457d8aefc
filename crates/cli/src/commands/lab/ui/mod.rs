//! `tenure lab ui`: the lab for browsers, without a server.
//!
//! A run happens here, beside the network's thread, with limits; the browser gets its trace and only draws it. The same
//! routes are part of a member that was started with `--lab`.

mod routes;
mod runs;

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use anyhow::Context;
use axum::middleware::{self, Next};
use axum::response::IntoResponse;
use tenure_server::browsers::Browsers;
use tenure_server::http::{UiFacts, ui_routes};

pub(crate) use self::routes::{pack, routes};
use crate::commands::stop::told_to_stop;
use crate::exit::Exit;

/// Where to serve it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to listen; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:2390")]
    listen: SocketAddr,
    /// Only print the address: open no browser
    #[arg(long)]
    no_open: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(args.listen).await.with_context(|| {
            format!("cannot listen on {}; --listen takes another address, port 0 any", args.listen)
        })?;
        let at = listener.local_addr()?;
        let browsers = std::sync::Arc::new(Browsers::at(at.ip()));
        let guard = move |request: axum::extract::Request, next: Next| {
            let browsers = std::sync::Arc::clone(&browsers);
            async move {
                let (parts, body) = request.into_parts();
                match browsers.judge(&parts) {
                    Err(refused) => (refused.status(), format!("{refused}\n")).into_response(),
                    Ok(_) => next.run(axum::extract::Request::from_parts(parts, body)).await,
                }
            }
        };
        let app =
            ui_routes(UiFacts::of_lab(), None).merge(routes()).layer(middleware::from_fn(guard));
        let url = format!("http://{at}/ui/");
        println!("the lab is at {url} (Ctrl-C ends it)");
        if !args.no_open {
            open(&url);
        }
        axum::serve(listener, app).with_graceful_shutdown(told_to_stop()).await?;
        Ok(Exit::Done)
    })
}

/// The lines of a run for a page that has no lab behind it.
///
/// # Errors
/// Why there is no run.
pub(super) fn play_for_page(
    story: &str,
    seed: u64,
    faults: Option<&str>,
) -> Result<String, String> {
    let wanted = runs::Wanted { story: story.into(), seed, faults: faults.map(Into::into) };
    runs::play(&wanted).map_err(|no_run| match no_run {
        runs::NoRun::Script { line: Some(line), column: Some(column), why } => {
            format!("line {line}, column {column}: {why}")
        }
        other => other.json()["error"].as_str().unwrap_or_default().to_owned(),
    })
}

/// Opens a browser where there is a screen. If that fails, the address has been printed.
fn open(url: &str) {
    let has_screen =
        ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    if has_screen {
        let quiet = Stdio::null;
        let opener = Command::new("xdg-open")
            .arg(url)
            .stdin(quiet())
            .stdout(quiet())
            .stderr(quiet())
            .spawn();
        drop(opener);
    }
}
