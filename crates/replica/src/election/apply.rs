//! The one way in: a command's changes to elections, and to the keys and leases they stand on.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use tenure_api::{LeaseId, Revision, Term};

use super::{
    Candidate, CandidateSpec, ElectionEvent, Elections, EndReason, Refusal, SessionEndReason,
    keys::Cause,
};
use crate::{
    command::{ElectionCommand, Expiry},
    lease::Leases,
    mvcc::{Change, Store},
    state::{ApplyEffects, EntryContext},
};

/// What happens to elections.
pub(crate) enum ElectionOp<'a> {
    /// A session or an operator asks for something, or time is over.
    Command(&'a ElectionCommand),
    /// A client changed keys.
    KeysChanged(Option<Change>),
    /// A lease was revoked, with these keys on it.
    LeaseRevoked(LeaseId, Vec<Bytes>),
    /// Leases ran out on the clock of this term's raft leader.
    LeasesExpired(Term, &'a [Expiry]),
    /// From now on elections are kept. They begin with the keys that are there.
    Begin,
}

/// What a command about elections did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElectionOutcome {
    /// A session was opened, or a stream attached to it again.
    Session {
        /// Which.
        id: LeaseId,
        /// The number of this attachment.
        attachment: u64,
        /// How long it lives without a sign of life.
        ttl_ms: u64,
        /// Everything it has.
        candidacies: Vec<CandidacyView>,
    },
    /// The candidates that were taken or changed, as they are.
    Candidacies(Vec<CandidacyView>),
    /// The token that the chosen one leads with, or will.
    Token(Revision),
    /// The candidate that was evicted, and its identity.
    Evicted(Option<(Arc<Candidate>, String)>),
    /// Nothing to tell.
    Done,
}

/// A session's candidacy and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidacyView {
    /// Where.
    pub name: Bytes,
    /// The candidate.
    pub candidate: Arc<Candidate>,
    /// How many come before it.
    pub ahead: usize,
    /// It leads, and is asked to make room: the successor, and within how many milliseconds.
    pub makes_room: Option<(String, u64)>,
}

/// One command under way: what it may change, and what it has left to settle.
pub(crate) struct Transition<'a> {
    pub(super) elections: &'a mut Elections,
    pub(super) store: &'a mut Store,
    pub(super) leases: &'a mut Leases,
    pub(super) at: EntryContext,
    pub(super) effects: &'a mut ApplyEffects,
    /// Whether all members keep elections; otherwise keys are only keys.
    pub(super) keeps_elections: bool,
    /// Elections that must be settled.
    pub(super) touched: BTreeSet<Bytes>,
    /// Those of them that a candidate left which could not be passed: priorities may count that did not before.
    pub(super) loosened: BTreeSet<Bytes>,
    /// Of candidates that were taken together, one is gone.
    pub(super) broken: Vec<Arc<CandidateSpec>>,
}

impl<'a> Transition<'a> {
    pub(crate) fn new(
        elections: &'a mut Elections,
        (store, leases): (&'a mut Store, &'a mut Leases),
        keeps_elections: bool,
        at: EntryContext,
        effects: &'a mut ApplyEffects,
    ) -> Transition<'a> {
        Transition {
            elections,
            store,
            leases,
            at,
            effects,
            keeps_elections,
            touched: BTreeSet::new(),
            loosened: BTreeSet::new(),
            broken: Vec::new(),
        }
    }

    /// Does what is asked, and settles the elections that it touched.
    pub(crate) fn apply(mut self, op: ElectionOp<'_>) -> Result<ElectionOutcome, Refusal> {
        let mut asked = None;
        let mut outcome = Ok(ElectionOutcome::Done);
        match op {
            ElectionOp::Command(command) => {
                outcome = self.command(command);
                asked = Some(command);
            }
            ElectionOp::KeysChanged(change) => self.record(change, &Cause::default()),
            ElectionOp::LeaseRevoked(id, keys) => {
                self.end_lease(id, keys, (EndReason::Revoked, SessionEndReason::Revoked), false);
            }
            ElectionOp::LeasesExpired(judged_in, expiries) => self.expire(judged_in, expiries),
            ElectionOp::Begin => self.begin_elections(),
        }
        self.settle();
        if let (Some(ElectionCommand::Request { session, request, .. }), Ok(_)) = (asked, &outcome)
        {
            // As they are now: a request that comes again may be about candidates that were moved since.
            let names = request.names().iter();
            let candidacies = names.filter_map(|name| self.elections.candidacy(name, *session));
            outcome = Ok(ElectionOutcome::Candidacies(candidacies.collect()));
        }
        outcome
    }

    fn command(&mut self, command: &ElectionCommand) -> Result<ElectionOutcome, Refusal> {
        match command {
            ElectionCommand::Open { id, ttl_ms, identity, fast_release, by, secret } => {
                self.open_session(*id, (*ttl_ms, identity, *fast_release), *secret, *by)
            }
            ElectionCommand::Attach { id, by, secret } => self.attach_session(*id, *secret, *by),
            ElectionCommand::End { id, how, secret } => self.end_session(*id, *how, *secret),
            ElectionCommand::Request { session, number, request } => {
                self.request(*session, *number, request).map(|_| ElectionOutcome::Done)
            }
            ElectionCommand::Admin(command) => self.admin(command),
            ElectionCommand::Overdue(judged_in, overdue) => {
                self.end_overdue(*judged_in, overdue);
                Ok(ElectionOutcome::Done)
            }
        }
    }

    pub(super) fn tell(&mut self, event: ElectionEvent) {
        self.effects.elections.push(event);
    }
}
