//! What a session's secret is asked for, and what goes on without it.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use tenure_api::{LeaseId, Principal, Term};
use tenure_replica::{
    EntryContext, Outcome, State,
    command::{
        Command, ElectionCommand, JoinSpec, SESSION_SECRETS_SINCE, SessionEnding, SessionRequest,
        StopCause,
    },
    election::{ElectionOutcome, Mode, Refusal, SecretDigest},
    state::ApplyEffects,
};

const HOLDER: LeaseId = LeaseId(7);
const WAITING: LeaseId = LeaseId(8);
const SECRET: Option<SecretDigest> = Some(SecretDigest([1; SecretDigest::BYTES]));
const WRONG: Option<SecretDigest> = Some(SecretDigest([2; SecretDigest::BYTES]));
const STOPPED: SessionEnding = SessionEnding::Closed { stopped: true };

struct Member {
    state: State,
    index: u64,
}

impl Member {
    /// A holder that has this secret, and a candidate that wants no overlap.
    fn with_a_holder(secret: Option<SecretDigest>) -> Member {
        let mut state = State::new(vec![]);
        state.cluster_version = SESSION_SECRETS_SINCE;
        let mut member = Member { state, index: 0 };
        for (id, secret) in [(HOLDER, secret), (WAITING, SECRET)] {
            let (ttl_ms, identity) = (60_000, "program".to_owned());
            let open =
                ElectionCommand::Open { id, ttl_ms, identity, fast_release: false, by: 1, secret };
            member.apply(open).unwrap();
            let name = Bytes::from_static(b"jobs");
            let join = JoinSpec { no_overlap: true, ..JoinSpec::one(name, Mode::Exclusive) };
            let request = SessionRequest::Join(join);
            member.apply(ElectionCommand::Request { session: id, number: 1, request }).unwrap();
        }
        assert_eq!(member.holder(), Some(HOLDER));
        member
    }

    fn apply(&mut self, command: ElectionCommand) -> Result<ElectionOutcome, Refusal> {
        self.index += 1;
        let at = EntryContext { index: self.index, term: Term(1), ms: self.index };
        let command = Command::Election(command);
        let mut effects = ApplyEffects::default();
        match self.state.apply(at, &Principal::Anonymous, &command, &mut effects).unwrap() {
            Outcome::Election(outcome) => outcome,
            other => panic!("{other:?}"),
        }
    }

    fn end(&mut self, how: SessionEnding, secret: Option<SecretDigest>) -> Result<(), Refusal> {
        self.apply(ElectionCommand::End { id: HOLDER, how, secret }).map(|_| ())
    }

    fn holder(&self) -> Option<LeaseId> {
        self.state.elections.election(b"jobs")?.leader().filter(|first| first.told)?.session()
    }
}

#[test]
fn session_secret_is_needed_to_attach() {
    let mut member = Member::with_a_holder(SECRET);
    let attach = |secret| ElectionCommand::Attach { id: HOLDER, by: 2, secret };
    for secret in [None, WRONG] {
        assert_eq!(member.apply(attach(secret)).err(), Some(Refusal::WrongSecret));
        assert_eq!(member.state.elections.session(HOLDER).unwrap().attachment, 1);
    }
    member.apply(attach(SECRET)).unwrap();
}

#[test]
fn session_secret_is_needed_to_say_that_work_has_stopped() {
    for how in [STOPPED, SessionEnding::Guarded(StopCause::ProcessKilled)] {
        let mut member = Member::with_a_holder(SECRET);
        for secret in [None, WRONG] {
            assert_eq!(member.end(how, secret), Err(Refusal::WrongSecret));
            assert_eq!(member.holder(), Some(HOLDER));
        }
        member.end(how, SECRET).unwrap();
        assert_eq!(member.holder(), Some(WAITING), "it was told that the work has stopped");
    }
}

/// An operator may revoke any session; the next holder still waits until the work must have stopped.
#[test]
fn session_secret_is_not_needed_to_revoke() {
    let mut member = Member::with_a_holder(SECRET);
    member.end(SessionEnding::Revoked { stopped: false }, None).unwrap();
    assert_eq!(member.holder(), None, "the next one waits");
    for secret in [None, WRONG] {
        assert_eq!(member.end(STOPPED, secret), Err(Refusal::WrongSecret));
        assert_eq!(member.holder(), None, "a stranger cannot end that wait");
    }
    member.end(STOPPED, SECRET).unwrap();
    assert_eq!(member.holder(), Some(WAITING));
}

/// Opened while a member of an earlier release was there.
#[test]
fn session_without_a_secret_is_believed_as_before() {
    let mut member = Member::with_a_holder(None);
    member.apply(ElectionCommand::Attach { id: HOLDER, by: 2, secret: None }).unwrap();
    member.end(STOPPED, None).unwrap();
    assert_eq!(member.holder(), Some(WAITING));
}
