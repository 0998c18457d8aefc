//! What must be true of elections whatever has happened.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use tenure_api::{LeaseId, Revision, Span};
use tenure_replica::{
    Snapshot, SnapshotMark, SnapshotReader,
    election::{Candidate, Election, ElectionEvent, EndReason, FROZEN, Mode},
};

use crate::alphabet::{Deed, World};

pub(crate) fn check(world: &World) {
    for (name, election) in world.state.elections.elections() {
        a_election_is_its_keys(world, name, election);
        the_lowest_key_leads(world, election);
        holders_go_together(world, election);
        a_election_advances(world, election);
        tokens_grow(world, election);
        who_takes_over_would_lead(world, election);
        room_is_made_for_whoever_pre_empts(world, name, election);
        only_who_took_over_leads_by_choice(world, name, election);
    }
    candidates_belong_to_live_sessions(world);
    a_connection_that_was_left_ends_nothing(world);
    nobody_is_told_too_early(world);
    a_stock_key_is_never_moved(world);
    nobody_overtakes_a_stock_key(world);
    a_tenure_begins_at_a_revision_of_its_own(world);
    a_chosen_successor_keeps_its_token(world);
    a_snapshot_keeps_everything(world);
}

fn a_election_is_its_keys(world: &World, name: &Bytes, election: &Election) {
    let span = Span::prefix([name, &b"/"[..]].concat().into());
    let mut keys: Vec<(Revision, Bytes)> =
        world.state.store.live_in(&span).map(|kv| (kv.create_revision, kv.key.clone())).collect();
    keys.sort();
    let candidates: Vec<_> =
        election.candidates().iter().map(|p| (p.created, p.key.clone())).collect();
    assert_eq!(candidates, keys, "{:?}", world.path);
}

/// A client that goes by etcd's rule sees the same leader.
fn the_lowest_key_leads(world: &World, election: &Election) {
    let holders: Vec<_> =
        election.candidates().iter().filter(|candidate| candidate.holds()).collect();
    if let Some(first) = holders.first() {
        assert_eq!(first.created, election.candidates()[0].created, "{:?}", world.path);
    }
}

fn holders_go_together(world: &World, election: &Election) {
    let holders: Vec<_> =
        election.candidates().iter().filter(|candidate| candidate.holds()).collect();
    let Some(first) = holders.first() else { return };
    let most = match first.mode() {
        Mode::Exclusive => 1,
        Mode::Shared => usize::MAX,
        Mode::Permit(permits) => permits as usize,
    };
    assert!(holders.len() <= most, "{} hold: {:?}", holders.len(), world.path);
    assert!(holders.iter().all(|p| p.mode() == first.mode()), "{:?}", world.path);
    let slots: BTreeSet<_> = holders.iter().map(|candidate| candidate.slot).collect();
    if first.mode() != Mode::Shared {
        assert_eq!(slots.len(), holders.len(), "two in one slot: {:?}", world.path);
    }
    // No candidate waits before one that holds.
    assert!(election.candidates()[..holders.len()].iter().all(|p| p.holds()), "{:?}", world.path);
}

/// If the first would lead, it does; if it would not, no other would either.
fn a_election_advances(world: &World, election: &Election) {
    let Some(first) = election.candidates().first() else { return };
    if first.key.ends_with(FROZEN) {
        assert!(
            !election.candidates().iter().any(|candidate| candidate.holds()),
            "{:?}",
            world.path
        );
    } else if !first.holds() {
        let willing = |candidate: &&Arc<Candidate>| {
            candidate.wants_to_lead() && !candidate.key.ends_with(FROZEN)
        };
        let willing = election.candidates().iter().find(willing);
        assert!(
            willing.is_none(),
            "{willing:?} waits though nothing is in its way: {:?}",
            world.path
        );
    }
}

/// Behind the last that cannot be overtaken; an unhealthy candidate has no rank, nor has one that an operator chose.
pub(crate) fn who_waits_stands_by_priority(world: &World) {
    for (_, election) in world.state.elections.elections() {
        let movable =
            election.candidates().iter().rev().take_while(|candidate| !candidate.is_fixed());
        let has_rank = |candidate: &&Arc<Candidate>| {
            !candidate.holds() && !candidate.unhealthy && !election.is_chosen(candidate)
        };
        let waits = movable.filter(has_rank);
        let from_the_end: Vec<u32> = waits.map(|candidate| candidate.priority()).collect();
        assert!(from_the_end.is_sorted(), "{from_the_end:?}: {:?}", world.path);
    }
}

