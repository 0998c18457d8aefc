//! A member's log as rows that people and programs can read: what `tenure debug wal` writes.

use std::fmt::Write;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Serialize;
use tenure_api::{
    Compare, CompareResult, CompareTarget, DeleteRange, LeaseId, MemberId, Op, Principal, Put,
    Span, Txn, op::PutLease,
};
use tenure_replica::{
    Entry, EntryContent, EntryKind, HardState, SnapshotMark,
    command::{Attributed, Command, ElectionCommand, MemberChange},
};

use crate::disk::{Record, inspect::FoundRecord};

/// The longest piece of a key or value that is shown in text; JSON has all of it.
const SHOWN_BYTES: usize = 64;

/// One record of the log.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub enum Row {
    /// A segment begins.
    Start {
        /// Where it is.
        #[serde(flatten)]
        place: RecordPosition,
        /// The index of the entry that follows.
        next_index: u64,
        /// Term, vote and commit index at that time.
        #[serde(flatten)]
        vote: Vote,
    },
    /// Term, vote or commit index changed.
    HardState {
        /// Where it is.
        #[serde(flatten)]
        place: RecordPosition,
        /// What they became.
        #[serde(flatten)]
        vote: Vote,
    },
    /// A snapshot was installed; the log starts anew after it.
    Snapshot {
        /// Where it is.
        #[serde(flatten)]
        place: RecordPosition,
        /// Which snapshot.
        #[serde(flatten)]
        mark: Mark,
    },
    /// An entry.
    Entry {
        /// Where it is.
        #[serde(flatten)]
        place: RecordPosition,
        /// Its index.
        index: u64,
        /// The term in which it was proposed.
        term: u64,
        /// `commands`, `membership`, or `empty` for a new raft leader's first.
        kind: &'static str,
        /// A later record replaced it.
        replaced: bool,
        /// The raft leader's clock when it was proposed, in milliseconds since 1970; 0 if unknown.
        clock_ms: u64,
        /// Its batches.
        batches: Vec<BatchRow>,
        /// Why its content cannot be read.
        #[serde(skip_serializing_if = "Option::is_none")]
        unreadable: Option<String>,
    },
}

/// Where a record is.
#[derive(Clone, Debug, Serialize)]
pub struct RecordPosition {
    /// The segment's file name.
    pub file: String,
    /// The first byte.
    pub offset: u64,
    /// The number of the batch that it was written with.
    pub batch: u64,
}

/// Term, vote and commit index.
#[derive(Clone, Debug, Serialize)]
pub struct Vote {
    /// The newest term seen.
    pub term: u64,
    /// The member that got this member's vote in it, in hexadecimal.
    pub vote: Option<String>,
    /// Up to where the log is known to be committed.
    pub commit: u64,
}

/// Where in the log a snapshot stands.
#[derive(Clone, Debug, Serialize)]
pub struct Mark {
    /// The last entry that it contains.
    pub index: u64,
    /// That entry's term.
    pub term: u64,
    /// The members with a vote, in hexadecimal.
    pub voters: Vec<String>,
    /// The members without.
    pub learners: Vec<String>,
}

/// Commands of one member that are applied together, at most once.
#[derive(Clone, Debug, Serialize)]
pub struct BatchRow {
    /// The member that took the requests, in hexadecimal.
    pub origin: String,
    /// How often its data directory had been opened.
    pub boot: u64,
    /// The batch's number since then.
    pub sequence: u64,
    /// The commands.
    pub commands: Vec<CommandRow>,
}

/// One command.
#[derive(Clone, Debug, Serialize)]
pub struct CommandRow {
    /// What it does, in one word.
    pub command: &'static str,
    /// Who asked for it: `system`, or a user's name; none if nobody said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The key, in base64, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The value, in base64, if it writes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The lease that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<i64>,
    /// The whole command for people, long values cut.
    pub text: String,
}

impl Row {
    /// Reads a record.
    pub fn of(found: &FoundRecord) -> Row {
        let file = found.file.file_name().map(|name| name.to_string_lossy().into_owned());
        let place = RecordPosition {
            file: file.unwrap_or_default(),
            offset: found.offset,
            batch: found.batch,
        };
        match &found.record {
            Record::Start { next_index, hard_state } => {
                Row::Start { place, next_index: *next_index, vote: vote(hard_state) }
            }
            Record::HardState(hard_state) => Row::HardState { place, vote: vote(hard_state) },
            Record::Snapshot(snapshot) => Row::Snapshot { place, mark: Mark::of(snapshot) },
            Record::Entry(read) => entry(place, read, found.replaced),
        }
    }

