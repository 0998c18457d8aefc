//! Show how the members are.

use tenure::grpc::{Client, ClientError};

use crate::args::Settings;
use crate::exit::Exit;
use crate::output::{MemberStatus, Output};

/// Asks the endpoints.
pub(crate) async fn run(settings: Settings) -> anyhow::Result<Exit> {
    ask(&settings.client(), &settings).await
}

/// Asks every member; those that do not answer are named on stderr.
pub(super) async fn ask(client: &Client, settings: &Settings) -> anyhow::Result<Exit> {
    let mut answers = Vec::new();
    let mut failure = None;
    let members = client.each_member().count();
    for (endpoint, member) in client.each_member() {
        match member.maintenance().status().await {
            Ok(status) => answers.push(MemberStatus { endpoint: endpoint.to_string(), status }),
            Err(error) => {
                eprintln!("no status of {endpoint}: {error}");
                failure = Some(error);
            }
        }
    }
    if let (Some(error), true) = (failure, answers.is_empty()) {
        return Err(unless_repeated(error, members));
    }
    let mut output = Output::stdout(settings);
    output.status(&answers)?;
    output.flush()?;
    Ok(if answers.len() == members { Exit::Done } else { Exit::Error })
}

/// With one endpoint, the line on stderr has said it all but the next step.
fn unless_repeated(error: ClientError, endpoints: usize) -> anyhow::Error {
    let error = anyhow::Error::from(error);
    if endpoints > 1 { error.context("no member answered") } else { error }
}
