//! What to do next, after something went wrong.

use tenure::grpc::ClientError;

use crate::exit::{Exit, is_closed_pipe};

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

fn next_step(error: &anyhow::Error) -> Option<&'static str> {
    match error.downcast_ref::<ClientError>()? {
        ClientError::Unreachable { .. } => {
            Some("is a server running? start one with: tenure serve (or name others: --endpoints)")
        }
        ClientError::TimedOut { outcome_unknown: false, .. } => {
            Some("allow more time with --command-timeout, or ask the members: tenure status")
        }
        ClientError::TimedOut { outcome_unknown: true, .. }
        | ClientError::OutcomeUnknown { .. } => {
            Some("read back what is there before trying again: tenure get KEY")
        }
        ClientError::Unavailable { .. } => Some("see how the members are: tenure status"),
        ClientError::Refused { text, .. } => about(text),
        ClientError::Endpoint { .. } => Some("for example: --endpoints 127.0.0.1:2379"),
    }
}

/// Keyed by etcd's texts, which are part of its contract.
fn about(text: &str) -> Option<&'static str> {
    const TABLE: [(&str, &str); 18] = [
        (
            "requested lease not found",
            "it has expired or was revoked; all leases: tenure lease list",
        ),
        ("has been compacted", "history before that revision is gone; ask for a newer one"),
        ("is a future revision", "leave --rev out to read the newest"),
        ("key is not provided", "give a key, or --prefix \"\" for all of them"),
        ("permission denied", "say who you are: --user NAME:PASSWORD"),
        ("user name is empty", "say who you are: --user NAME:PASSWORD"),
        ("invalid user ID or password", "check --user and --password"),
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
        (
            "must not be overtaken",
            "it came by etcd's means, or stands for several names at once; tenure evict is harder",
        ),
        ("bad leader transferee", "the ids of the members: tenure status"),
    ];
    TABLE.iter().find(|(part, _)| text.contains(part)).map(|(_, next)| *next)
}
