//! What the replica notices, as lines of the log.

use std::time::Duration;

use tenure_api::{MemberId, Term};
use tenure_replica::{Moment, Notice, State, command::MemberChange};
use tracing::{error, info, warn};

use crate::called::called;

/// The first pause between lines that say that there is no raft leader; each is twice as long as the one before.
const PAUSE_FIRST: Duration = Duration::from_secs(2);
/// No pause is longer.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Lines about the raft leader, and about not having one.
#[derive(Debug)]
pub(super) struct LeaderLog {
    me: MemberId,
    /// The term in which this member leads.
    leading: Option<Term>,
    vacancy: Option<Vacancy>,
}

/// A time without a raft leader.
#[derive(Clone, Copy, Debug)]
struct Vacancy {
    since: Moment,
    /// When it is said next.
    due: Moment,
    pause: Duration,
}

impl LeaderLog {
    /// A member that has just started knows no raft leader.
    pub(super) fn new(me: MemberId, now: Moment) -> LeaderLog {
        LeaderLog { me, leading: None, vacancy: Some(Vacancy::begins(now)) }
    }

    /// There is another raft leader, or none.
    pub(super) fn changed(
        &mut self,
        now: Moment,
        (leader, term): (Option<MemberId>, Term),
        state: &State,
    ) {
        let led = std::mem::take(&mut self.leading);
        let Some(leader) = leader else {
            self.vacancy.get_or_insert(Vacancy::begins(now));
            // A raft leader of an earlier term has been replaced; in its own, only a lost majority ends it.
            match led == Some(term) {
                true => warn!(%term, "lost the majority: not the raft leader any more"),
                false => info!(%term, "no raft leader"),
            }
            return;
        };
        self.vacancy = None;
        self.leading = (leader == self.me).then_some(term);
        let leader = called(leader, state.members.values());
        match self.leading {
            Some(_) => info!(%term, leader, "leading"),
            None => info!(%term, leader, "following"),
        }
    }

    /// Says that there is still no raft leader, if that is due.
    pub(super) fn remind(&mut self, now: Moment) {
        if let Some(seconds) = self.vacancy.as_mut().and_then(|vacancy| vacancy.told(now)) {
            warn!(
                seconds,
                "no raft leader for {seconds} s: writes and linearizable reads wait for a majority"
            );
        }
    }

    /// When there is something to say.
    pub(super) fn due(&self) -> Option<Moment> {
        self.vacancy.map(|vacancy| vacancy.due)
    }
}

impl Vacancy {
    fn begins(now: Moment) -> Vacancy {
        Vacancy { since: now, due: now + PAUSE_FIRST, pause: PAUSE_FIRST }
    }

    /// How many seconds it has lasted, if that is to be said now.
    fn told(&mut self, now: Moment) -> Option<u64> {
        if now < self.due {
            return None;
        }
        self.pause = PAUSE_MAX.min(self.pause * 2);
        self.due = now + self.pause;
        Some(now.since(self.since).as_secs())
    }
}

pub(super) fn log(notice: &Notice, state: &State) {
    let called = |id| called(id, state.members.values().chain(state.departing.values()));
    match notice {
        // See [`LeaderLog`].
        Notice::Leader { .. } => {}
        Notice::LeaderLost(member) => {
            warn!(member = called(*member), "the raft leader's connection broke, campaigning");
        }
        Notice::DiskStalled => warn!("the disk stands still, handing over"),
        Notice::LeasesExpired(count) => info!(count, "leases expired"),
        Notice::Paused(pause) => warn!(?pause, "this process did not run; leases are prolonged"),
        Notice::SnapshotInstalled(index) => info!(index, "installed a snapshot"),
        Notice::ClusterVersion(version) => info!(version, "cluster version"),
        Notice::SpaceLow { used, quota } => {
            warn!(
                used,
                quota, "the store fills up: compact, delete, or raise --quota-backend-bytes"
            );
        }
        Notice::AlarmRaised(alarm) => {
            error!(member = called(alarm.member), kind = ?alarm.kind, "alarm raised")
        }
        Notice::AlarmLowered(alarm) => {
            info!(member = called(alarm.member), kind = ?alarm.kind, "alarm lowered");
        }
        Notice::Differs { index, members, outvoted } => {
            let members: Vec<String> = members.iter().map(|id| called(*id)).collect();
            let members = members.join(", ");
            if *outvoted {
                error!(index, members, "these members hold something else than the majority");
            } else {
                error!(
                    index,
                    members,
                    "these members hold something else than the raft leader, and \
                    no majority says who is right"
                );
            }
        }
        Notice::ChangeBegun(change) => info!(member = called(change.member()), "{}", begun(change)),
        Notice::ChangeDone(change) => info!(member = called(change.member()), "{}", done(change)),
        Notice::CatchingUp { applied, goal } => {
            info!(applied, of = goal, "catching up: applied {applied} of {goal}");
        }
        Notice::CaughtUp(applied) => info!(applied, "caught up with the raft leader"),
        // Said by the core loop, each once a minute: a member could say such a thing many times a second.
        Notice::MessageRefused(..) => {}
    }
}

fn begun(change: &MemberChange) -> &'static str {
    match change {
        MemberChange::Add { .. } => "adding a member",
        MemberChange::Invite { .. } => "adding a member, which votes when it has caught up",
        MemberChange::Promote(_) => "promoting a learner",
        MemberChange::Update { .. } => "moving a member",
        MemberChange::Remove(_) => "removing a member",
    }
}

fn done(change: &MemberChange) -> &'static str {
    match change {
        MemberChange::Add { is_learner: true, .. } => "a learner was added",
        MemberChange::Add { .. } => "a member was added",
        MemberChange::Invite { .. } => "a member was added, and votes when it has caught up",
        MemberChange::Promote(_) => "a learner was promoted",
        MemberChange::Update { .. } => "a member was moved",
        MemberChange::Remove(_) => "a member was removed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leader_log_reminds_of_a_vacancy_at_growing_intervals() {
        let at = |secs| Moment::after_start(Duration::from_secs(secs));
        let state = State::default();
        let (me, other) = (MemberId(1), MemberId(2));
        let mut log = LeaderLog::new(me, at(0));
        log.changed(at(1), (Some(other), Term(1)), &state);
        assert_eq!(log.due(), None);
        log.changed(at(10), (None, Term(1)), &state);
        // Another candidate without success does not begin the time anew.
        log.changed(at(11), (None, Term(2)), &state);
        let mut told = vec![];
        while told.len() < 8 {
            let due = log.due().expect("there is none yet");
            told.push(due.since(at(10)).as_secs());
            let before = due - Duration::from_millis(1);
            log.remind(before);
            assert_eq!(log.due(), Some(due), "not before it is due");
            log.remind(due);
        }
        assert_eq!(told, [2, 6, 14, 30, 62, 122, 182, 242]);
        log.changed(at(300), (Some(me), Term(3)), &state);
        assert_eq!(log.due(), None);
    }
}
