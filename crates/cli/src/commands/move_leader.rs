//! Make another member the raft leader.

use anyhow::bail;
use tenure::api::wire::etcdserverpb::{MemberListRequest, MoveLeaderRequest};
use tenure::grpc::{Client, Endpoint};

use crate::args::Settings;
use crate::exit::Exit;

/// To which member.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The member that is to lead, as tenure status shows it
    #[arg(value_parser = member_id)]
    id: u64,
}

fn member_id(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16)
        .map_err(|_| format!("{text:?} is not the id of a member; tenure status shows them"))
}

/// Only the raft leader can hand over, so it is looked for first.
pub(crate) async fn run(args: Args, settings: Settings) -> anyhow::Result<Exit> {
    let (leader, client) = find_leader(&settings).await?;
    client.maintenance().move_leader(MoveLeaderRequest { target_id: args.id }).await?;
    println!("Leadership transferred from {leader:x} to {:x}", args.id);
    Ok(Exit::Done)
}

/// The raft leader and a client of it alone: one of the endpoints, or where the cluster says it is.
async fn find_leader(settings: &Settings) -> anyhow::Result<(u64, Client)> {
    let client = settings.client();
    let mut followed = None;
    let mut failure = None;
    for (endpoint, member) in client.each_member() {
        match member.maintenance().status().await {
            Ok(status) if status.leader == 0 => {}
            Ok(status) if status.header.is_some_and(|h| h.member_id == status.leader) => {
                return Ok((status.leader, member));
            }
            Ok(status) => followed = Some((status.leader, member)),
            Err(error) => {
                eprintln!("no status of {endpoint}: {error}");
                failure = Some(error);
            }
        }
    }
    let Some((leader, follower)) = followed else {
        return Err(failure.map_or_else(|| anyhow::anyhow!("no raft leader"), Into::into));
    };
    let members = follower.cluster().member_list(MemberListRequest { linearizable: true }).await?;
    let urls = members.members.into_iter().find(|m| m.id == leader).map(|m| m.client_ur_ls);
    let Some(urls) = urls.filter(|urls| !urls.is_empty()) else {
        bail!("nobody knows where raft leader {leader:x} serves clients: name it with --endpoints");
    };
    let at = Endpoint::list(&urls.join(","))?;
    Ok((leader, Client::new(at, settings.options.clone())))
}
