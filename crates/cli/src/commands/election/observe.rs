//! Shows the leader, and every change of it.

use serde::Serialize;
use tenure::api::wire::tenure::v1::{self as pb, observe_response::Event};
use tenure::grpc::Code;
use tokio::signal::ctrl_c;

use super::words::{Tenure, write};
use crate::args::Settings;
use crate::exit::Exit;

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

/// Writes what happens until interrupted. A broken stream is taken up again where it broke.
pub(crate) async fn run(args: Args, settings: Settings) -> anyhow::Result<Exit> {
    let client = settings.client();
    let mut after = args.after_rev;
    let mut ended = None;
    loop {
        let request = pb::ObserveRequest { name: args.name.clone(), after_revision: after };
        let mut seen = client.elections().observe(request).await?;
        loop {
            let next = tokio::select! {
                next = seen.message() => next,
                interrupted = ctrl_c() => return interrupted.map(|()| Exit::Interrupted).map_err(Into::into),
            };
            match next {
                Ok(Some(response)) => {
                    after = response.revision.max(after);
                    if !is_repeated(&response, &mut ended) {
                        write(&settings, described(response), election)?;
                    }
                }
                Ok(None) => break,
                Err(status) if status.code() == Code::Unavailable => break,
                Err(status) => anyhow::bail!("{}", status.message()),
            }
        }
    }
}

/// Whether it is the end that was told last: a stream that broke right after it begins with it again, lest what
/// followed be missed.
fn is_repeated(response: &pb::ObserveResponse, ended: &mut Option<i64>) -> bool {
    let Some(Event::Ended(tenure)) = &response.event else { return false };
    ended.replace(tenure.token) == Some(tenure.token)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(token: i64) -> pb::ObserveResponse {
        let event = Some(Event::Ended(pb::Tenure { token, ..Default::default() }));
        pb::ObserveResponse { event, ..Default::default() }
    }

    #[test]
    fn an_end_that_comes_again_is_told_once() {
        let mut last = None;
        let nobody = pb::ObserveResponse {
            event: Some(Event::NoLeader(pb::NoLeader { frozen: false })),
            ..Default::default()
        };
        let told = [ended(5), ended(5), nobody.clone(), nobody, ended(7)];
        let repeated = told.map(|response| is_repeated(&response, &mut last));
        assert_eq!(repeated, [false, true, false, false, false]);
    }
}
