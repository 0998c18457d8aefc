//! Show how the members are.

use std::time::Duration;

use serde::Deserialize;
use tenure::api::wire::etcdserverpb as pb;
use tenure::grpc::{Client, ClientError, Dialer, Endpoint};

use super::web;
use crate::args::Settings;
use crate::exit::Exit;
use crate::output::{MemberStatus, NamedStatus, Output};

/// A release has a short name.
const RELEASE_BYTES_MAX: usize = 64;

/// Asks the endpoints, and says what etcd's API has no place for: names and releases.
pub(crate) async fn run(settings: Settings) -> anyhow::Result<Exit> {
    let client = settings.client();
    let (answers, exit) = answers(&client).await?;
    // A member without a raft leader still knows the names.
    let list = client.cluster().member_list(pb::MemberListRequest { linearizable: false }).await;
    let members = list.map(|list| list.members).unwrap_or_default();
    let name_of = |status: &pb::StatusResponse| {
        let id = status.header.as_ref().map(|header| header.member_id)?;
        members.iter().find(|member| member.id == id).map(|member| member.name.clone())
    };
    let patience = settings.options.dial_timeout;
    let dialer = &Dialer::new(settings.options.tls.clone());
    let named = answers.into_iter().map(|(endpoint, member)| {
        let name = name_of(&member.status).unwrap_or_default();
        async move {
            let release = release(dialer, &endpoint, patience).await;
            NamedStatus { name, release, member }
        }
    });
    let named = futures_util::future::join_all(named).await;
    let mut output = Output::stdout(&settings);
    output.named_status(&named)?;
    output.flush()?;
    Ok(exit)
}

/// Which release of tenure serves there, if it is one.
async fn release(dialer: &Dialer, endpoint: &Endpoint, patience: Duration) -> Option<String> {
    #[derive(Deserialize)]
    struct Version {
        tenure: String,
    }
    let answer = web::get(dialer, endpoint, "/tenure/version", patience).await.ok()?;
    let version: Version = serde_json::from_slice(&answer.body).ok()?;
    let is_release = |text: &String| {
        text.len() <= RELEASE_BYTES_MAX && text.chars().all(|c| c.is_ascii_graphic())
    };
    Some(version.tenure).filter(is_release)
}

/// Asks every member, as etcdctl does.
pub(super) async fn ask(client: &Client, settings: &Settings) -> anyhow::Result<Exit> {
    let (answers, exit) = answers(client).await?;
    let members: Vec<_> = answers.into_iter().map(|(_, member)| member).collect();
    let mut output = Output::stdout(settings);
    output.status(&members)?;
    output.flush()?;
    Ok(exit)
}

/// What the members say; those that do not answer are named on stderr.
async fn answers(client: &Client) -> anyhow::Result<(Vec<(Endpoint, MemberStatus)>, Exit)> {
    let mut answers = Vec::new();
    let mut failure = None;
    let members = client.each_member().count();
    for (endpoint, member) in client.each_member() {
        match member.maintenance().status().await {
            Ok(status) => {
                let member = MemberStatus { endpoint: endpoint.to_string(), status };
                answers.push((endpoint, member));
            }
            Err(error) => {
                eprintln!("no status of {endpoint}: {error}");
                failure = Some(error);
            }
        }
    }
    if let (Some(error), true) = (failure, answers.is_empty()) {
        return Err(unless_repeated(error, members));
    }
    let exit = if answers.len() == members { Exit::Done } else { Exit::Error };
    Ok((answers, exit))
}

/// With one endpoint, the line on stderr has said it all but the next step.
fn unless_repeated(error: ClientError, endpoints: usize) -> anyhow::Error {
    let error = anyhow::Error::from(error);
    if endpoints > 1 { error.context("no member answered") } else { error }
}
