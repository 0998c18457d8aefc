//! How many leases there may be.

#![allow(clippy::unwrap_used)]

use tenure_api::{Failure, LeaseId, Principal, Term};
use tenure_replica::{
    EntryContext, State,
    command::{COST_LIMITS_SINCE, Command, ElectionCommand},
    lease::LEASES_MAX,
    state::ApplyEffects,
};

fn apply(state: &mut State, command: &Command) -> Result<(), Failure> {
    let at = EntryContext { index: 1, term: Term(1), ms: 0 };
    state.apply(at, &Principal::Anonymous, command, &mut ApplyEffects::default()).map(|_| ())
}

fn grant(id: usize) -> Command {
    Command::LeaseGrant { id: LeaseId(id as i64), ttl_secs: 60 }
}

#[test]
fn leases_have_a_largest_number_sessions_included() {
    let mut state = State::new(vec![]);
    state.cluster_version = COST_LIMITS_SINCE;
    for id in 1..=LEASES_MAX {
        apply(&mut state, &grant(id)).unwrap();
    }
    let open = Command::Election(ElectionCommand::Open {
        id: LeaseId(-1),
        ttl_ms: 60_000,
        identity: String::new(),
        fast_release: false,
        by: 1,
        secret: None,
    });
    for one_more in [grant(LEASES_MAX + 1), open.clone()] {
        assert_eq!(apply(&mut state, &one_more), Err(Failure::TooManyRequests));
    }
    apply(&mut state, &Command::LeaseRenew(LeaseId(1))).unwrap();
    apply(&mut state, &Command::LeaseRevoke(LeaseId(1))).unwrap();
    apply(&mut state, &open).unwrap();
    // Members of an earlier release know no such limit, and all must decide alike.
    state.cluster_version = COST_LIMITS_SINCE - 1;
    apply(&mut state, &grant(LEASES_MAX + 1)).unwrap();
}
