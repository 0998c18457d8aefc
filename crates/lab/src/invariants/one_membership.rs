//! There is one list of members: raft counts exactly the members of the replicated state, at every entry, on every
//! member. A removed member never leads again.

use tenure_api::MemberId;
use tenure_replica::{RaftRole, Replica, State, Status, command::MemberChange};

use super::must;
use crate::{
    cluster::{
        member::{MemberNumber, id},
        truth::Truth,
    },
    engine::RunCounts,
};

pub const NAME: &str = "one_membership";

/// The voters that must agree to an entry, according to the list of members.
#[derive(Debug)]
pub struct Voters {
    pub after: Vec<MemberId>,
    /// While a change is under way.
    pub before: Option<Vec<MemberId>>,
}

impl Voters {
    pub fn of(state: &State) -> Voters {
        let all: Vec<MemberId> = state.voters().collect();
        let without = |gone: MemberId| all.iter().copied().filter(|voter| *voter != gone).collect();
        let (before, after) = match &state.change {
            None => (None, all),
            Some(MemberChange::Remove(gone)) => (Some(all.clone()), without(*gone)),
            Some(MemberChange::Promote(new))
            | Some(MemberChange::Add { id: new, is_learner: false, .. }) => {
                (Some(without(*new)), all)
            }
            Some(
                MemberChange::Add { .. }
                | MemberChange::Invite { .. }
                | MemberChange::Update { .. },
            ) => (Some(all.clone()), all),
        };
        Voters { after, before }
    }
}

pub fn check(number: MemberNumber, replica: &Replica, status: &Status, counts: &mut RunCounts) {
    counts.count(NAME);
    let (state, mark) = (replica.state(), replica.mark());
    let expected = Voters::of(state);
    let removing = match &state.change {
        Some(MemberChange::Remove(gone)) => Some(*gone),
        _ => None,
    };
    let learners: Vec<MemberId> = state
        .members
        .values()
        .filter(|member| member.is_learner && Some(member.id) != removing)
        .map(|member| member.id)
        .collect();
    let found = (&mark.voters, &mark.outgoing, &mark.learners);
    let before = expected.before.unwrap_or_default();
    must!(
        found == (&expected.after, &before, &learners),
        "m{number} at entry {} counts {found:?}, but its list says {:?}, {before:?}, {learners:?}",
        status.applied,
        expected.after
    );
}

/// A removed member never leads again.
pub fn check_leader(number: MemberNumber, status: &Status, truth: &Truth) {
    if status.role == RaftRole::Leader {
        let removed = truth.removed.get(&id(number));
        must!(
            removed.is_none_or(|removed| status.term <= *removed),
            "m{number} leads in term {} but was removed in {removed:?}",
            status.term
        );
    }
}
