//! What must be true of lines whatever has happened.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use tenure_api::{LeaseId, Revision, Span};
use tenure_replica::{
    Frozen, SnapshotMark, Thaw,
    queue::{Event, FROZEN, Line, Mode, Place, TenureEnd},
};

use crate::alphabet::{Deed, World};

pub(crate) fn check(world: &World) {
    for (name, line) in world.state.queues.lines() {
        a_line_is_its_keys(world, name, line);
        the_lowest_key_leads(world, line);
        holders_go_together(world, line);
        a_line_advances(world, line);
        tokens_grow(world, line);
        who_takes_over_would_lead(world, line);
        room_is_made_for_whoever_pre_empts(world, name, line);
        only_who_took_over_leads_by_choice(world, name, line);
    }
    places_belong_to_live_sessions(world);
    a_connection_that_was_left_ends_nothing(world);
    nobody_is_told_too_early(world);
    a_stock_key_is_never_moved(world);
    nobody_overtakes_a_stock_key(world);
    a_tenure_begins_at_a_revision_of_its_own(world);
    a_chosen_successor_keeps_its_token(world);
    a_snapshot_keeps_everything(world);
}

fn a_line_is_its_keys(world: &World, name: &Bytes, line: &Line) {
    let span = Span::prefix([name, &b"/"[..]].concat().into());
    let mut keys: Vec<(Revision, Bytes)> =
        world.state.store.live_in(&span).map(|kv| (kv.create_revision, kv.key.clone())).collect();
    keys.sort();
    let places: Vec<_> = line.places().iter().map(|p| (p.created, p.key.clone())).collect();
    assert_eq!(places, keys, "{:?}", world.path);
}

/// A client that goes by etcd's rule sees the same leader.
fn the_lowest_key_leads(world: &World, line: &Line) {
    let holders: Vec<_> = line.places().iter().filter(|place| place.holds()).collect();
    if let Some(first) = holders.first() {
        assert_eq!(first.created, line.places()[0].created, "{:?}", world.path);
    }
}

fn holders_go_together(world: &World, line: &Line) {
    let holders: Vec<_> = line.places().iter().filter(|place| place.holds()).collect();
    let Some(first) = holders.first() else { return };
    let most = match first.mode() {
        Mode::Exclusive => 1,
        Mode::Shared => usize::MAX,
        Mode::Permit(permits) => permits as usize,
    };
    assert!(holders.len() <= most, "{} hold: {:?}", holders.len(), world.path);
    assert!(holders.iter().all(|p| p.mode() == first.mode()), "{:?}", world.path);
    let slots: BTreeSet<_> = holders.iter().map(|place| place.slot).collect();
    if first.mode() != Mode::Shared {
        assert_eq!(slots.len(), holders.len(), "two in one slot: {:?}", world.path);
    }
    // Nobody waits before somebody who holds.
    assert!(line.places()[..holders.len()].iter().all(|p| p.holds()), "{:?}", world.path);
}

/// If the first would lead, it does; if it would not, nobody else would either.
fn a_line_advances(world: &World, line: &Line) {
    let Some(first) = line.places().first() else { return };
    if first.key.ends_with(FROZEN) {
        assert!(!line.places().iter().any(|place| place.holds()), "{:?}", world.path);
    } else if !first.holds() {
        let willing = |place: &&Arc<Place>| place.wants_to_lead() && !place.key.ends_with(FROZEN);
        let willing = line.places().iter().find(willing);
        assert!(willing.is_none(), "{willing:?} waits for nobody: {:?}", world.path);
    }
}

/// Behind the last who cannot be overtaken; who is not well has no rank, nor has whom an operator chose.
pub(crate) fn who_waits_stands_by_priority(world: &World) {
    for (_, line) in world.state.queues.lines() {
        let movable = line.places().iter().rev().take_while(|place| !place.is_fixed());
        let has_rank =
            |place: &&Arc<Place>| !place.holds() && !place.unhealthy && !line.is_chosen(place);
        let waits = movable.filter(has_rank);
        let from_the_end: Vec<u32> = waits.map(|place| place.priority()).collect();
        assert!(from_the_end.is_sorted(), "{from_the_end:?}: {:?}", world.path);
    }
}

