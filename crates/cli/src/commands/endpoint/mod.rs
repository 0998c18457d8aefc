//! What must be asked of every member, and not of any.

mod hashkv;
mod health;

use clap::Subcommand;
use tenure::api::wire::etcdserverpb::MemberListRequest;
use tenure::grpc::{Client, Endpoint};

use super::status;
use crate::args::Settings;
use crate::exit::Exit;

/// What to ask.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Can each member commit a proposal, and how long does it take?
    Health(Whom),
    /// Show how the members are
    Status(Whom),
    /// A checksum of each member's keys and history
    Hashkv(hashkv::Args),
}

/// Which members to ask.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Whom {
    /// Ask every member of the cluster, not only the endpoints
    #[arg(long)]
    cluster: bool,
}

/// Asks.
pub(crate) async fn run(command: Command, settings: Settings) -> anyhow::Result<Exit> {
    match command {
        Command::Health(whom) => health::run(whom, settings).await,
        Command::Status(whom) => {
            let client = everyone(&settings, whom.cluster).await?;
            status::ask(&client, &settings).await
        }
        Command::Hashkv(args) => hashkv::run(args, settings).await,
    }
}

/// A client of the endpoints, or of all members that say where they serve clients.
pub(super) async fn everyone(settings: &Settings, cluster: bool) -> anyhow::Result<Client> {
    let client = settings.client();
    if !cluster {
        return Ok(client);
    }
    let list = client.cluster().member_list(MemberListRequest { linearizable: true }).await?;
    let urls: Vec<String> = list.members.into_iter().flat_map(|m| m.client_ur_ls).collect();
    Ok(Client::new(Endpoint::list(&urls.join(","))?, settings.options.clone()))
}