    /// The index that it is about; none if it is about no entry.
    pub fn index(&self) -> Option<u64> {
        match self {
            Row::Entry { index, .. } => Some(*index),
            Row::Snapshot { mark, .. } => Some(mark.index),
            Row::Start { .. } | Row::HardState { .. } => None,
        }
    }

    /// One line for people.
    pub fn line(&self) -> String {
        match self {
            Row::Start { place, next_index, vote } => {
                format!("{place} segment starts before entry {next_index}, {vote}")
            }
            Row::HardState { place, vote } => format!("{place} state {vote}"),
            Row::Snapshot { place, mark } => format!("{place} snapshot installed, {mark}"),
            Row::Entry { place, index, term, kind, replaced, batches, unreadable, .. } => {
                let mut line = format!("{place} entry {index} term {term} {kind}");
                if *replaced {
                    line.push_str(" (replaced)");
                }
                if let Some(cause) = unreadable {
                    let _ = write!(line, " unreadable: {cause}");
                }
                let commands = batches.iter().flat_map(|batch| &batch.commands);
                for (number, command) in commands.enumerate() {
                    line.push_str(if number == 0 { ": " } else { "; " });
                    line.push_str(&command.text);
                }
                line
            }
        }
    }
}

impl std::fmt::Display for RecordPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.offset)
    }
}

impl std::fmt::Display for Vote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let vote = self.vote.as_deref().unwrap_or("none");
        write!(f, "term {} vote {vote} commit {}", self.term, self.commit)
    }
}

impl std::fmt::Display for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "index {} term {} voters {}", self.index, self.term, self.voters.join(","))?;
        if !self.learners.is_empty() {
            write!(f, " learners {}", self.learners.join(","))?;
        }
        Ok(())
    }
}

impl Mark {
    /// Reads a snapshot's mark.
    pub fn of(mark: &SnapshotMark) -> Mark {
        let names = |members: &[MemberId]| members.iter().map(ToString::to_string).collect();
        let (voters, learners) = (names(&mark.voters), names(&mark.learners));
        Mark { index: mark.index, term: mark.term.0, voters, learners }
    }
}

fn vote(hard_state: &HardState) -> Vote {
    Vote {
        term: hard_state.term.0,
        vote: hard_state.vote.map(|member| member.to_string()),
        commit: hard_state.commit,
    }
}

fn entry(place: RecordPosition, entry: &Entry, replaced: bool) -> Row {
    let kind = match entry.kind {
        EntryKind::Membership => "membership",
        EntryKind::Commands if entry.data.is_empty() => "empty",
        EntryKind::Commands => "commands",
    };
    let (content, unreadable) = match EntryContent::of(entry) {
        Ok(content) => (content, None),
        Err(cause) => (EntryContent { clock_ms: 0, batches: vec![] }, Some(cause.to_string())),
    };
    let batches = content.batches.iter().map(|batch| BatchRow {
        origin: batch.origin.to_string(),
        boot: batch.boot,
        sequence: batch.sequence,
        commands: batch.commands.iter().map(command).collect(),
    });
    Row::Entry {
        place,
        index: entry.index,
        term: entry.term.0,
        kind,
        replaced,
        clock_ms: content.clock_ms,
        batches: batches.collect(),
        unreadable,
    }
}

