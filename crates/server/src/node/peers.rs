//! The other members, as the replicated list has them: which to call, refuse and let go.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tenure_api::{Member, MemberId};
use tenure_replica::{Moment, State};

use crate::{
    config::address,
    peer::{Known, Transport},
};

/// How long a connection to a member that was removed is kept when it is not needed any more: what was
/// last said to it should not be cut off. When it calls again, it is told.
const FAREWELL: Duration = Duration::from_millis(100);

/// Members that are only heard of, at the most.
const HEARSAY_MAX: usize = 64;

/// Keeps the transport in step with the list of members.
#[derive(Debug)]
pub(super) struct Peers {
    me: MemberId,
    /// The members to call while there is no list.
    first: BTreeMap<MemberId, String>,
    /// Members of which others have told. A member that was away while the raft leader was added must
    /// let it speak to learn that it was.
    hearsay: BTreeMap<MemberId, String>,
    /// What the transport was last told.
    seen: Option<State>,
    addresses: BTreeMap<MemberId, String>,
    /// Those of them that are not on the replicated list.
    off_list: BTreeSet<MemberId>,
    leaving: BTreeMap<MemberId, Moment>,
}

impl Peers {
    pub(super) fn new(me: MemberId, first: Vec<(MemberId, String)>) -> Peers {
        let first: BTreeMap<_, _> = first.into_iter().collect();
        Peers {
            me,
            addresses: first.clone(),
            first,
            hearsay: BTreeMap::new(),
            off_list: BTreeSet::new(),
            seen: None,
            leaving: BTreeMap::new(),
        }
    }

    /// A peer has told of these.
    pub(super) fn hear(&mut self, members: &[Member]) {
        for (id, at) in members.iter().filter_map(candidate) {
            if self.hearsay.len() < HEARSAY_MAX {
                self.hearsay.insert(id, at);
            }
        }
        self.seen = None;
    }

    /// Tells the transport what has changed. Cheap if nothing has.
    pub(super) fn follow(&mut self, now: Moment, state: &State, transport: &Transport) {
        if !self.is_news(state) && self.leaving.is_empty() {
            return;
        }
        // A member that joins has no list of its own before its first snapshot.
        let mut wanted = if state.members.is_empty() {
            self.first.clone()
        } else {
            transport.know(known(state));
            state.members.values().chain(state.departing.values()).filter_map(candidate).collect()
        };
        self.seen = Some(picture(state));
        self.hearsay.retain(|id, _| !wanted.contains_key(id) && !state.removed.contains(id));
        wanted.extend(self.hearsay.clone());
        wanted.remove(&self.me);
        for (gone, at) in &self.addresses {
            if !wanted.contains_key(gone) {
                let since = *self.leaving.entry(*gone).or_insert(now);
                if now.since(since) < FAREWELL {
                    wanted.insert(*gone, at.clone());
                }
            }
        }
        let is_off_list = |id: &&MemberId| match state.members.is_empty() {
            true => self.hearsay.contains_key(*id),
            false => !state.members.contains_key(*id),
        };
        let off_list: BTreeSet<MemberId> = wanted.keys().filter(is_off_list).copied().collect();
        if wanted != self.addresses || off_list != self.off_list {
            self.leaving.retain(|gone, _| wanted.contains_key(gone));
            transport.set_peers(wanted.clone().into_iter().collect(), off_list.clone());
            (self.addresses, self.off_list) = (wanted, off_list);
        }
    }

    fn is_news(&self, state: &State) -> bool {
        self.seen.as_ref().is_none_or(|seen| {
            !seen.members.ptr_eq(&state.members)
                || !seen.directories.ptr_eq(&state.directories)
                || !seen.removed.ptr_eq(&state.removed)
                || !seen.departing.ptr_eq(&state.departing)
                || seen.cluster_version != state.cluster_version
        })
    }
}

fn known(state: &State) -> Known {
    Known {
        members: state.members(),
        removed: state
            .removed
            .iter()
            .filter(|gone| !state.departing.contains_key(*gone))
            .copied()
            .collect(),
        directories: state.directories.iter().map(|(id, number)| (*id, *number)).collect(),
        cluster_version: state.cluster_version,
    }
}

/// As much of the state as matters here; it must not keep the store's past alive.
fn picture(state: &State) -> State {
    State {
        members: state.members.clone(),
        directories: state.directories.clone(),
        removed: state.removed.clone(),
        departing: state.departing.clone(),
        cluster_version: state.cluster_version,
        ..State::default()
    }
}

fn candidate(member: &Member) -> Option<(MemberId, String)> {
    Some((member.id, address(member.peer_urls.first()?).ok()?))
}
