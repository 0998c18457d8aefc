//! Which member of which cluster this is: from the settings, from the data directory, or from the
//! members of a cluster that runs.

mod joining;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tenure_api::{ClusterId, Member, MemberId};
use tenure_replica::command::COMMAND_VERSION;
use tracing::{info, warn};

use self::joining::{Asking, agreed, named, unknown};
use super::StartError;
use crate::{
    config::{ClusterState, Config, address},
    disk::{Identity, RecoveredLog},
    peer::Roster,
};

/// Pause between two rounds of asking.
const ASK_PAUSE: Duration = Duration::from_millis(500);
/// Rounds in which no member knows us before we believe it: the members asked may lag a little.
const UNKNOWN_ROUNDS_MAX: u32 = 4;

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
    pub(super) async fn find(
        config: &Config,
        recovered: &RecoveredLog,
    ) -> Result<Seat, StartError> {
        let told = match recovered.identity {
            Some(found) => config.members_as_known_by(found.member_id),
            None => config.members(),
        };
        let founded = Identity {
            cluster_id: config.cluster_id_of(&told),
            member_id: config.member_id_in(&told),
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
        if let Some((found, founders)) = founding(config, recovered) {
            return if is_founder(config, founded.member_id, found.member_id, founders) {
                tell_what_counts(&told, founders);
                Ok(Seat::of_founder(founders.to_vec(), found))
            } else {
                Err(foreign(found))
            };
        }
        // The id of a cluster that was made from another's data does not follow from the settings, and
        // its members are in that data.
        let new_cluster = recovered.new_cluster.map(|new_cluster| new_cluster.cluster_id);
        match recovered.identity {
            Some(found)
                if new_cluster == Some(found.cluster_id)
                    && found.member_id == founded.member_id
                    && recovered.snapshot.is_some() =>
            {
                Ok(Seat { identity: found, first_members: vec![], others: vec![] })
            }
            None if existing => Seat::join(config).await,
            None => Ok(Seat::of_founder(told, founded)),
            Some(found) if found == founded => Ok(Seat::of_founder(told, founded)),
            Some(found) if !existing => Err(foreign(found)),
            // The settings name the current members, the directory this one.
            Some(found) if recovered.snapshot.is_some() => {
                Ok(Seat { identity: found, first_members: vec![], others: vec![] })
            }
            Some(found) if found.joined => Seat::join_again(config, found).await,
            // Its log begins with the members that founded the cluster. A release that did not write
            // them down has made it: only the settings of that time name them.
            Some(found) => Err(foreign(found)),
        }
    }

    fn of_founder(first_members: Vec<Member>, identity: Identity) -> Seat {
        Seat { identity, others: others(&first_members, identity.member_id), first_members }
    }

    /// Asks the members that the settings name for the cluster's members, and finds itself by its
    /// address.
    async fn join(config: &Config) -> Result<Seat, StartError> {
        let mine = &config.initial_advertise_peer_urls;
        let mut unknown_rounds = 0;
        let mut asking = Asking::new(config)?;
        loop {
            let rosters = asking.round().await;
            let names = named(&rosters, mine);
            if let Some((roster, me)) = agreed(&names) {
                return Seat::taken(roster, me);
            }
            if !names.is_empty() {
                warn!("the members do not agree on who this one is, some lag behind: asking again");
            } else if !rosters.is_empty() {
                let why = unknown(config, &rosters);
                // A member that has not answered may know that the member was replaced, and by this one.
                if matches!(why, StartError::RanBefore { .. }) && !asking.is_whole(&rosters) {
                    asking.say(
                        || warn!(%why, "asking on: those that have not answered may know better"),
                    );
                } else {
                    unknown_rounds += 1;
                    if unknown_rounds >= UNKNOWN_ROUNDS_MAX {
                        return Err(why);
                    }
                }
            }
            tokio::time::sleep(ASK_PAUSE).await;
        }
    }

    /// It has an identity, but no state: it stopped before it got its first snapshot.
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

    /// The members to call first, and their addresses.
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

/// The directory's identity and the founders of its cluster, if it has them and is still of that cluster.
/// With another token it is another cluster's; and `--force-new-cluster` makes it another's.
fn founding<'a>(config: &Config, recovered: &'a RecoveredLog) -> Option<(Identity, &'a [Member])> {
    let (found, founders) = (recovered.identity?, recovered.founders.as_deref()?);
    (config.cluster_id_of(founders) == found.cluster_id).then_some((found, founders))
}

/// Whether the settings, which make this member `told`, are those of this founder. Its address and the token make
/// its id. If it has moved since, and its settings were rewritten to that, its name is all there is to know it by.
fn is_founder(config: &Config, told: MemberId, me: MemberId, founders: &[Member]) -> bool {
    let is_named = || founders.iter().any(|one| one.id == me && one.name == config.name);
    let is_another = || founders.iter().any(|one| one.id == told);
    let moved = config.initial_cluster_state == ClusterState::Existing && !is_another();
    told == me || (moved && is_named())
}

/// As in etcd, what is called initial counts at the first start. People should hear that once it is not what
/// they have written.
fn tell_what_counts(told: &[Member], founders: &[Member]) {
    if told.iter().map(|member| member.id).ne(founders.iter().map(|one| one.id)) {
        let names: Vec<_> = founders.iter().map(|member| &member.name[..]).collect();
        info!(
            founded_by = names.join(","),
            "--initial-cluster counts at the first start only: who belongs to the cluster is in the data"
        );
    }
}

fn others(members: &[Member], me: MemberId) -> Vec<Member> {
    members.iter().filter(|member| member.id != me).cloned().collect()
}