fn command(attributed: &Attributed) -> CommandRow {
    let Attributed { by, command } = attributed;
    let by = match by {
        Principal::Anonymous => None,
        Principal::Unproven => Some("unproven".to_owned()),
        Principal::User { name, .. } => Some(name.to_string()),
        Principal::System => Some("system".to_owned()),
    };
    let mut row =
        CommandRow { command: "", by, key: None, value: None, lease: None, text: String::new() };
    let base64 = |bytes: &[u8]| Some(BASE64_STANDARD.encode(bytes));
    let (name, rest) = match command {
        Command::Put(put) => {
            row.key = base64(&put.key);
            row.value = put.value.as_deref().and_then(base64);
            if let PutLease::Set(Some(lease)) = put.lease {
                row.lease = Some(lease.0);
            }
            ("put", put_text(put))
        }
        Command::DeleteRange(delete) => {
            row.key = base64(delete.span.start());
            ("delete", span_text(&delete.span))
        }
        Command::Txn(txn) => ("txn", txn_text(txn)),
        Command::Compact(revision) => ("compact", revision.0.to_string()),
        Command::LeaseGrant { id, ttl_secs } => {
            row.lease = Some(id.0);
            ("lease-grant", format!("{} {ttl_secs}s", lease_text(*id)))
        }
        Command::LeaseRevoke(id) => {
            row.lease = Some(id.0);
            ("lease-revoke", lease_text(*id))
        }
        Command::LeaseEndUnused { id, ttl_secs } => {
            row.lease = Some(id.0);
            ("lease-end-unused", format!("{} {ttl_secs}s", lease_text(*id)))
        }
        Command::LeaseRenew(id) => {
            row.lease = Some(id.0);
            ("lease-renew", lease_text(*id))
        }
        Command::LeaseExpire(term, expiries) => {
            let each = expiries.iter().map(|one| {
                format!("{} (last renewed at entry {})", lease_text(one.id), one.renewed_at)
            });
            ("lease-expire", format!("judged in term {}: {}", term.0, join(each)))
        }
        Command::Publish { member, name, client_urls, command_version, .. } => {
            let urls = client_urls.join(",");
            ("publish", format!("{member} {name} at {urls}, command version {command_version}"))
        }
        Command::ClusterVersion(version) => ("cluster-version", version.to_string()),
        Command::Members(change) => return change_row(row, change),
        Command::MembersRefused(refusal) => ("member-change-refused", format!("{refusal:?}")),
        Command::LetGo(member) => ("member-let-go", member.to_string()),
        Command::RaiseAlarm(alarm) => ("alarm-raise", format!("{:?} {}", alarm.kind, alarm.member)),
        Command::LowerAlarm(alarm) => ("alarm-lower", format!("{:?} {}", alarm.kind, alarm.member)),
        Command::Audit => ("audit", String::new()),
        // Passwords and tokens hide themselves.
        Command::Auth(command) => ("auth", format!("{command:?}")),
        Command::Election(line) => {
            row.lease = line_lease(line).map(|lease| lease.0);
            (line_name(line), format!("{line:?}"))
        }
    };
    row.command = name;
    row.text = if rest.is_empty() { name.to_owned() } else { format!("{name} {rest}") };
    row
}

fn change_row(mut row: CommandRow, change: &MemberChange) -> CommandRow {
    let (name, urls) = match change {
        MemberChange::Add { peer_urls, is_learner: false, .. } => {
            ("member-add", peer_urls.join(","))
        }
        MemberChange::Add { peer_urls, .. } => ("member-add-learner", peer_urls.join(",")),
        MemberChange::Invite { peer_urls, .. } => ("member-invite", peer_urls.join(",")),
        MemberChange::Promote(_) => ("member-promote", String::new()),
        MemberChange::Update { peer_urls, .. } => ("member-update", peer_urls.join(",")),
        MemberChange::Remove(_) => ("member-remove", String::new()),
    };
    row.command = name;
    row.text = format!("{name} {} {urls}", change.member()).trim_end().to_owned();
    row
}

fn line_name(command: &ElectionCommand) -> &'static str {
    match command {
        ElectionCommand::Open { .. } => "session-open",
        ElectionCommand::Attach { .. } => "session-attach",
        ElectionCommand::End { .. } => "session-end",
        ElectionCommand::Request { .. } => "session-request",
        ElectionCommand::Admin(_) => "operator",
        ElectionCommand::Overdue(..) => "overdue",
    }
}

fn line_lease(command: &ElectionCommand) -> Option<LeaseId> {
    match command {
        ElectionCommand::Open { id, .. }
        | ElectionCommand::Attach { id, .. }
        | ElectionCommand::End { id, .. } => Some(*id),
        ElectionCommand::Request { session, .. } => Some(*session),
        ElectionCommand::Admin(_) | ElectionCommand::Overdue(..) => None,
    }
}

fn put_text(put: &Put) -> String {
    let value = put.value.as_ref().map_or_else(|| "(same value)".to_owned(), |v| shown(v));
    let lease = match put.lease {
        PutLease::Set(None) => String::new(),
        PutLease::Set(Some(lease)) => format!(" lease {}", lease_text(lease)),
        PutLease::Keep => " (same lease)".to_owned(),
    };
    format!("{} {value}{lease}", shown(&put.key))
}

