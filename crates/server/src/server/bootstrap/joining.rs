//! Asking the members of a running cluster for this member's id.

use tenure_api::{Member, MemberId};
use tracing::warn;

use crate::{
    config::{Config, address},
    peer::{AskError, PeerSecurity, Roster, ask},
    server::StartError,
};

/// How often we say that we still wait.
const SAY_EVERY: u32 = 10;

/// The member at this address.
fn at_address<'a>(roster: &'a Roster, mine: &[String]) -> Option<&'a Member> {
    let places = |urls: &[String]| -> Vec<_> { urls.iter().map(|url| address(url)).collect() };
    let mine = places(mine);
    roster.members.iter().find(|member| places(&member.peer_urls) == mine)
}

/// Whether a member has run: it says at once where its clients shall come.
fn has_run(member: &Member) -> bool {
    !member.client_urls.is_empty()
}

/// This member's id, from each roster that has a member at this address that has never run. One that has run has a
/// data directory, and ours is empty: it was removed, and this roster lags behind. A process that came back as
/// that one would be told to stop, for ever. (One that was removed before it ever ran cannot be told from its
/// successor; what most say decides then.)
pub(super) fn named<'a>(rosters: &'a [Roster], mine: &[String]) -> Vec<(&'a Roster, MemberId)> {
    let name = |roster: &'a Roster| {
        let me = at_address(roster, mine).filter(|member| !has_run(member))?;
        Some((roster, me.id))
    };
    rosters.iter().filter_map(name).collect()
}

/// Why no roster has this member, as far as they tell.
pub(super) fn unknown(config: &Config, rosters: &[Roster]) -> StartError {
    let mine = &config.initial_advertise_peer_urls;
    let (name, urls) = (config.name.clone(), mine.join(","));
    let ran = rosters.iter().find_map(|roster| Some((roster, at_address(roster, mine)?)));
    match ran {
        Some((roster, member)) => StartError::RanBefore {
            dir: config.data_dir.clone(),
            name,
            urls,
            member: member.id,
            cluster: roster.cluster_id,
        },
        None => StartError::NotAdded { name, urls, cluster: rosters[0].cluster_id },
    }
}

/// What most of them say.
pub(super) fn agreed<'a>(names: &[(&'a Roster, MemberId)]) -> Option<(&'a Roster, MemberId)> {
    let say = |me: MemberId| names.iter().filter(|(_, other)| *other == me).count();
    names.iter().find(|(_, me)| 2 * say(*me) > names.len()).copied()
}

/// Rounds of asking all members that the settings name.
pub(super) struct Asking {
    addresses: Vec<String>,
    rounds: u32,
    security: PeerSecurity,
}

impl Asking {
    pub(super) fn new(config: &Config) -> Result<Asking, StartError> {
        let addresses: Vec<String> = config
            .members()
            .iter()
            .filter(|member| member.name != config.name)
            .filter_map(|member| address(member.peer_urls.first()?).ok())
            .collect();
        if addresses.is_empty() {
            return Err(StartError::NobodyToJoin(config.data_dir.clone()));
        }
        Ok(Asking { addresses, rounds: 0, security: PeerSecurity::new(config)? })
    }

    pub(super) async fn round(&mut self) -> Vec<Roster> {
        let mut rosters = Vec::new();
        let mut causes = Vec::new();
        for at in &self.addresses {
            match ask(at, &self.security).await {
                // A member that is joining itself has no list yet.
                Ok(roster) if roster.members.is_empty() => {
                    causes.push(format!("{at}: it is joining itself"));
                }
                Ok(roster) => rosters.push(roster),
                Err(AskError::Unreachable(cause)) => causes.push(format!("{at}: {cause}")),
                Err(AskError::NoAnswer(cause)) => causes.push(format!("{at}: {cause}")),
            }
        }
        self.rounds += 1;
        if rosters.is_empty() {
            let asked = causes.join("; ");
            self.say(
                || warn!(%asked, "waiting for a member of the cluster to say who belongs to it"),
            );
        }
        rosters
    }

    /// Whether all members have answered in the last round.
    pub(super) fn is_whole(&self, rosters: &[Roster]) -> bool {
        rosters.len() == self.addresses.len()
    }

    /// Says something at the first round, and again now and then.
    pub(super) fn say(&self, say: impl FnOnce()) {
        if self.rounds % SAY_EVERY == 1 {
            say();
        }
    }
}
