//! What is in a line of the audit log, and which requests have one.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tenure_api::{Failure, Principal};
use tenure_replica::{
    Answer, Operation, Outcome, Reply,
    command::{
        AdminCommand, AuthCommand, Command, ElectionCommand, MemberChange, SessionEnding,
        SessionRequest, Successor,
    },
};

/// One line.
#[derive(Debug, Serialize)]
pub(super) struct Record {
    /// When the outcome was known.
    time: String,
    /// The member that was asked.
    member: String,
    /// The user; absent for a client that has not said who it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// The client's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// What was asked, as `election.freeze`.
    action: &'static str,
    /// The election or lock; several, separated by commas, if they were joined at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    election: Option<String>,
    /// The session, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// The user, role, member or identity that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// More: a role, a right, an address.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// `ok`, `refused`, or `unknown` for what may or may not have happened.
    outcome: &'static str,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// The revision of the store at that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<i64>,
}

/// Lines that were left out.
pub(super) fn lost(lines: u64) -> String {
    format!("{{\"time\":\"{}\",\"action\":\"audit.lost\",\"lines\":{lines}}}", now())
}

impl Record {
    fn new(action: &'static str) -> Record {
        Record {
            time: String::new(),
            member: String::new(),
            user: None,
            from: None,
            action,
            election: None,
            session: None,
            target: None,
            detail: None,
            outcome: "ok",
            why: None,
            revision: None,
        }
    }

    /// Of a login, before it is known what comes of it.
    pub(super) fn login(user: &str) -> Record {
        Record { target: Some(user.to_owned()), ..Record::new("auth.login") }
    }

    /// Of a request, if it has one.
    pub(super) fn of(op: &Operation) -> Option<Record> {
        match op {
            Operation::Write(command) => of_command(command),
            Operation::CompactPhysically(revision) => Some(Record {
                detail: Some(format!("revision {}", revision.0)),
                ..Record::new("keys.compact")
            }),
            Operation::MoveLeader(member) => {
                Some(Record { target: Some(member.to_string()), ..Record::new("raft-leader.move") })
            }
            Operation::Read(..) => None,
        }
    }

    pub(super) fn by(self, by: &Principal, from: Option<&str>) -> Record {
        let user = match by {
            Principal::User { name, .. } => Some(name.to_string()),
            // A login is asked for by a stranger, and done by the member.
            Principal::System if self.action == "auth.login" => None,
            Principal::System => Some("(the cluster itself)".to_owned()),
            _ => None,
        };
        Record { user, from: from.map(str::to_owned), ..self }
    }

    pub(super) fn refused(self, why: &str) -> Record {
        Record { outcome: "refused", why: Some(why.to_owned()), ..self }
    }

    pub(super) fn unknown(self, why: &str) -> Record {
        Record { outcome: "unknown", why: Some(why.to_owned()), ..self }
    }

    pub(super) fn came_to(self, outcome: &Result<Answer, Failure>) -> Record {
        let failed = |record: Record, failure: &Failure| match failure {
            Failure::LeaderChanged
            | Failure::Stopped
            | Failure::TimedOut
            | Failure::TimedOutLeaderFailure
            | Failure::TimedOutConnectionLost => record.unknown(failure.text()),
            refusal => record.refused(refusal.text()),
        };
        match outcome {
            Err(failure) => failed(self, failure),
            Ok(answer) => {
                let record = Record { revision: Some(answer.revision.0), ..self };
                match &answer.result {
                    Err(failure) => failed(record, failure),
                    Ok(Reply::Wrote(Outcome::Election(Err(refusal)))) => {
                        record.refused(&refusal.to_string())
                    }
                    Ok(_) => record,
                }
            }
        }
    }

    pub(super) fn line(self, member: &str) -> String {
        let record = Record { time: now(), member: member.to_owned(), ..self };
        serde_json::to_string(&record).unwrap_or_default()
    }
}

fn of_command(command: &Command) -> Option<Record> {
    match command {
        Command::Election(command) => of_election(command),
        Command::Auth(command) => Some(of_auth(command)),
        Command::Members(change) => Some(of_members(change)),
        Command::LowerAlarm(alarm) => {
            Some(Record { target: Some(alarm.member.to_string()), ..Record::new("alarm.disarm") })
        }
        Command::Compact(revision) => Some(Record {
            detail: Some(format!("revision {}", revision.0)),
            ..Record::new("keys.compact")
        }),
        _ => None,
    }
}

fn of_members(change: &MemberChange) -> Record {
    let of = |action, member: &tenure_api::MemberId, urls: Option<&[String]>| Record {
        target: Some(member.to_string()),
        detail: urls.map(|urls| urls.join(",")),
        ..Record::new(action)
    };
    match change {
        MemberChange::Add { id, peer_urls, .. } | MemberChange::Invite { id, peer_urls } => {
            of("member.add", id, Some(peer_urls))
        }
        MemberChange::Promote(id) => of("member.promote", id, None),
        MemberChange::Update { id, peer_urls } => of("member.update", id, Some(peer_urls)),
        MemberChange::Remove(id) => of("member.remove", id, None),
    }
}

