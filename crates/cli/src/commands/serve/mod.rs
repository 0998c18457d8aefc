//! Run a server.

mod examine;
mod leash;
mod log;
mod notify;
mod settings;
mod welcome;

use std::pin::pin;

use tenure_server::{Server, traces::Traces};
use tracing::{error, info, warn};

use self::examine::Examinations;
pub(crate) use self::leash::VARIABLE as LEASH;
pub(crate) use self::settings::Flags;
use self::settings::{LogFormat, Serving, Settings};
use crate::commands::{lab, stop::told_to_stop};
use crate::exit::{Exit, usage};
use crate::{files, memory};

/// Runs it until it is told to stop.
pub(crate) fn run(flags: Flags) -> anyhow::Result<Exit> {
    if !leash::put_on()? {
        anyhow::bail!("whoever started this member is gone");
    }
    let mut settings = Settings::collect(&flags, std::env::vars());
    let serving = settings.read();
    if flags.print_config {
        settings::print(&settings, &mut std::io::stdout().lock())?;
    }
    if !settings.problems.is_empty() {
        let list: Vec<_> = settings.problems.iter().map(|problem| format!("  {problem}")).collect();
        return Err(usage(format!("the settings cannot work:\n{}", list.join("\n"))));
    }
    if flags.print_config {
        return Ok(Exit::Done);
    }
    let traces = serving.collector.as_ref().map(Traces::start).transpose()?;
    let spans = traces.as_ref().map(Traces::layer);
    log::start(&serving.logging, spans)?;
    for warning in &settings.warnings {
        warn!("{warning}");
    }
    memory::give_back_beside();
    files::allow_many();
    let served = serve(&serving);
    match served {
        // With JSON logs, the last line is JSON, too.
        Err(failed) if serving.logging.format == LogFormat::Json => {
            error!("{failed:#}");
            Ok(Exit::of(&failed))
        }
        served => served,
    }
}

/// One thread carries the network, the core loop and the peers: they share everything, and handing
/// requests between threads costs more than it gains. The log has a thread of its own.
fn serve(serving: &Serving) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // From here on a signal is an orderly end. A member may wait for its cluster without end before it
        // serves, and as the first process of a container it dies of no signal that it does not take.
        let mut told = pin!(told_to_stop());
        let examinations = Examinations::default();
        let mut more = examinations.routes();
        if serving.config.lab {
            more = more.merge(lab::ui::routes());
        }
        let server = tokio::select! {
            started = Server::start_with(serving.config.clone(), more) => started?,
            () = &mut told => {
                info!("told to stop before it served anybody");
                return Ok(Exit::Done);
            }
        };
        examinations.begin(server.client_urls());
        welcome::print(&serving.config, server.client_urls());
        let stop = async {
            tokio::select! {
                () = told => {}
                never = notify::ready() => match never {},
            }
            notify::stopping();
        };
        server.run_until(stop).await?;
        Ok(Exit::Done)
    })
}
