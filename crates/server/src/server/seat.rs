//! Which member of which cluster this is: from the settings, from the data directory, or from the
//! members of a cluster that runs.

use std::time::Duration;

use tenure_api::{ClusterId, Member, MemberId};
use tenure_replica::command::COMMAND_VERSION;
use tracing::{info, warn};

use super::StartError;
use crate::{
    config::{ClusterState, Config, address},
    disk::{Identity, Recovered},
    peer::{AskError, Roster, ask},
};

/// Pause between two rounds of asking.
const ASK_PAUSE: Duration = Duration::from_millis(500);
/// Rounds in which nobody knows us before we believe it: the members asked may lag a little.
const UNKNOWN_ROUNDS_MAX: u32 = 4;
/// How often we say that we still wait.
const SAY_EVERY: u32 = 10;

/// Where this member sits.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) identity: Identity,
    /// The members its log begins with: none if it joined, because its log begins with a snapshot.
    pub(super) first_members: Vec<Member>,
    /// The others, as far as they are known before anything is read.
    pub(super) others: Vec<Member>,
}

impl Seat {
    /// Finds it. May wait for members that are not reachable yet.
    pub(super) async fn find(config: &Config, recovered: &Recovered) -> Result<Seat, StartError> {
        let founded = Identity {
            cluster_id: config.cluster_id(),
            member_id: config.member_id(),
            joined: false,
        };
        let foreign = |found: Identity| StartError::ForeignData {
            dir: config.data_dir.clone(),
            found,
            me: founded.member_id,
            cluster: founded.cluster_id,
        };
        if recovered.removed {
            return Err(StartError::Removed(config.data_dir.clone()));
        }
        let existing = config.initial_cluster_state == ClusterState::Existing;
        // The id of a cluster that was made from another's data does not follow from the settings, and
        // who belongs to it is in that data.
        let refounded = recovered.refounded.map(|refounded| refounded.cluster_id);
        match recovered.identity {
            Some(found)
                if refounded == Some(found.cluster_id)
                    && found.member_id == founded.member_id
                    && recovered.snapshot.is_some() =>
            {
                Ok(Seat { identity: found, first_members: vec![], others: vec![] })
            }
            None if existing => Seat::join(config).await,
            None => Ok(Seat::of_founder(config, founded)),
            Some(found) if found == founded => Ok(Seat::of_founder(config, founded)),
            Some(found) if !existing => Err(foreign(found)),
            // The settings tell who is there now, the directory who this is.
            Some(found) if recovered.snapshot.is_some() => {
                Ok(Seat { identity: found, first_members: vec![], others: vec![] })
            }
            Some(found) if found.joined => Seat::join_again(config, found).await,
            // Its log begins with the members that founded the cluster, and only the settings it was
            // made with tell who they were.
            Some(found) => Err(foreign(found)),
        }
    }

    fn of_founder(config: &Config, identity: Identity) -> Seat {
        let first_members = config.members();
        Seat { identity, others: others(&first_members, identity.member_id), first_members }
    }

    /// Asks the members that the settings name who belongs to the cluster, and finds itself by its
    /// address.
    async fn join(config: &Config) -> Result<Seat, StartError> {
        let mut mine = config.initial_advertise_peer_urls.clone();
        mine.sort_unstable();
        let mut unknown_rounds = 0;
        let mut asking = Asking::new(config)?;
        loop {
            let rosters = asking.round().await;
            let names = named(&rosters, &mine);
            if let Some((roster, me)) = agreed(&names) {
                return Seat::taken(roster, me);
            }
            if !names.is_empty() {
                warn!("the members do not agree on who this one is, some lag behind: asking again");
            } else if !rosters.is_empty() {
                unknown_rounds += 1;
                if unknown_rounds >= UNKNOWN_ROUNDS_MAX {
                    return Err(StartError::NotAdded {
                        name: config.name.clone(),
                        urls: mine.join(","),
                        cluster: rosters[0].cluster_id,
                    });
                }
            }
            tokio::time::sleep(ASK_PAUSE).await;
        }
    }

    /// It knows who it is, but nobody told it anything before it stopped.
    async fn join_again(config: &Config, identity: Identity) -> Result<Seat, StartError> {
        let mut asking = Asking::new(config)?;
        loop {
            let rosters = asking.round().await;
            if let Some(roster) =
                rosters.iter().find(|roster| roster.cluster_id == identity.cluster_id)
            {
                return Seat::taken(roster, identity.member_id);
            }
            tokio::time::sleep(ASK_PAUSE).await;
        }
    }