fn of_election(command: &ElectionCommand) -> Option<Record> {
    let hex = |id: &tenure_api::LeaseId| Some(format!("{:x}", id.0));
    Some(match command {
        ElectionCommand::Open { id, identity, .. } => Record {
            session: hex(id),
            target: Some(identity.clone()),
            ..Record::new("session.open")
        },
        ElectionCommand::Attach { id, .. } => {
            Record { session: hex(id), ..Record::new("session.attach") }
        }
        ElectionCommand::End { id, how, .. } => {
            let detail = match how {
                SessionEnding::Closed { .. } => "closed",
                SessionEnding::ConnectionLost { .. } => "connection lost",
                SessionEnding::Revoked { stopped: true } => "revoked, its work has stopped",
                _ => "revoked",
            };
            Record {
                session: hex(id),
                detail: Some(detail.to_owned()),
                ..Record::new("session.end")
            }
        }
        ElectionCommand::Request { session, request, .. } => {
            let (action, election) = match request {
                SessionRequest::Join(join) => {
                    let names: Vec<_> = join.names.iter().map(|name| text(name)).collect();
                    ("election.join", names.join(","))
                }
                SessionRequest::Leave { name, .. } => ("election.leave", text(name)),
                SessionRequest::Proclaim { name, .. } => ("election.proclaim", text(name)),
                SessionRequest::Health { name, .. } => ("election.health", text(name)),
                SessionRequest::Yield { name, .. } => ("election.yield", text(name)),
            };
            Record { session: hex(session), election: Some(election), ..Record::new(action) }
        }
        ElectionCommand::Admin(admin) => {
            let of = |action, name: &[u8], target| Record {
                election: Some(text(name)),
                target,
                ..Record::new(action)
            };
            match admin {
                AdminCommand::Transfer { name, to, .. } => {
                    let to = match to {
                        Successor::Session(id) => format!("session {:x}", id.0),
                        Successor::Identity(identity) => identity.clone(),
                    };
                    of("election.transfer", name, Some(to))
                }
                AdminCommand::Evict { name, token } => {
                    let token = token.map(|token| format!("token {}", token.0));
                    of("election.evict", name, token.or(Some("the leader".to_owned())))
                }
                AdminCommand::Freeze(name) => of("election.freeze", name, None),
                AdminCommand::Resume(name) => of("election.resume", name, None),
            }
        }
        ElectionCommand::Overdue(..) => return None,
    })
}

fn of_auth(command: &AuthCommand) -> Record {
    let of = |action, target: &str, detail: Option<String>| Record {
        target: Some(target.to_owned()),
        detail,
        ..Record::new(action)
    };
    match command {
        AuthCommand::Enable => Record::new("auth.enable"),
        AuthCommand::Disable => Record::new("auth.disable"),
        AuthCommand::LogIn { user, .. } => Record::login(user),
        AuthCommand::UserAdd { name, .. } => of("user.add", name, None),
        AuthCommand::UserDelete(name) => of("user.delete", name, None),
        AuthCommand::UserPassword { name, .. } => of("user.passwd", name, None),
        AuthCommand::UserGrant { user, role } => {
            of("user.grant-role", user, Some(format!("role {role}")))
        }
        AuthCommand::UserRevoke { user, role } => {
            of("user.revoke-role", user, Some(format!("role {role}")))
        }
        AuthCommand::RoleAdd(name) => of("role.add", name, None),
        AuthCommand::RoleDelete(name) => of("role.delete", name, None),
        AuthCommand::RoleGrant { role, permission } => {
            let what = permission.as_ref().map(|one| {
                format!("{:?} {}", one.kind, span(&one.key, &one.range_end)).to_lowercase()
            });
            of("role.grant-permission", role, what)
        }
        AuthCommand::RoleRevoke { role, key, range_end } => {
            of("role.revoke-permission", role, Some(span(key, range_end)))
        }
        AuthCommand::Recover { .. } => Record::new("auth.recover"),
    }
}

fn span(key: &[u8], end: &[u8]) -> String {
    match end {
        [] => text(key),
        [0] => format!("[{}, …", text(key)),
        end => format!("[{}, {})", text(key), text(end)),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The time for people, to the millisecond: `2026-11-19T21:05:08.123Z`.
fn now() -> String {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, millis) = (since_1970.as_secs(), since_1970.subsec_millis());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Of the Gregorian calendar, from days since 1970. Years are counted from March, so that the leap day is their last
/// (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn audit_date_follows_the_calendar() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (19_782, (2024, 2, 29)),
            (20_776, (2026, 11, 19)),
        ] {
            assert_eq!(date(days), expected, "{days}");
        }
    }
}
