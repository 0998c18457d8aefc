//! Asking the members of a cluster that runs who this one is.

use tenure_api::{Member, MemberId};
use tracing::warn;

use crate::{
    config::{Config, address},
    peer::{AskError, Roster, ask},
    server::StartError,
};

/// How often we say that we still wait.
const SAY_EVERY: u32 = 10;

/// Who is at this address, as each of those says that knows anybody there. One that lags may still name a
/// member that was removed from it: whoever came back as that one would be told to stop, for ever.
pub(super) fn named<'a>(rosters: &'a [Roster], mine: &[String]) -> Vec<(&'a Roster, MemberId)> {
    let is_me = |member: &&Member| {
        let mut urls = member.peer_urls.clone();
        urls.sort_unstable();
        urls == mine
    };
    let names = |roster: &'a Roster| Some((roster, roster.members.iter().find(is_me)?.id));
    rosters.iter().filter_map(names).collect()
}

/// What most of them say.
pub(super) fn agreed<'a>(names: &[(&'a Roster, MemberId)]) -> Option<(&'a Roster, MemberId)> {
    let say = |me: MemberId| names.iter().filter(|(_, other)| *other == me).count();
    names.iter().find(|(_, me)| 2 * say(*me) > names.len()).copied()
}

/// Rounds of asking everybody whom the settings name.
pub(super) struct Asking {
    addresses: Vec<String>,
    rounds: u32,
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
        Ok(Asking { addresses, rounds: 0 })
    }

    pub(super) async fn round(&mut self) -> Vec<Roster> {
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
