//! Shows and changes the members of the cluster.

use clap::Subcommand;
use tenure::api::wire::etcdserverpb as pb;
use tenure::grpc::Client;

use crate::args::Settings;
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
        #[arg(long, value_name = "URL", value_parser = url, value_delimiter = ',', required = true)]
        peer_urls: Vec<String>,
        /// Without a vote: it follows the log until it is promoted
        #[arg(long)]
        learner: bool,
    },
    /// Give a learner its vote
    Promote {
        /// The member: its name or its id
        member: String,
    },
    /// Say where a member is reached by the others from now on
    Update {
        /// The member: its name or its id
        member: String,
        /// Where
        #[arg(long, value_name = "URL", value_parser = url, value_delimiter = ',', required = true)]
        peer_urls: Vec<String>,
    },
    /// Remove a member, for ever
    Remove {
        /// The member: its name or its id
        member: String,
    },
}

/// A URL that members can reach each other by.
fn url(text: &str) -> Result<String, String> {
    tenure_server::config::address(text).map(|_| text.to_owned())
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
        Command::Promote { member } => {
            let id = id_of(&client, &member).await?;
            let promoted = cluster.member_promote(pb::MemberPromoteRequest { id }).await?;
            output.members_changed("promoted in", id, promoted.header, &promoted.members)?;
        }
        Command::Update { member, peer_urls } => {
            let id = id_of(&client, &member).await?;
            let request = pb::MemberUpdateRequest { id, peer_ur_ls: peer_urls };
            let updated = cluster.member_update(request).await?;
            output.members_changed("updated in", id, updated.header, &updated.members)?;
        }
        Command::Remove { member } => {
            let id = id_of(&client, &member).await?;
            let removed = cluster.member_remove(pb::MemberRemoveRequest { id }).await?;
            output.members_changed("removed from", id, removed.header, &removed.members)?;
        }
    }
    output.flush()?;
    Ok(Exit::Done)
}

/// The id of the member that is meant, by its name or its id.
///
/// # Errors
/// There is no such member, or the word is the name of one and the id of another.
pub(super) async fn id_of(client: &Client, meant: &str) -> anyhow::Result<u64> {
    let list = client.cluster().member_list(pb::MemberListRequest { linearizable: true }).await?;
    chosen(&list.members, meant).map_err(|why| match u64::from_str_radix(meant, 16) {
        Ok(_) => anyhow::Error::msg(why),
        // It can be no id, and no member has the name.
        Err(_) => usage(why),
    })
}

fn chosen(members: &[pb::Member], meant: &str) -> Result<u64, String> {
    let id = u64::from_str_radix(meant, 16).ok();
    let by_id = members.iter().find(|member| Some(member.id) == id);
    let mut named = members.iter().filter(|member| !meant.is_empty() && member.name == meant);
    match (named.next(), named.next(), by_id) {
        (Some(_), Some(_), _) => Err(format!("several members are called {meant}: give the id")),
        (Some(one), None, Some(other)) if one.id != other.id => Err(format!(
            "{meant} is the name of member {:x} and the id of {:?}: give the other one of the two",
            one.id, other.name
        )),
        (Some(one), None, _) | (None, _, Some(one)) => Ok(one.id),
        // What can only be an id is the cluster's to judge: it may know of a member that was removed.
        (None, _, None) => match id.filter(|id| *id > u32::MAX.into()) {
            Some(id) => Ok(id),
            None => Err(unknown(members, meant)),
        },
    }
}

fn unknown(members: &[pb::Member], meant: &str) -> String {
    let known = members.iter().map(|member| match &member.name[..] {
        "" => format!("{:x} (not started yet)", member.id),
        name => format!("{name} ({:x})", member.id),
    });
    let known: Vec<_> = known.collect();
    format!("member not found: none has the name or id {meant:?}; there are {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_is_found_by_its_name_or_its_id() {
        let member = |id, name: &str| pb::Member { id, name: name.into(), ..Default::default() };
        let members = [member(0xa1, "n1"), member(0xb2, "a1"), member(0xc, "b"), member(0xd, "")];
        let chosen = |meant| chosen(&members, meant);
        for (meant, id) in [("n1", 0xa1), ("b2", 0xb2), ("b", 0xc), ("c", 0xc), ("d", 0xd)] {
            assert_eq!(chosen(meant), Ok(id), "{meant}");
        }
        assert!(chosen("a1").unwrap_err().contains("the name of member b2"));
        assert!(chosen("n9").unwrap_err().contains("n1 (a1), a1 (b2), b (c), d (not started yet)"));
        assert!(chosen("").is_err());
        assert_eq!(chosen("ff00000000000000"), Ok(0xff << 56));
    }
}
