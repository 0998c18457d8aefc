//! Candidacies, tenures and what happens to them, as tenure.v1 says it.

use tenure_api::{
    Failure, LeaseId, Revision,
    wire::{REFUSAL_TRAILER, tenure::v1 as pb},
};
use tenure_replica::{
    CandidacyView, CandidateView, ElectionOutcome, Outcome, Reply,
    election::{Candidate, ElectionEvent, EndReason, Refusal, SessionEndReason, Tenure},
};
use tonic::{
    Code, Status,
    metadata::{MetadataMap, MetadataValue},
};

use super::reply::{refuse, unexpected};

/// A name or identity as text. Names that sessions join are text; those of other clients may be
/// anything, and are shown as well as can be.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(super) fn token(number: i64) -> Option<Revision> {
    (number > 0).then_some(Revision(number))
}

pub(super) fn refusal(refusal: Refusal) -> pb::Refusal {
    pb::Refusal { kind: refusal as i32, text: refusal.to_string() }
}

/// A refusal of a call without a stream to answer on: the kind's name is in a trailer.
pub(super) fn refuse_rule(refusal: Refusal) -> Status {
    let code = match refusal {
        Refusal::BadName | Refusal::BadPriority | Refusal::TooLarge => Code::InvalidArgument,
        Refusal::SessionGone | Refusal::NoSuchCandidate => Code::NotFound,
        _ => Code::FailedPrecondition,
    };
    let kind = pb::RefusalKind::try_from(refusal as i32).unwrap_or_default();
    let mut trailers = MetadataMap::new();
    trailers.insert(REFUSAL_TRAILER, MetadataValue::from_static(kind.as_str_name()));
    Status::with_metadata(code, format!("tenure: {refusal}"), trailers)
}

/// What a command about elections did, if it was not refused.
pub(super) fn election_outcome(reply: Reply) -> Result<Result<ElectionOutcome, Refusal>, Status> {
    match reply {
        Reply::Wrote(Outcome::Election(done)) => Ok(done),
        other => Err(unexpected(&other)),
    }
}

pub(super) fn candidacy(info: &CandidacyView) -> pb::Candidacy {
    let ahead = info.ahead.try_into().unwrap_or(u32::MAX);
    let (successor, drain_ms) = info.makes_room.clone().unwrap_or_default();
    let draining = info.makes_room.is_some();
    pb::Candidacy {
        ahead,
        draining,
        successor,
        drain_ms,
        ..bare_candidacy(&info.name, &info.candidate)
    }
}

/// A candidate of which only itself is known. It holds for its owner from when it is told so.
fn bare_candidacy(name: &[u8], candidate: &Candidate) -> pb::Candidacy {
    pb::Candidacy {
        name: text(name),
        token: candidate.created.0,
        key: candidate.key.clone(),
        held: candidate.told,
        slot: candidate.slot.unwrap_or_default(),
        ahead: 0,
        draining: false,
        successor: String::new(),
        drain_ms: 0,
    }
}

pub(super) fn candidate(bootstrap: &CandidateView) -> pb::Candidate {
    let candidate = &bootstrap.candidate;
    pb::Candidate {
        identity: bootstrap.identity.clone(),
        session: LeaseId::to_wire(candidate.lease),
        token: candidate.created.0,
        key: candidate.key.clone(),
        value: bootstrap.kv.value.clone(),
        holds: candidate.holds(),
        mode: pb::Mode::from(candidate.mode()) as i32,
        slot: candidate.slot.unwrap_or_default(),
        priority: candidate.priority(),
        unhealthy: candidate.unhealthy,
        stock: candidate.spec.is_none(),
        since_unix_ms: candidate.since_ms,
        leads_since_unix_ms: bootstrap.leads_since_ms.unwrap_or_default(),
        metadata: candidate
            .spec
            .as_ref()
            .map(|candidate| candidate.metadata.iter().cloned().collect())
            .unwrap_or_default(),
    }
}

pub(super) fn tenure(tenure: &Tenure) -> pb::Tenure {
    let end = tenure.end;
    pb::Tenure {
        identity: tenure.identity.clone(),
        token: tenure.token.0,
        value: tenure.value.clone(),
        from_revision: tenure.from.0,
        until_revision: end.map_or(0, |end| end.at.0),
        from_unix_ms: tenure.from_ms,
        until_unix_ms: end.map_or(0, |end| end.at_ms),
        reason: end.map_or(pb::EndReason::TenureLasts as i32, |end| reason(end.why)),
        stopped: end.is_some_and(|end| end.stopped),
    }
}

fn reason(why: EndReason) -> i32 {
    why as i32
}

pub(super) fn ended(why: SessionEndReason) -> pb::SessionEnded {
    pb::SessionEnded { reason: why as i32 }
}

/// What a session is told of an event. None for what concerns only others.
pub(super) fn says(event: &ElectionEvent) -> Option<pb::session_response::Response> {
    use pb::session_response::Response as SessionReply;
    Some(match event {
        ElectionEvent::Granted { name, candidate, predecessor } => {
            SessionReply::Granted(pb::Granted {
                candidacy: Some(bare_candidacy(name, candidate)),
                predecessor: predecessor.clone(),
            })
        }
        ElectionEvent::Gone { name, candidate, why } => SessionReply::Lost(pb::Lost {
            name: text(name),
            token: candidate.created.0,
            reason: reason(*why),
        }),
        ElectionEvent::Moved { name, candidate, old, why } => SessionReply::Moved(pb::Moved {
            name: text(name),
            token: candidate.created.0,
            old_token: old.created.0,
            lost: old.told,
            reason: reason(*why),
        }),
        ElectionEvent::Drain { name, candidate, successor, within_ms } => {
            SessionReply::Drain(pb::Drain {
                name: text(name),
                token: candidate.created.0,
                successor: successor.clone(),
                within_ms: *within_ms,
            })
        }
        ElectionEvent::DrainCancelled { name, candidate } => {
            SessionReply::DrainCancelled(pb::DrainCancelled {
                name: text(name),
                token: candidate.created.0,
            })
        }
        ElectionEvent::SessionEnded { why, .. } => SessionReply::Ended(ended(*why)),
        _ => return None,
    })
}

/// Whether a failure means that another member may do better.
pub(super) fn is_no_quorum(failure: Failure) -> bool {
    refuse(failure).code() == tonic::Code::Unavailable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_says_its_kind_by_name() {
        for refusal in Refusal::ALL {
            let status = refuse_rule(*refusal);
            let kind = status.metadata().get(REFUSAL_TRAILER).expect("a kind").to_str().unwrap();
            let kind = pb::RefusalKind::from_str_name(kind).expect("a name of the wire");
            assert_eq!(kind as i32, *refusal as i32, "{refusal:?}");
            assert_ne!(kind, pb::RefusalKind::RefusalUnknown);
        }
    }
}
