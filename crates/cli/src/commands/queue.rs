//! Where a candidate stands: how many are ahead of it, which one holds, and which one is next.
//!
//! The server tells a candidate that it is elected, and nothing before that: a watch of the election by every candidate would
//! wake all of them at every change. So a candidate that waits looks now and then, more often if a person sits before it,
//! more rarely the longer it waits and the more are ahead of it.

use std::convert::Infallible;
use std::time::Duration;

use tenure::Session;
use tenure::api::wire::tenure::v1 as pb;
use tenure::grpc::Client;
use tokio::time::{sleep, timeout};

use crate::args::Settings;
use crate::talk;

/// The first look.
const FIRST_LOOK: Duration = Duration::from_millis(100);
/// The least and the most time between two looks, if a person reads the line as it changes.
const AT_TERMINAL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
/// The same for a log.
const IN_LOG: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(60));
/// For so many ahead the time grows by as much again.
const AHEAD: u32 = 10;
/// How long the answer about the next candidate may take: a command ends meanwhile.
const NEXT_PATIENCE: Duration = Duration::from_millis(500);

/// The candidates of an election, as one of them sees it.
pub(in crate::commands) struct Queue {
    client: Client,
    name: String,
    session: i64,
}

impl Queue {
    pub(in crate::commands) fn new(settings: &Settings, name: String, session: &Session) -> Queue {
        Queue { client: settings.client(), name, session: session.id().0 }
    }

    /// Says how many are ahead, each time that it changes. Never ends: waiting does.
    pub(in crate::commands) async fn follow(&self) -> Infallible {
        let (mut pause, most) = if talk::is_read() { AT_TERMINAL } else { IN_LOG };
        let (mut said, mut is_first) = (String::new(), true);
        sleep(FIRST_LOOK).await;
        loop {
            let mut ahead = 0;
            // A server that does not answer now may answer the next time.
            if let Ok(election) = self.client.elections().candidates(self.name.clone()).await {
                ahead = self.ahead(&election);
                let line =
                    format!("tenure: waiting for {}: {}", self.name, place(&election, ahead));
                // The first look of a candidate that is about to be elected is no news.
                let is_news = ahead > 0 || election.frozen || !is_first;
                if line != said && is_news {
                    talk::status(line.clone());
                    said = line;
                }
            }
            sleep(spread(pause * (1 + ahead / AHEAD), self.session)).await;
            pause = most.min(pause * 2);
            is_first = false;
        }
    }

    fn ahead(&self, election: &pb::CandidatesResponse) -> u32 {
        let before = election.candidates.iter().take_while(|one| one.session != self.session);
        u32::try_from(before.count()).unwrap_or(u32::MAX)
    }

    /// Which candidate holds now, or is next, now that this one does not want it any more.
    pub(in crate::commands) async fn next(&self) -> String {
        let elections = self.client.elections();
        match timeout(NEXT_PATIENCE, elections.candidates(self.name.clone())).await {
            Ok(Ok(election)) => next(&election, self.session),
            _ => "no member says which candidate is next".to_owned(),
        }
    }
}

fn place(election: &pb::CandidatesResponse, ahead: u32) -> String {
    let holder = election.candidates.iter().find(|candidate| candidate.holds);
    let held = holder.map_or_else(String::new, |holder| {
        format!(", held by {}, token {}", called(holder), holder.token)
    });
    let frozen = if election.frozen { ", frozen" } else { "" };
    format!("{ahead} ahead{held}{frozen}")
}

fn next(election: &pb::CandidatesResponse, without: i64) -> String {
    let mut others = election.candidates.iter().filter(|one| one.session != without);
    if let Some(holder) = others.clone().find(|one| one.holds) {
        return format!("held by {}, token {}", called(holder), holder.token);
    }
    match others.find(|one| !one.unhealthy) {
        _ if election.frozen => "no candidate is next: the election is frozen".to_owned(),
        Some(next) => format!("next is {}", called(next)),
        None => "no other candidate waits".to_owned(),
    }
}

/// What a candidate is called where it gave no identity.
pub(in crate::commands) fn called(candidate: &pb::Candidate) -> String {
    match &candidate.identity[..] {
        "" => format!("{:x}", candidate.session),
        identity => identity.to_owned(),
    }
}

/// Between three quarters and five quarters of a pause: those that began together do not look together. The numbers of sessions
/// are drawn by chance.
fn spread(pause: Duration, session: i64) -> Duration {
    let part = u32::try_from(session.rem_euclid(1024)).unwrap_or(0);
    pause * 3 / 4 + pause * part / 2048
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(identity: &str, session: i64, holds: bool) -> pb::Candidate {
        let identity = identity.to_owned();
        pb::Candidate { identity, session, holds, token: 10 + session, ..Default::default() }
    }

    fn election(candidates: Vec<pb::Candidate>) -> pb::CandidatesResponse {
        pb::CandidatesResponse { candidates, ..Default::default() }
    }

    #[test]
    fn queue_says_how_many_are_ahead_and_which_one_holds() {
        let all = election(vec![one("A", 1, true), one("", 0xb, false), one("C", 3, false)]);
        assert_eq!(place(&all, 2), "2 ahead, held by A, token 11");
        assert_eq!(place(&election(vec![one("", 0xb, false)]), 1), "1 ahead");
        let frozen = pb::CandidatesResponse { frozen: true, ..election(vec![]) };
        assert_eq!(place(&frozen, 0), "0 ahead, frozen");
    }

    #[test]
    fn queue_says_which_candidate_is_next() {
        let sick = pb::Candidate { unhealthy: true, ..one("S", 2, false) };
        let all = election(vec![one("A", 1, true), sick.clone(), one("", 0xb, false)]);
        assert_eq!(next(&all, 1), "next is b");
        assert_eq!(next(&all, 0xb), "held by A, token 11");
        assert_eq!(next(&election(vec![one("B", 2, true)]), 1), "held by B, token 12");
        assert_eq!(next(&election(vec![one("A", 1, true), sick]), 1), "no other candidate waits");
        let frozen = pb::CandidatesResponse { frozen: true, ..election(vec![one("B", 2, false)]) };
        assert!(next(&frozen, 1).contains("frozen"));
    }

    #[test]
    fn queue_looks_spread_over_half_a_pause() {
        for session in (0..=1024).chain([i64::MIN, i64::MAX]) {
            let pause = spread(Duration::from_secs(4), session);
            assert!(pause >= Duration::from_secs(3) && pause <= Duration::from_secs(5));
        }
    }
}
