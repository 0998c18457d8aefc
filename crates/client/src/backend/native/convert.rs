//! Conversions between the wire's types and ours.

use std::time::{Duration, SystemTime};

use tenure_api::LeaseId;
use tenure_api::wire::tenure::v1 as pb;

use crate::backend::observe::called;
use crate::backend::{Candidate, Mode, Tenure};
use crate::{AcquireError, ElectionName, EngineError, FencingToken, Loss, RefusalKind};

/// Why a tenure ended.
pub(super) fn tenure_end(reason: i32) -> Loss {
    use pb::EndReason as End;
    match End::try_from(reason).unwrap_or(End::Unknown) {
        End::Resigned => Loss::Resigned,
        End::Expired => Loss::Expired,
        End::Revoked => Loss::Revoked,
        End::Closed => Loss::Closed,
        End::ConnectionLost => Loss::ConnectionLost,
        End::Evicted => Loss::Evicted,
        End::Transferred => Loss::Transferred,
        End::Preempted => Loss::Preempted,
        End::Unhealthy => Loss::Unhealthy,
        End::Frozen => Loss::Frozen,
        // What a newer server says is an end all the same.
        End::Deleted | End::Unknown | End::TenureLasts => Loss::KeyDeleted,
    }
}

/// Why a session ended; nothing if it may live and only this stream is over.
pub(super) fn session_end(reason: i32) -> Option<Loss> {
    use pb::SessionEndReason as End;
    Some(match End::try_from(reason).unwrap_or(End::Unknown) {
        End::SessionExpired => Loss::Expired,
        End::SessionRevoked => Loss::Revoked,
        End::SessionClosed => Loss::Closed,
        End::SessionConnectionLost => Loss::ConnectionLost,
        End::SessionNotFound => Loss::NotFound,
        End::SessionReplaced => Loss::Replaced,
        End::SessionNoQuorum => return None,
        // To be safe: over.
        End::Unknown => Loss::NotFound,
    })
}

/// The error that a refused join returns.
pub(super) fn refused(name: &ElectionName, refusal: pb::Refusal) -> AcquireError {
    use pb::RefusalKind as Kind;
    let name = name.clone();
    match Kind::try_from(refusal.kind).unwrap_or(Kind::RefusalUnknown) {
        Kind::Taken => AcquireError::Taken { name },
        Kind::AlreadyCandidate => AcquireError::AlreadyCandidate { name },
        Kind::ModeMismatch => AcquireError::ModeMismatch { name, text: refusal.text },
        Kind::NameFrozen => AcquireError::Frozen { name },
        Kind::SessionGone => AcquireError::SessionOver { name, loss: Loss::NotFound },
        _ => AcquireError::Refused { name, source: engine(refusal) },
    }
}

/// A refusal for which there is no error of our own.
pub(super) fn engine(refusal: pb::Refusal) -> EngineError {
    let kind = RefusalKind::of(&refusal);
    let text = match kind {
        Some(kind) if refusal.text.is_empty() => kind.to_string(),
        None if refusal.text.is_empty() => "refused without a word".to_owned(),
        _ => refusal.text,
    };
    EngineError::Refused { kind, text }
}

/// Whether it says that the candidacy is not ours, or not any more.
pub(super) fn is_not_ours(refusal: &pb::Refusal) -> bool {
    use pb::RefusalKind as Kind;
    let kind = Kind::try_from(refusal.kind);
    matches!(kind, Ok(Kind::NoSuchCandidacy | Kind::SessionGone | Kind::RequestTooOld))
}

/// A candidate, from its message.
pub(super) fn candidate(candidate: pb::Candidate) -> Option<Candidate> {
    let mode = match pb::Mode::try_from(candidate.mode) {
        Ok(pb::Mode::Shared) => Mode::Shared,
        // How many there are is not told here.
        Ok(pb::Mode::Permit) => Mode::Permit(0),
        Ok(pb::Mode::Exclusive) | Err(_) => Mode::Exclusive,
    };
    let token = FencingToken::from_revision(candidate.token)?;
    Some(Candidate {
        identity: called(&candidate.identity, &candidate.value, token),
        token,
        key: candidate.key.to_vec(),
        value: candidate.value.to_vec(),
        holds: candidate.holds,
        mode,
        session: LeaseId::from_wire(candidate.session),
        priority: candidate.priority,
        unhealthy: candidate.unhealthy,
        since: time(candidate.since_unix_ms),
        leads_since: time(candidate.leads_since_unix_ms),
        metadata: candidate.metadata.into_iter().collect(),
    })
}

fn time(unix_ms: u64) -> Option<SystemTime> {
    let since_1970 = Some(Duration::from_millis(unix_ms)).filter(|time| !time.is_zero())?;
    SystemTime::UNIX_EPOCH.checked_add(since_1970)
}

/// A tenure, from its message.
pub(super) fn tenure(tenure: pb::Tenure) -> Option<Tenure> {
    let token = FencingToken::from_revision(tenure.token)?;
    let identity = called(&tenure.identity, &tenure.value, token);
    Some(Tenure { identity, token, value: tenure.value.to_vec(), key: vec![] })
}