fn tokens_grow(world: &World, line: &Line) {
    let tokens: Vec<_> = line.tenures().map(|tenure| tenure.token).collect();
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}: {:?}", world.path);
    let leads = line.leader().map(|leader| leader.created);
    let last = line.tenures().last().filter(|tenure| tenure.end.is_none()).map(|t| t.token);
    assert_eq!(last, leads, "{:?}", world.path);
    let compacted = world.state.store.compacted();
    // Data that hangs on nothing is restored as it was, and acts with no token.
    if let Some(token) =
        leads.filter(|_| line.leader().is_some_and(|leader| leader.lease.is_some()))
    {
        assert!(token > compacted || compacted == Revision(0), "{:?}", world.path);
    }
}

/// Whoever knows everything up to a revision has not missed what began at it.
fn a_tenure_begins_at_a_revision_of_its_own(world: &World) {
    let Some(before) = &world.before else { return };
    for event in &world.events {
        if let Event::Began { tenure, .. } = event {
            assert!(tenure.from > before.store.revision(), "{tenure:?}: {:?}", world.path);
        }
    }
}

/// What an operator was told of it stays true, until it leads or the leader goes.
fn a_chosen_successor_keeps_its_token(world: &World) {
    let Some(before) = &world.before else { return };
    for (name, line) in before.queues.lines() {
        let Some(chosen) = line.places().iter().find(|place| line.is_chosen(place)) else {
            continue;
        };
        let now = world.state.queues.line(name);
        let still = now.and_then(|now| now.places().iter().find(|place| now.is_chosen(place)));
        if let Some(still) = still.filter(|still| still.session() == chosen.session()) {
            assert_eq!(still.created, chosen.created, "{:?}", world.path);
        }
    }
}

/// Nobody makes room for somebody who is not there, or would be passed over.
fn who_takes_over_would_lead(world: &World, line: &Line) {
    let Some(transfer) = line.transfer() else { return };
    let to = line.place_of(transfer.to);
    assert!(to.is_some_and(|to| to.wants_to_lead()), "{to:?} is to lead: {:?}", world.path);
    let leader = line.leader().map(|leader| leader.created);
    assert_eq!(leader, Some(transfer.from), "who makes room leads: {:?}", world.path);
}

/// If somebody has more than the leader and pre-empts, and nobody stands before it that has not or cannot be passed,
/// room is made for whoever is first; and for no other reason, but that an operator wants it. Whom an operator chose
/// leads on beside those who stood there then.
fn room_is_made_for_whoever_pre_empts(world: &World, name: &Bytes, line: &Line) {
    let under_way = line.transfer().map(|transfer| (transfer.to, transfer.why));
    if matches!(under_way, Some((_, TenureEnd::Transferred))) {
        return;
    }
    let leader = line.leader().filter(|l| l.mode() == Mode::Exclusive && !l.is_fixed());
    let behind = line.places().iter().skip(1).take_while(|place| !place.is_fixed());
    let well = behind.filter(|place| !place.unhealthy);
    let has_more = |place: &&Arc<Place>| leader.is_some_and(|l| l.priority() < place.priority());
    let above: Vec<_> = well.take_while(has_more).collect();
    if line.leads_by_choice() {
        assert_eq!(under_way, None, "{:?}", world.path);
        let before = world.before.as_ref().and_then(|before| before.queues.line(name)).unwrap();
        let came = |place: &&Arc<Place>| {
            let known = place.session().and_then(|session| before.place_of(session));
            place.preempts() && known.is_none_or(|known| known.unhealthy)
        };
        let came = above.into_iter().find(came).filter(|_| before.leads_by_choice());
        assert!(came.is_none(), "{came:?} came after the choice: {:?}", world.path);
    } else {
        let pre_empted = above.iter().any(|place| place.preempts());
        let next = above.first().filter(|_| pre_empted).and_then(|next| next.session());
        let expected = next.map(|next| (next, TenureEnd::Preempted));
        assert_eq!(under_way, expected, "{:?}", world.path);
    }
}

/// It leads because a transfer was under way to it just before, or led so before; until room is to be made again.
fn only_who_took_over_leads_by_choice(world: &World, name: &Bytes, line: &Line) {
    let Some(before) = world.before.as_ref().filter(|_| line.leads_by_choice()) else { return };
    let Some(before) = before.queues.line(name) else { panic!("{:?}", world.path) };
    let leader = line.leader().expect("who leads by choice leads");
    let chosen = before.places().iter().any(|place| {
        before.is_chosen(place)
            && (place.session(), place.created) == (leader.session(), leader.created)
    });
    let led = before.leader().map(|leader| leader.created) == Some(leader.created);
    assert!(chosen || led && before.leads_by_choice(), "{:?}", world.path);
}