fn tokens_grow(world: &World, election: &Election) {
    let tokens: Vec<_> = election.tenures().map(|tenure| tenure.token).collect();
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}: {:?}", world.path);
    let leads = election.leader().map(|leader| leader.created);
    let last = election.tenures().last().filter(|tenure| tenure.end.is_none()).map(|t| t.token);
    assert_eq!(last, leads, "{:?}", world.path);
    let compacted = world.state.store.compacted();
    // Data that hangs on nothing is restored as it was, and acts with no token.
    if let Some(token) =
        leads.filter(|_| election.leader().is_some_and(|leader| leader.lease.is_some()))
    {
        assert!(token > compacted || compacted == Revision(0), "{:?}", world.path);
    }
}

/// An observer that knows everything up to a revision has not missed what began at it.
fn a_tenure_begins_at_a_revision_of_its_own(world: &World) {
    let Some(before) = &world.before else { return };
    for event in &world.events {
        if let ElectionEvent::Began { tenure, .. } = event {
            assert!(tenure.from > before.store.revision(), "{tenure:?}: {:?}", world.path);
        }
    }
}

/// What an operator was told of it stays true, until it leads or the leader goes.
fn a_chosen_successor_keeps_its_token(world: &World) {
    let Some(before) = &world.before else { return };
    for (name, election) in before.elections.elections() {
        let Some(chosen) =
            election.candidates().iter().find(|candidate| election.is_chosen(candidate))
        else {
            continue;
        };
        let now = world.state.elections.election(name);
        let still =
            now.and_then(|now| now.candidates().iter().find(|candidate| now.is_chosen(candidate)));
        if let Some(still) = still.filter(|still| still.session() == chosen.session()) {
            assert_eq!(still.created, chosen.created, "{:?}", world.path);
        }
    }
}

/// No leader makes room for a candidate that is not there, or would be passed over.
fn who_takes_over_would_lead(world: &World, election: &Election) {
    let Some(transfer) = election.transfer() else { return };
    let to = election.candidate_of(transfer.to);
    assert!(to.is_some_and(|to| to.wants_to_lead()), "{to:?} is to lead: {:?}", world.path);
    let leader = election.leader().map(|leader| leader.created);
    assert_eq!(leader, Some(transfer.from), "who makes room leads: {:?}", world.path);
}

/// If a candidate has a higher priority than the leader and pre-empts, and none comes before it that has not or cannot be
/// passed, room is made for the first; and for no other reason, but that an operator wants it. A leader that an operator
/// chose leads on beside the candidates that were there then.
fn room_is_made_for_whoever_pre_empts(world: &World, name: &Bytes, election: &Election) {
    let under_way = election.transfer().map(|transfer| (transfer.to, transfer.why));
    if matches!(under_way, Some((_, EndReason::Transferred))) {
        return;
    }
    let leader = election.leader().filter(|l| l.mode() == Mode::Exclusive && !l.is_fixed());
    let behind = election.candidates().iter().skip(1).take_while(|candidate| !candidate.is_fixed());
    let well = behind.filter(|candidate| !candidate.unhealthy);
    let has_more =
        |candidate: &&Arc<Candidate>| leader.is_some_and(|l| l.priority() < candidate.priority());
    let above: Vec<_> = well.take_while(has_more).collect();
    if election.leads_by_choice() {
        assert_eq!(under_way, None, "{:?}", world.path);
        let before =
            world.before.as_ref().and_then(|before| before.elections.election(name)).unwrap();
        let came = |candidate: &&Arc<Candidate>| {
            let known = candidate.session().and_then(|session| before.candidate_of(session));
            candidate.preempts() && known.is_none_or(|known| known.unhealthy)
        };
        let came = above.into_iter().find(came).filter(|_| before.leads_by_choice());
        assert!(came.is_none(), "{came:?} came after the choice: {:?}", world.path);
    } else {
        let pre_empted = above.iter().any(|candidate| candidate.preempts());
        let next = above.first().filter(|_| pre_empted).and_then(|next| next.session());
        let expected = next.map(|next| (next, EndReason::Preempted));
        assert_eq!(under_way, expected, "{:?}", world.path);
    }
}

/// It leads because a transfer was under way to it just before, or led so before; until room is to be made again.
fn only_who_took_over_leads_by_choice(world: &World, name: &Bytes, election: &Election) {
    let Some(before) = world.before.as_ref().filter(|_| election.leads_by_choice()) else { return };
    let Some(before) = before.elections.election(name) else { panic!("{:?}", world.path) };
    let leader = election.leader().expect("who leads by choice leads");
    let chosen = before.candidates().iter().any(|candidate| {
        before.is_chosen(candidate)
            && (candidate.session(), candidate.created) == (leader.session(), leader.created)
    });
    let led = before.leader().map(|leader| leader.created) == Some(leader.created);
    assert!(chosen || led && before.leads_by_choice(), "{:?}", world.path);
}

