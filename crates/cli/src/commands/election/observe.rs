//! Shows the leader, and every change of it.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tenure::api::wire::tenure::v1::{self as pb, observe_response::Event};
use tenure::backend::ElectionEvents;
use tokio::signal::ctrl_c;

use super::words::{Tenure, write};
use crate::args::Settings;
use crate::exit::Exit;
use crate::talk::talk;

/// The pause before a broken stream is taken up again.
const PAUSE: Duration = Duration::from_millis(100);
/// So many failures in a row are not worth a line, and the next one is.
const FAILURES_UNTOLD: u32 = 2;

/// What to observe.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The name of the election or lock
    name: String,
    /// Begin after this revision, with what is remembered of that time
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    after_rev: i64,
}

#[derive(Serialize)]
struct Seen {
    revision: i64,
    event: &'static str,
    #[serde(flatten)]
    tenure: Option<Tenure>,
}

/// Writes what happens until interrupted. A stream that breaks is taken up on another member where it broke.
pub(crate) async fn run(args: Args, settings: Settings) -> anyhow::Result<Exit> {
    let members = Arc::new(settings.client());
    let mut events = ElectionEvents::after(members, args.name.clone(), args.after_rev);
    let mut began = false;
    let mut failures = 0;
    loop {
        let next = tokio::select! {
            next = events.next() => next,
            interrupted = ctrl_c() => return interrupted.map(|()| Exit::Interrupted).map_err(Into::into),
        };
        match next {
            Ok(response) => {
                (began, failures) = (true, 0);
                write(&settings, described(response), election)?;
            }
            Err(error) if error.is_refused() || !began => return Err(error.into()),
            Err(error) => {
                failures += 1;
                // One is a member that has gone; that another one cannot go on is worth a line.
                if failures == FAILURES_UNTOLD {
                    talk!("tenure: observing {}: {error}; trying again", args.name);
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn described(response: pb::ObserveResponse) -> Option<Seen> {
    let (event, tenure) = match response.event? {
        Event::Began(tenure) => ("leads", Some(tenure)),
        Event::Ended(tenure) => ("ended", Some(tenure)),
        Event::Proclaimed(tenure) => ("proclaims", Some(tenure)),
        Event::NoLeader(pb::NoLeader { frozen: true }) => ("frozen", None),
        Event::NoLeader(_) => ("nobody leads", None),
        Event::Forgotten(_) => ("earlier tenures are forgotten", None),
    };
    Some(Seen { revision: response.revision, event, tenure: tenure.map(Tenure::from) })
}

fn election(seen: &Seen) -> String {
    match &seen.tenure {
        Some(tenure) => format!("{}\t{}\t{}", seen.revision, seen.event, tenure.election()),
        None => format!("{}\t{}", seen.revision, seen.event),
    }
}