fn places_belong_to_live_sessions(world: &World) {
    let queues = &world.state.queues;
    let mut of_lines: Vec<(LeaseId, Bytes)> = queues
        .lines()
        .flat_map(|(name, line)| {
            line.places().iter().filter_map(|p| Some((p.session()?, name.clone())))
        })
        .collect();
    let mut of_sessions: Vec<(LeaseId, Bytes)> = queues
        .sessions()
        .flat_map(|(id, session)| session.places.iter().map(move |name| (id, name.clone())))
        .collect();
    of_lines.sort();
    of_sessions.sort();
    assert_eq!(of_lines, of_sessions, "{:?}", world.path);
    let mut all = world.state.all_places();
    for (id, _) in queues.sessions() {
        assert!(world.state.leases.contains(id), "{:?}", world.path);
        let listed = all.remove(&id).unwrap_or_default();
        assert_eq!(listed, world.state.places_of(id), "{:?}", world.path);
    }
}

/// The session was attached again: the process lives, whatever becomes of the connection it had before.
fn a_connection_that_was_left_ends_nothing(world: &World) {
    let (Some(Deed::BreakOlderConnection(_)), Some(before)) = (world.path.last(), &world.before)
    else {
        return;
    };
    assert!(world.state.queues == before.queues, "{:?}", world.path);
}

fn nobody_is_told_too_early(world: &World) {
    let queues = &world.state.queues;
    for (name, line) in queues.lines() {
        for place in line.places().iter().filter(|place| place.told) {
            assert!(place.holds(), "told, and does not hold: {:?}", world.path);
            let Some(candidate) = &place.candidate else { continue };
            for other in &candidate.together {
                let held = queues.line(other).and_then(|line| line.place_of(candidate.session));
                assert!(held.is_some_and(|p| p.holds()), "held by halves: {:?}", world.path);
            }
        }
        for place in line.places().iter().filter(|place| place.holds() && !place.told) {
            let candidate = place.candidate.as_ref().expect("a stock client is told at once");
            let waits = candidate.together.len() > 1 || candidate.no_overlap;
            assert!(waits, "{name:?} holds and is not told: {:?}", world.path);
        }
    }
    for event in &world.events {
        let Event::Granted { name, place, .. } = event else { continue };
        let overlaps = place.candidate.as_ref().is_some_and(|candidate| candidate.no_overlap);
        let delayed = queues.line(name).is_some_and(|line| line.is_delayed());
        assert!(!(overlaps && delayed), "told while another may act: {:?}", world.path);
    }
}

fn stock_places(world: &World, now: bool) -> Vec<(Bytes, Bytes, Revision)> {
    let state = if now { Some(&world.state) } else { world.before.as_ref() };
    let lines = state.into_iter().flat_map(|state| state.queues.lines());
    lines
        .flat_map(|(name, line)| {
            let stock = line.places().iter().filter(|place| place.candidate.is_none());
            stock.map(move |place| (name.clone(), place.key.clone(), place.created))
        })
        .collect()
}

fn a_stock_key_is_never_moved(world: &World) {
    let after = stock_places(world, true);
    for (name, key, created) in stock_places(world, false) {
        let moved = after.iter().any(|(n, k, c)| *n == name && *k == key && *c != created);
        assert!(!moved, "{:?}", world.path);
    }
}

fn nobody_overtakes_a_stock_key(world: &World) {
    let Some(before) = &world.before else { return };
    for (name, line) in before.queues.lines() {
        let Some(after) = world.state.queues.line(name) else { continue };
        for (at, stock) in line.places().iter().enumerate().filter(|(_, p)| p.candidate.is_none()) {
            let Some(stock_now) = after.place(stock.created, &stock.key) else { continue };
            for behind in line.places()[at + 1..].iter().filter_map(|place| place.session()) {
                if let Some(place) = after.place_of(behind) {
                    assert!(place.created > stock_now.created, "{:?}", world.path);
                }
            }
        }
    }
}

fn a_snapshot_keeps_everything(world: &World) {
    let frozen = Frozen { mark: SnapshotMark::default(), state: world.state.clone() };
    let mut thaw = Thaw::new();
    for chunk in frozen.chunks() {
        thaw.chunk(&chunk).unwrap();
    }
    let thawed = thaw.finish().unwrap();
    assert!(thawed.queues == world.state.queues, "{:?}", world.path);
}