fn candidates_belong_to_live_sessions(world: &World) {
    let elections = &world.state.elections;
    let mut of_elections: Vec<(LeaseId, Bytes)> = elections
        .elections()
        .flat_map(|(name, election)| {
            election.candidates().iter().filter_map(|p| Some((p.session()?, name.clone())))
        })
        .collect();
    let mut of_sessions: Vec<(LeaseId, Bytes)> = elections
        .sessions()
        .flat_map(|(id, session)| session.candidates.iter().map(move |name| (id, name.clone())))
        .collect();
    of_elections.sort();
    of_sessions.sort();
    assert_eq!(of_elections, of_sessions, "{:?}", world.path);
    let mut all = world.state.elections.all_candidacies();
    for (id, _) in elections.sessions() {
        assert!(world.state.leases.contains(id), "{:?}", world.path);
        let listed = all.remove(&id).unwrap_or_default();
        assert_eq!(listed, world.state.elections.candidacies_of(id), "{:?}", world.path);
    }
}

/// The session was attached again: the process lives, whatever becomes of the connection it had before.
fn a_connection_that_was_left_ends_nothing(world: &World) {
    let (Some(Deed::BreakOlderConnection(_)), Some(before)) = (world.path.last(), &world.before)
    else {
        return;
    };
    assert!(world.state.elections == before.elections, "{:?}", world.path);
}

fn nobody_is_told_too_early(world: &World) {
    let elections = &world.state.elections;
    for (name, election) in elections.elections() {
        for candidate in election.candidates().iter().filter(|candidate| candidate.told) {
            assert!(candidate.holds(), "told, and does not hold: {:?}", world.path);
            let Some(spec) = &candidate.spec else { continue };
            for other in &spec.together {
                let held = elections
                    .election(other)
                    .and_then(|election| election.candidate_of(spec.session));
                assert!(held.is_some_and(|p| p.holds()), "held by halves: {:?}", world.path);
            }
        }
        for candidate in
            election.candidates().iter().filter(|candidate| candidate.holds() && !candidate.told)
        {
            let spec = candidate.spec.as_ref().expect("a stock client is told at once");
            let waits = spec.together.len() > 1 || spec.no_overlap;
            assert!(waits, "{name:?} holds and is not told: {:?}", world.path);
        }
    }
    for event in &world.events {
        let ElectionEvent::Granted { name, candidate, .. } = event else { continue };
        let overlaps = candidate.spec.as_ref().is_some_and(|spec| spec.no_overlap);
        let delayed = elections.election(name).is_some_and(|election| election.is_delayed());
        assert!(!(overlaps && delayed), "told while another may act: {:?}", world.path);
    }
}

fn stock_candidates(world: &World, now: bool) -> Vec<(Bytes, Bytes, Revision)> {
    let state = if now { Some(&world.state) } else { world.before.as_ref() };
    let elections = state.into_iter().flat_map(|state| state.elections.elections());
    elections
        .flat_map(|(name, election)| {
            let stock = election.candidates().iter().filter(|candidate| candidate.spec.is_none());
            stock.map(move |candidate| (name.clone(), candidate.key.clone(), candidate.created))
        })
        .collect()
}

fn a_stock_key_is_never_moved(world: &World) {
    let after = stock_candidates(world, true);
    for (name, key, created) in stock_candidates(world, false) {
        let moved = after.iter().any(|(n, k, c)| *n == name && *k == key && *c != created);
        assert!(!moved, "{:?}", world.path);
    }
}

fn nobody_overtakes_a_stock_key(world: &World) {
    let Some(before) = &world.before else { return };
    for (name, election) in before.elections.elections() {
        let Some(after) = world.state.elections.election(name) else { continue };
        for (at, stock) in
            election.candidates().iter().enumerate().filter(|(_, p)| p.spec.is_none())
        {
            let Some(stock_now) = after.candidate(stock.created, &stock.key) else { continue };
            for behind in
                election.candidates()[at + 1..].iter().filter_map(|candidate| candidate.session())
            {
                if let Some(candidate) = after.candidate_of(behind) {
                    assert!(candidate.created > stock_now.created, "{:?}", world.path);
                }
            }
        }
    }
}

fn a_snapshot_keeps_everything(world: &World) {
    let snapshot = Snapshot { mark: SnapshotMark::default(), state: world.state.clone() };
    let mut thaw = SnapshotReader::new();
    for chunk in snapshot.chunks() {
        thaw.chunk(&chunk).unwrap();
    }
    let thawed = thaw.finish().unwrap();
    assert!(thawed.elections == world.state.elections, "{:?}", world.path);
}