    fn taken(roster: &Roster, me: MemberId) -> Result<Seat, StartError> {
        if roster.cluster_version > COMMAND_VERSION {
            return Err(StartError::TooOld { cluster: roster.cluster_version });
        }
        let identity = Identity { cluster_id: roster.cluster_id, member_id: me, joined: true };
        info!(cluster = %roster.cluster_id, member = %me, "joining a running cluster");
        Ok(Seat { identity, first_members: vec![], others: others(&roster.members, me) })
    }

    /// Whom to call first, and where.
    pub(super) fn peers(&self) -> Vec<(MemberId, String)> {
        let at = |member: &Member| Some((member.id, address(member.peer_urls.first()?).ok()?));
        self.others.iter().filter_map(at).collect()
    }

    pub(super) fn cluster(&self) -> ClusterId {
        self.identity.cluster_id
    }

    pub(super) fn me(&self) -> MemberId {
        self.identity.member_id
    }
}

/// Who is at this address, as each of those says that knows anybody there. One that lags may still name a
/// member that was removed from it: whoever came back as that one would be told to stop, for ever.
fn named<'a>(rosters: &'a [Roster], mine: &[String]) -> Vec<(&'a Roster, MemberId)> {
    let is_me = |member: &&Member| {
        let mut urls = member.peer_urls.clone();
        urls.sort_unstable();
        urls == mine
    };
    let names = |roster: &'a Roster| Some((roster, roster.members.iter().find(is_me)?.id));
    rosters.iter().filter_map(names).collect()
}

/// What most of them say.
fn agreed<'a>(names: &[(&'a Roster, MemberId)]) -> Option<(&'a Roster, MemberId)> {
    let say = |me: MemberId| names.iter().filter(|(_, other)| *other == me).count();
    names.iter().find(|(_, me)| 2 * say(*me) > names.len()).copied()
}

fn others(members: &[Member], me: MemberId) -> Vec<Member> {
    members.iter().filter(|member| member.id != me).cloned().collect()
}

/// Rounds of asking everybody whom the settings name.
struct Asking {
    addresses: Vec<String>,
    rounds: u32,
}

impl Asking {
    fn new(config: &Config) -> Result<Asking, StartError> {
        let addresses: Vec<String> = config
            .members()
            .iter()
            .filter(|member| member.name != config.name)
            .filter_map(|member| address(member.peer_urls.first()?).ok())
            .collect();
        if addresses.is_empty() {
            return Err(StartError::NobodyToJoin(config.data_dir.clone()));
        }
        Ok(Asking { addresses, rounds: 0 })
    }

    async fn round(&mut self) -> Vec<Roster> {
        let mut rosters = Vec::new();
        let mut causes = Vec::new();
        for at in &self.addresses {
            match ask(at).await {
                // A member that is joining itself knows nobody yet.
                Ok(roster) if roster.members.is_empty() => {
                    causes.push(format!("{at}: it is joining itself"));
                }
                Ok(roster) => rosters.push(roster),
                Err(AskError::Unreachable(cause)) => causes.push(format!("{at}: {cause}")),
                Err(AskError::NoAnswer(cause)) => causes.push(format!("{at}: {cause}")),
            }
        }
        if rosters.is_empty() && self.rounds.is_multiple_of(SAY_EVERY) {
            let asked = causes.join("; ");
            warn!(%asked, "waiting for a member of the cluster to say who belongs to it");
        }
        self.rounds += 1;
        rosters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roster(members: &[(u64, &str)]) -> Roster {
        let member = |(id, url): &(u64, &str)| Member {
            id: MemberId(*id),
            name: String::new(),
            peer_urls: vec![(*url).to_owned()],
            client_urls: vec![],
            is_learner: false,
        };
        Roster { members: members.iter().map(member).collect(), ..Roster::default() }
    }

    #[test]
    fn one_that_lags_does_not_make_a_new_member_the_one_that_was_removed() {
        let mine = ["http://new:1".to_owned()];
        let lags = roster(&[(1, "http://a:1"), (7, "http://new:1")]);
        let knows = roster(&[(1, "http://a:1"), (8, "http://new:1")]);
        let not_yet = roster(&[(1, "http://a:1")]);
        let who = |rosters: &[Roster]| agreed(&named(rosters, &mine)).map(|(_, me)| me.0);
        assert_eq!(who(&[lags.clone(), knows.clone(), knows.clone()]), Some(8));
        assert_eq!(who(&[lags, knows.clone()]), None, "it asks again");
        assert_eq!(who(&[not_yet.clone(), knows]), Some(8));
        assert_eq!(who(&[not_yet]), None);
    }
}
