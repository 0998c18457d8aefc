//! What to do next, after something went wrong.

use tenure::grpc::ClientError;
use tenure::{EngineError, RefusalKind, SessionError};

use crate::exit::{Exit, is_closed_pipe};

const IS_ONE_RUNNING: &str =
    "is a server running? start one with: tenure serve (or name others: --endpoints)";
const SEE_MEMBERS: &str = "see how the members are: tenure status";

/// Says what went wrong and what to do about it, on stderr; answers with the exit code.
pub(crate) fn report(error: &anyhow::Error) -> Exit {
    if !is_closed_pipe(error) {
        eprintln!("Error: {error:#}");
        if let Some(next) = next_step(error) {
            eprintln!("{next}");
        }
    }
    Exit::of(error)
}

pub(crate) fn next_step(error: &anyhow::Error) -> Option<&'static str> {
    if let Some(SessionError::Engine(EngineError::Unavailable { text })) = error.downcast_ref() {
        // All that is left of the client's error is its text.
        return Some(if text.starts_with("no quorum") { SEE_MEMBERS } else { IS_ONE_RUNNING });
    }
    match error.downcast_ref::<ClientError>()? {
        ClientError::Unreachable { .. } => Some(IS_ONE_RUNNING),
        ClientError::TimedOut { outcome_unknown: false, .. } => {
            Some("allow more time with --command-timeout, or ask the members: tenure status")
        }
        ClientError::TimedOut { outcome_unknown: true, .. }
        | ClientError::NoQuorum { outcome_unknown: true, .. }
        | ClientError::OutcomeUnknown { .. } => {
            Some("read back what is there before trying again: tenure get KEY")
        }
        ClientError::Unavailable { .. } | ClientError::NoQuorum { outcome_unknown: false, .. } => {
            Some(SEE_MEMBERS)
        }
        ClientError::Refused { text, .. } | ClientError::LoginFailed { text, .. } => about(text),
        // It says so itself.
        ClientError::Denied { .. } => None,
        ClientError::ElectionRefused { kind, .. } => about_line(*kind),
        ClientError::Endpoint { .. } => Some("for example: --endpoints 127.0.0.1:2379"),
    }
}

/// What the rules of elections and locks leave one to do.
fn about_line(kind: RefusalKind) -> Option<&'static str> {
    Some(match kind {
        RefusalKind::StockCandidateAhead => {
            "it came by etcd's means, or is a candidate for several names at once; tenure evict is harder"
        }
        RefusalKind::NoSuchCandidate => "see the candidates: tenure candidates NAME",
        RefusalKind::TransferUnderWay => {
            "it ends when the leader has stopped or its time is over: tenure candidates NAME"
        }
        RefusalKind::CandidateUnhealthy => "choose another one: tenure candidates NAME",
        RefusalKind::NameFrozen => "let candidates lead again: tenure resume NAME",
        RefusalKind::NestedName => "see which names are in use: tenure locks",
        RefusalKind::SessionGone => "all sessions: tenure sessions",
        _ => return None,
    })
}

/// Keyed by etcd's texts, which are part of its contract.
fn about(text: &str) -> Option<&'static str> {
    const TABLE: [(&str, &str); 22] = [
        (
            "requested lease not found",
            "it has expired or was revoked; all leases: tenure lease list",
        ),
        ("has been compacted", "history before that revision is gone; ask for a newer one"),
        ("is a future revision", "leave --rev out to read the newest"),
        ("key is not provided", "give a key, or --prefix \"\" for all of them"),
        ("permission denied", "see what the user may do: tenure user get NAME --detail"),
        ("user name is empty", "this cluster has users: give --user NAME and --password-file FILE"),
        ("invalid auth token", "the token is not accepted (any more): log in with --user NAME"),
        ("invalid user ID or password", "check --user and its password"),
        ("given for no password user", "this user proves itself by its certificate: --cert, --key"),
        ("root user does not exist", "add it first: tenure user add root"),
        ("role name not found", "all roles: tenure role list"),
        ("user name not found", "all users: tenure user list"),
        (
            "database space exceeded",
            "delete keys and compact: the alarm ends when there is room again",
        ),
        ("member not found", "see who belongs to the cluster: tenure member list"),
        ("member ID already exist", "see who belongs to the cluster: tenure member list"),
        ("Peer URLs already exists", "another member is reached there: tenure member list"),
        ("given member URLs are invalid", "one URL for each member, as http://HOST:PORT"),
        (
            "not enough started members",
            "start the members that were added, or remove them again: tenure member list",
        ),
        (
            "unhealthy cluster",
            "nothing was changed: too many members are out of reach; see tenure status",
        ),
        (
            "in sync with leader",
            "wait until it has started and caught up; its log and /readyz tell how far it is",
        ),
        ("too many learner members", "promote or remove the other learner first"),
        ("bad leader transferee", "the members that can lead: tenure status"),
    ];
    TABLE.iter().find(|(part, _)| text.contains(part)).map(|(_, next)| *next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_on_a_refused_transfer_follows_its_kind() {
        let error = ClientError::ElectionRefused {
            kind: RefusalKind::StockCandidateAhead,
            code: tenure::grpc::Code::FailedPrecondition,
            text: "no".to_owned(),
        };
        let next = next_step(&anyhow::Error::from(error).context("transfer")).unwrap();
        assert!(next.contains("tenure evict"), "{next}");
    }

    #[test]
    fn advice_on_etcds_refusals_follows_their_texts() {
        let error = ClientError::Refused {
            code: tenure::grpc::Code::NotFound,
            text: tenure::api::Failure::LeaseNotFound.text().into(),
        };
        assert!(next_step(&error.into()).unwrap().contains("tenure lease list"));
    }
}
