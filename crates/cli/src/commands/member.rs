//! Shows and changes the members of the cluster.

use clap::Subcommand;
use tenure::api::wire::etcdserverpb as pb;

use crate::args::{Settings, member_id};
use crate::exit::{Exit, usage};
use crate::output::Output;

/// What to do about members.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show all members
    List,
    /// Add a member, before it is started for the first time
    Add {
        /// Its human name
        name: String,
        /// Where the other members will reach it
        #[arg(long, value_name = "URL", value_delimiter = ',', required = true)]
        peer_urls: Vec<String>,
        /// Without a vote: it follows the log until it is promoted
        #[arg(long)]
        learner: bool,
    },
    /// Give a learner its vote
    Promote {
        /// The member, in hexadecimal
        #[arg(value_name = "MEMBER", value_parser = member_id)]
        id: u64,
    },
    /// Say where a member is reached by the others from now on
    Update {
        /// The member, in hexadecimal
        #[arg(value_name = "MEMBER", value_parser = member_id)]
        id: u64,
        /// Where
        #[arg(long, value_name = "URL", value_delimiter = ',', required = true)]
        peer_urls: Vec<String>,
    },
    /// Remove a member, for ever
    Remove {
        /// The member, in hexadecimal
        #[arg(value_name = "MEMBER", value_parser = member_id)]
        id: u64,
    },
}

/// Does it.
pub(crate) async fn run(command: Command, settings: Settings) -> anyhow::Result<Exit> {
    let client = settings.client();
    let cluster = client.cluster();
    let mut output = Output::stdout(&settings);
    match command {
        Command::List => {
            let request = pb::MemberListRequest { linearizable: true };
            output.member_list(&cluster.member_list(request).await?)?;
        }
        Command::Add { name, peer_urls, learner } => {
            if name.is_empty() || name.contains([',', '=']) {
                return Err(usage("a member's name must not be empty, nor contain , or ="));
            }
            let request = pb::MemberAddRequest { peer_ur_ls: peer_urls, is_learner: learner };
            output.member_added(&name, learner, &cluster.member_add(request).await?)?;
        }
        Command::Promote { id } => {
            let promoted = cluster.member_promote(pb::MemberPromoteRequest { id }).await?;
            output.members_changed("promoted in", id, promoted.header, &promoted.members)?;
        }
        Command::Update { id, peer_urls } => {
            let request = pb::MemberUpdateRequest { id, peer_ur_ls: peer_urls };
            let updated = cluster.member_update(request).await?;
            output.members_changed("updated in", id, updated.header, &updated.members)?;
        }
        Command::Remove { id } => {
            let removed = cluster.member_remove(pb::MemberRemoveRequest { id }).await?;
            output.members_changed("removed from", id, removed.header, &removed.members)?;
        }
    }
    output.flush()?;
    Ok(Exit::Done)
}
