//! Whether each member can commit a proposal.

use std::time::Instant;

use anyhow::bail;
use tenure::api::wire::etcdserverpb::RangeRequest;
use tenure::grpc::{Client, Code};

use super::{Whom, everyone};
use crate::args::Settings;
use crate::commands::alarm;
use crate::exit::Exit;
use crate::output::{MemberHealth, Output};

/// etcdctl reads this key; it need not be there.
const PROBE: &[u8] = b"health";

/// Asks all members at the same time: a dead one must not make the others look slow.
pub(super) async fn run(whom: Whom, settings: Settings) -> anyhow::Result<Exit> {
    let client = everyone(&settings, whom.cluster).await?;
    let asked: Vec<_> = client
        .each_member()
        .map(|(endpoint, member)| tokio::spawn(probe(endpoint.to_string(), member)))
        .collect();
    let mut members = Vec::new();
    for answer in asked {
        members.push(answer.await?);
    }
    let mut output = Output::stdout(&settings);
    output.health(&members)?;
    output.flush()?;
    if members.iter().any(|member| member.error.is_some()) {
        bail!("unhealthy cluster");
    }
    Ok(Exit::Done)
}

/// A read that needs a majority, and then the alarms, which are no good health either.
async fn probe(endpoint: String, member: Client) -> MemberHealth {
    let start = Instant::now();
    let read = RangeRequest { key: PROBE.into(), ..Default::default() };
    let error = match member.kv().range(read).await {
        Ok(_) => alarms_of(&member).await,
        // A user that may not read it was still answered by a majority.
        Err(error) if error.code() == Some(Code::PermissionDenied) => alarms_of(&member).await,
        Err(error) => Some(error.to_string()),
    };
    MemberHealth { endpoint, took: start.elapsed(), error }
}

async fn alarms_of(member: &Client) -> Option<String> {
    match alarm::list(member).await {
        Ok(answer) if answer.alarms.is_empty() => None,
        Ok(answer) => {
            let names: Vec<_> =
                answer.alarms.iter().map(|alarm| alarm.alarm().as_str_name()).collect();
            Some(format!("Active Alarm(s): {} ", names.join(" ")))
        }
        Err(_) => Some("Unable to fetch the alarm list".to_owned()),
    }
}
