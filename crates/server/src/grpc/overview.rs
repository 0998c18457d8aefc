//! Elections as a list shows them: the state of each in one word, and which of many are asked for.
//!
//! All of it is reckoned from a snapshot of the state, beside the core loop: 100,000 elections take a while.

use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use tenure_api::{LeaseId, Principal, wire::tenure::v1 as pb};
use tenure_replica::{
    CandidateView, State,
    auth::Need,
    election::{Candidate, Election, EndReason, Tenure, frozen_key},
};

use super::convert::{candidate, tenure, text};

/// What "lately" is for a list.
const DAY_MS: u64 = 24 * 3600 * 1000;
/// So many changes in a day are more than hosts that are replaced one after the other.
const CONTESTED_CHANGES: usize = 4;
/// So many in a short time mean that no leader lasts.
const FLAPPING_CHANGES: usize = 6;
const FLAPPING_MS: u64 = 10 * 60 * 1000;
/// Elections that one answer lists; the next begin behind them.
pub(super) const LISTED_MAX: usize = 2000;

/// The wall clock, in milliseconds since 1970: tenures are dated by it.
pub(super) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// The state of an election in one word.
pub(super) fn judge(election: &Election, now_ms: u64) -> pb::ElectionState {
    use pb::ElectionState;
    if election.is_frozen() {
        return ElectionState::StateFrozen;
    }
    if election.leader().is_none() {
        let last = election.tenures().last().and_then(|tenure| tenure.end);
        let in_order = last.is_none_or(|end| {
            matches!(end.why, EndReason::Resigned | EndReason::Closed | EndReason::Transferred)
        });
        let is_idle = election.candidates().is_empty() && in_order;
        return if is_idle { ElectionState::StateIdle } else { ElectionState::StateVacant };
    }
    if election.transfer().is_some() {
        return ElectionState::StateHandingOver;
    }
    if changes(election, now_ms, FLAPPING_MS) >= FLAPPING_CHANGES {
        return ElectionState::StateFlapping;
    }
    if changes(election, now_ms, DAY_MS) >= CONTESTED_CHANGES {
        return ElectionState::StateContested;
    }
    ElectionState::StateSteady
}

/// How often the leader changed, as far as the election remembers. Its first tenure of all is no change.
fn changes(election: &Election, now_ms: u64, within_ms: u64) -> usize {
    let since = now_ms.saturating_sub(within_ms);
    let lately = election.tenures().filter(|tenure| tenure.from_ms >= since).count();
    let has_earlier = election.tenures().count() > lately || election.forgotten().0 > 0;
    lately - usize::from(lately > 0 && !has_earlier)
}

/// An election as a list shows it.
pub(super) fn info(
    state: &State,
    name: &Bytes,
    election: &Election,
    now_ms: u64,
    with_tenures: bool,
) -> pb::ElectionInfo {
    let candidates = election.candidates();
    let holders = candidates.iter().filter(|candidate| candidate.holds()).count();
    let marks = usize::from(state.store.get(&frozen_key(name)).is_some());
    let since = now_ms.saturating_sub(DAY_MS);
    let lately = |tenure: &&Tenure| tenure.end.is_none_or(|end| end.at_ms >= since);
    let shown = |one: &Tenure| pb::Tenure { value: Bytes::new(), ..tenure(one) };
    let tenures = election.tenures().filter(lately).filter(|_| with_tenures).map(shown).collect();
    let leader = election.leader().and_then(|leader| view(state, name, election, leader));
    let last_end = election.tenures().last().and_then(|tenure| tenure.end);
    pb::ElectionInfo {
        name: text(name),
        holders: holders as u32,
        waiting: (candidates.len() - holders).saturating_sub(marks) as u32,
        frozen: election.is_frozen(),
        state: judge(election, now_ms) as i32,
        changes: changes(election, now_ms, DAY_MS) as u32,
        vacant_since_unix_ms: match (&leader, last_end) {
            (None, Some(end)) => end.at_ms,
            _ => 0,
        },
        successor: election.transfer().map_or(0, |transfer| transfer.to.0),
        forgotten: election.forgotten().0,
        leader: leader.as_ref().map(candidate),
        tenures,
        ..Default::default()
    }
}

fn view(
    state: &State,
    name: &Bytes,
    election: &Election,
    leader: &std::sync::Arc<Candidate>,
) -> Option<CandidateView> {
    let kv = state.store.get(&leader.key).filter(|kv| kv.key != frozen_key(name))?;
    Some(CandidateView {
        candidate: leader.clone(),
        identity: state.elections.identity_of(leader, kv),
        kv: kv.clone(),
        leads_since_ms: election.tenure_of(leader).map(|tenure| tenure.from_ms),
    })
}

/// Whether a principal may see an election.
pub(super) fn is_seen(state: &State, by: &Principal, name: &Bytes) -> bool {
    state.may(by, &Need::Observe(name.clone())).is_ok()
}

/// One page of all elections that a request asks for, and how many there are of each state.
pub(super) fn page(
    state: &State,
    by: &Principal,
    request: &pb::ListElectionsRequest,
    now_ms: u64,
) -> pb::ListElectionsResponse {
    let prefix = Bytes::copy_from_slice(request.prefix.as_bytes());
    let mut counts = BTreeMap::<i32, u32>::new();
    let mut found = Vec::new();
    let elections = state.elections.elections_from(&prefix);
    for (name, election) in elections.take_while(|(name, _)| name.starts_with(&prefix)) {
        let verdict = judge(election, now_ms) as i32;
        let is_there = !election.candidates().is_empty() || request.with_idle;
        if !is_there || !is_seen(state, by, name) || !contains(name, request.contains.as_bytes()) {
            continue;
        }
        *counts.entry(verdict).or_default() += 1;
        if request.states.is_empty() || request.states.contains(&verdict) {
            found.push((name, election));
        }
    }
    use pb::ElectionOrder;
    let waiting = |election: &Election| election.candidates().iter().filter(|c| !c.holds()).count();
    let since = |election: &Election| election.tenures().last().map_or(0, |tenure| tenure.from_ms);
    match request.order() {
        ElectionOrder::ByName => {}
        ElectionOrder::ByChanges => found.sort_by_cached_key(|(_, election)| {
            std::cmp::Reverse(changes(election, now_ms, DAY_MS))
        }),
        ElectionOrder::ByWaiting => {
            found.sort_by_cached_key(|(_, election)| std::cmp::Reverse(waiting(election)));
        }
        ElectionOrder::ByBeginning => {
            found.sort_by_cached_key(|(_, election)| std::cmp::Reverse(since(election)));
        }
    }
    let matching = found.len() as u32;
    let limit = match request.limit as usize {
        0 => LISTED_MAX,
        limit => limit.min(LISTED_MAX),
    };
    let shown = found.into_iter().skip(request.offset as usize).take(limit);
    let elections = shown
        .map(|(name, election)| info(state, name, election, now_ms, request.with_tenures))
        .collect();
    let counts = counts.into_iter().map(|(state, count)| pb::StateCount { state, count }).collect();
    pb::ListElectionsResponse { header: None, elections, matching, counts }
}

fn contains(name: &[u8], wanted: &[u8]) -> bool {
    wanted.is_empty() || name.windows(wanted.len()).any(|part| part == wanted)
}

/// The leases of those that lead, and where in the list they stand.
pub(super) fn leases(elections: &[pb::ElectionInfo]) -> Vec<LeaseId> {
    let session = |one: &pb::ElectionInfo| one.leader.as_ref().map_or(0, |leader| leader.session);
    elections.iter().map(|one| LeaseId(session(one))).collect()
}
