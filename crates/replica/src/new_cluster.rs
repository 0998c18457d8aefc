//! A new cluster with the data of an old one: restore, and the last member of a lost majority.
//!
//! A backup is a point in the past. What the old cluster did after it is unknown: it may have handed
//! out fencing tokens, which are create revisions, and revisions to watch from. None of them may
//! come a second time with another meaning. So the new cluster's revisions begin far beyond any
//! that the old one can have reached, everything earlier counts as compacted, and whatever lives
//! only as long as a session is gone, because the session's owner has long been told so, or will be.

use tenure_api::{Member, Revision, Term};

use crate::{
    command::COMMAND_VERSION,
    log::{LogIndex, SnapshotMark},
    snapshot::Snapshot,
    state::State,
};

/// How far revisions jump at least. The old cluster would have to write 30,000 times a second for a
/// year after the backup to get there; and JSON can hold the number (2⁵³) after 9,000 restores.
pub const REVISION_JUMP_MIN: i64 = 1_000_000_000_000;
/// Where revisions end. Beyond 2⁵³ JavaScript cannot tell one from the next.
pub const REVISION_MAX: Revision = Revision(1 << 53);

/// The revision at which a new cluster begins that takes over from `last`: at least `jump` further,
/// never less than [`REVISION_JUMP_MIN`], and not before `floor`. None if revisions would not last.
///
/// The same backup may be restored twice, and the first of the two clusters may have served
/// meanwhile. A member that begins alone therefore hands in the time as its floor ([`by_clock`]). Several
/// members cannot agree on a clock before they talk to each other; they hand in none, and leap when the first of them
/// has spoken ([`State::leap`]).
pub fn first_revision(last: Revision, jump: i64, floor: Option<Revision>) -> Option<Revision> {
    if canary!(RestoredInPlace) {
        return Some(last);
    }
    let jumped = last.0.checked_add(jump.max(REVISION_JUMP_MIN)).map(Revision)?;
    let first = floor.map_or(jumped, |floor| floor.max(jumped));
    (first <= REVISION_MAX).then_some(first)
}

/// The revision that no cluster has reached by this time, in milliseconds since 1970: none writes a million times a
/// second, so none ever catches up with the clock.
pub fn by_clock(ms: u64) -> Revision {
    let micros = i64::try_from(ms).ok().and_then(|ms| ms.checked_mul(1000));
    micros.map_or(REVISION_MAX, Revision).min(REVISION_MAX)
}

impl State {
    /// The first batch of a new cluster with old data is about to be applied: its revisions go on from the clock of the raft
    /// leader that proposed it.
    ///
    /// Members that restore a file come to the same revision each by itself, and to the same again when they restore the
    /// same file another time. What the cluster of the first time gave out since must not come again, so nothing
    /// may be written before this. A clock that is wrong does no harm but that the leap is in vain.
    pub fn leap(&mut self, ms: u64) {
        let is_untouched =
            self.origins.is_empty() && self.store.revision() == self.store.compacted();
        if is_untouched && self.store.revision().0 >= REVISION_JUMP_MIN {
            self.store.leap(by_clock(ms));
            // Another cluster may have come to the revisions that were leapt over, with leaders of its own.
            self.elections.forget_until(self.store.revision());
        }
    }

    /// The state in which a cluster of these members begins, with the keys of this one that hang on
    /// no lease. All else is the old cluster's business: its members, what they published of
    /// themselves, whose batches were applied, their alarms.
    #[must_use]
    pub fn new_cluster(&self, members: impl IntoIterator<Item = Member>, first: Revision) -> State {
        let mut state = State {
            store: self.store.new_cluster(first),
            members: members.into_iter().map(|member| (member.id, member)).collect(),
            // It begins with all that this build knows. Members that do not know it must not come up with it: they would
            // not leap with the others.
            cluster_version: self.cluster_version.max(COMMAND_VERSION),
            // Who may do what is not the old cluster's business alone: a restore must not open what was closed.
            auth: self.auth.clone(),
            ..State::default()
        };
        // A name that was frozen stays so: its mark hangs on no lease.
        state.elections_from_keys();
        state
    }
}

impl Snapshot {
    /// What the members of a new cluster find on their disks: an old state, made over, as a snapshot just
    /// behind its index in the old log. All of them vote.
    #[must_use]
    pub fn new_cluster(
        old: &State,
        behind: (LogIndex, Term),
        members: Vec<Member>,
        first: Revision,
    ) -> Snapshot {
        let mark = SnapshotMark {
            index: behind.0 + 1,
            term: Term(behind.1.0 + 1),
            voters: members.iter().map(|member| member.id).collect(),
            ..SnapshotMark::default()
        };
        Snapshot { mark, state: old.new_cluster(members, first) }
    }
}