fn delete_text(delete: &DeleteRange) -> String {
    format!("delete {}", span_text(&delete.span))
}

fn txn_text(txn: &Txn) -> String {
    let steps = |ops: &[Op]| join(ops.iter().map(op_text));
    let conditions = join(txn.compare.iter().map(compare_text));
    format!("if [{conditions}] then [{}] else [{}]", steps(&txn.success), steps(&txn.failure))
}

fn op_text(op: &Op) -> String {
    match op {
        Op::Range(range) => format!("get {}", span_text(&range.span)),
        Op::Put(put) => format!("put {}", put_text(put)),
        Op::DeleteRange(delete) => delete_text(delete),
        Op::Txn(txn) => format!("txn {}", txn_text(txn)),
    }
}

fn compare_text(compare: &Compare) -> String {
    let relation = match compare.result {
        CompareResult::Equal => "=",
        CompareResult::Greater => ">",
        CompareResult::Less => "<",
        CompareResult::NotEqual => "!=",
    };
    let key = span_text(&compare.span);
    match &compare.target {
        CompareTarget::Version(version) => format!("version {key} {relation} {version}"),
        CompareTarget::Create(revision) => format!("create {key} {relation} {}", revision.0),
        CompareTarget::Mod(revision) => format!("mod {key} {relation} {}", revision.0),
        CompareTarget::Value(value) => format!("value {key} {relation} {}", shown(value)),
        CompareTarget::Lease(lease) => {
            let lease = lease.map_or_else(|| "none".to_owned(), lease_text);
            format!("lease {key} {relation} {lease}")
        }
    }
}

fn span_text(span: &Span) -> String {
    match span {
        Span::One(key) => shown(key),
        Span::From(key) => format!("from {}", shown(key)),
        Span::Between(first, end) => format!("{}..{}", shown(first), shown(end)),
    }
}

fn lease_text(lease: LeaseId) -> String {
    format!("{:x}", lease.0)
}

/// Bytes in quotes, cut if they are many.
fn shown(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(SHOWN_BYTES)];
    let mut text = format!("\"{}\"", cut.escape_ascii());
    if bytes.len() > cut.len() {
        let _ = write!(text, "… ({} bytes)", bytes.len());
    }
    text
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use tenure_api::{Revision, Term};
    use tenure_replica::command::Expiry;

    #[test]
    fn log_rows_say_each_command_in_one_line() {
        let put = Put {
            key: Bytes::from_static(b"k\n"),
            value: Some(vec![b'x'; 100].into()),
            lease: PutLease::Set(Some(LeaseId(26))),
            prev_kv: false,
        };
        let compare = Compare {
            span: Span::One(Bytes::from_static(b"k")),
            result: CompareResult::Equal,
            target: CompareTarget::Mod(Revision(7)),
        };
        let range = tenure_api::Range::all(Span::One(Bytes::from_static(b"k")));
        let txn = Txn {
            compare: vec![compare],
            success: vec![Op::Put(put.clone())],
            failure: vec![Op::Range(range)],
        };
        let expiry = Expiry { id: LeaseId(26), renewed_at: 9 };
        for (given, expected) in [
            (
                Command::Put(put),
                format!("put \"k\\n\" \"{}\"… (100 bytes) lease 1a", "x".repeat(64)),
            ),
            (
                Command::Txn(txn),
                format!(
                    "txn if [mod \"k\" = 7] then [put \"k\\n\" \"{}\"… (100 bytes) lease 1a] else [get \"k\"]",
                    "x".repeat(64)
                ),
            ),
            (Command::LeaseGrant { id: LeaseId(26), ttl_secs: 5 }, "lease-grant 1a 5s".to_owned()),
            (
                Command::LeaseExpire(Term(3), vec![expiry]),
                "lease-expire judged in term 3: 1a (last renewed at entry 9)".to_owned(),
            ),
            (
                Command::Members(MemberChange::Remove(MemberId(255))),
                format!("member-remove {}", MemberId(255)),
            ),
            (Command::Audit, "audit".to_owned()),
        ] {
            let row = command(&Attributed { by: Principal::System, command: given });
            assert_eq!((&row.text, row.by.as_deref()), (&expected, Some("system")));
            assert!(row.text.starts_with(row.command));
        }
    }
}
