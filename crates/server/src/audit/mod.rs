//! The audit log: who asked for which change, from where, and what came of it.
//!
//! One JSON object a line for each request that concerns an election, a session, a member, a user, a role, the switch of
//! users or the log itself; reads, keys and renewals are not in it. It is written by the member that was asked, after the
//! outcome is known, and never holds a value, a password or a token. `record` says what is in a line, [`file`] keeps the
//! files and rotates them.
//!
//! No request waits for it. Lines go to a thread of their own; if that cannot keep up with `LINES_WAITING_MAX`, lines are
//! left out, and the next line that is written says how many.

mod file;
mod record;

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread::JoinHandle,
};

use tenure_api::{Failure, Principal};
use tenure_replica::{Answer, Operation};

pub use self::file::AuditError;
use self::{file::LogFile, record::Record};
use crate::admission::Admitted;

/// Lines that may wait to be written.
const LINES_WAITING_MAX: usize = 10_000;
/// Size of a file, unless it is set.
pub const FILE_BYTES: u64 = 64 << 20;
/// Files that are kept besides the one that is written.
const FILES_KEPT: usize = 4;

/// Where an audit log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditTarget {
    /// To standard error, among other lines.
    Stderr,
    /// To a file, which is replaced when it has so many bytes.
    File(PathBuf, u64),
}

/// The audit log of this member, if it has one. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Audit(Option<Arc<Open>>);

#[derive(Debug)]
struct Open {
    /// The member's name.
    member: String,
    lines: Mutex<Option<SyncSender<String>>>,
    lost: Arc<AtomicU64>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Audit {
    /// Opens it. `member` is this member's name.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn open(member: &str, target: &AuditTarget) -> Result<Audit, AuditError> {
        let out = LogFile::open(target, FILES_KEPT)?;
        let (lines, waiting) = sync_channel(LINES_WAITING_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let known = lost.clone();
        let writer = std::thread::Builder::new().name("audit".into());
        let writer =
            writer.spawn(move || write(waiting, out, &known)).map_err(AuditError::Thread)?;
        Ok(Audit(Some(Arc::new(Open {
            member: member.to_owned(),
            lines: Mutex::new(Some(lines)),
            lost,
            writer: Mutex::new(Some(writer)),
        }))))
    }

    /// What is to be told of a request once its outcome is known; nothing of most.
    pub(crate) fn begin(&self, by: &Admitted, op: &Operation) -> Option<Pending> {
        let open = self.0.as_ref()?;
        let record = Record::of(op)?.by(by.principal(), by.link().from());
        Some(Pending { open: open.clone(), record: Some(record) })
    }

    /// A login that came to nothing. One that succeeds is a request like others.
    pub(crate) fn login_failed(&self, user: &str, from: Option<&str>, why: &str) {
        let Some(open) = &self.0 else { return };
        let record = Record::login(user).by(&Principal::Anonymous, from);
        open.line(record.refused(why).line(&open.member));
    }
}

/// A request whose outcome is not known yet. Dropped before it is, it is told as unknown: the request goes on, and its
/// client is gone.
#[derive(Debug)]
pub(crate) struct Pending {
    open: Arc<Open>,
    record: Option<Record>,
}

impl Pending {
    /// This came of it.
    pub(crate) fn came_to(mut self, outcome: &Result<Answer, Failure>) {
        if let Some(record) = self.record.take() {
            self.open.line(record.came_to(outcome).line(&self.open.member));
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            self.open.line(record.unknown("the client has gone").line(&self.open.member));
        }
    }
}

impl Open {
    fn line(&self, line: String) {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        match lines.as_ref().map(|lines| lines.try_send(line)) {
            Some(Ok(())) => {}
            Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) | None => {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// What waits is written before the member ends.
impl Drop for Open {
    fn drop(&mut self) {
        self.lines.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let writer = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            let _ = writer.join();
        }
    }
}

/// Writes lines until no more can come.
fn write(waiting: Receiver<String>, mut out: LogFile, lost: &AtomicU64) {
    while let Ok(first) = waiting.recv() {
        let mut lines = first + "\n";
        while let Ok(next) = waiting.try_recv() {
            lines += &next;
            lines.push('\n');
        }
        let missing = lost.swap(0, Ordering::Relaxed);
        if missing > 0 {
            lines += &record::lost(missing);
            lines.push('\n');
        }
        out.write(lines.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use tenure_api::{LeaseId, MemberId, Principal, Proof};
    use tenure_replica::{
        Consistency, Read,
        command::{AdminCommand, Command, ElectionCommand, MemberChange},
    };

    use super::*;

    fn opened(bytes_max: u64) -> (tempfile::TempDir, Audit) {
        let dir = tempfile::tempdir().unwrap();
        let target = AuditTarget::File(dir.path().join("audit.log"), bytes_max);
        let audit = Audit::open("n1", &target).unwrap();
        (dir, audit)
    }

    fn lines(dir: &tempfile::TempDir, file: &str) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(dir.path().join(file)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn freeze(name: &str) -> Operation {
        let admin = AdminCommand::Freeze(name.to_owned().into());
        Operation::Write(Command::Election(ElectionCommand::Admin(admin)))
    }

    fn ann() -> Admitted {
        Admitted::in_process(Principal::User {
            name: "ann".into(),
            auth_revision: 7,
            proof: Proof::Held,
        })
    }

    #[test]
    fn audit_line_says_who_asked_for_what_and_what_came_of_it() {
        let (dir, audit) = opened(FILE_BYTES);
        let pending = audit.begin(&ann(), &freeze("nightly/job")).unwrap();
        pending.came_to(&Err(Failure::NoLeader));
        drop(audit.begin(&ann(), &freeze("other")));
        let change = MemberChange::Remove(MemberId(0xa1));
        let remove = Operation::Write(Command::Members(change));
        let by = Admitted::in_process(Principal::Anonymous);
        audit.begin(&by, &remove).unwrap().came_to(&Err(Failure::MemberNotFound));
        audit.login_failed("bob", Some("10.0.0.1:99"), "wrong password");
        drop(audit);
        let lines = lines(&dir, "audit.log");
        assert_eq!(lines.len(), 4);
        let of =
            |line: usize, field: &str| lines[line][field].as_str().unwrap_or_default().to_owned();
        assert_eq!(of(0, "user"), "ann");
        assert_eq!(of(0, "action"), "election.freeze");
        assert_eq!(lines[0]["election"], "nightly/job");
        assert_eq!((of(0, "member"), of(0, "outcome")), ("n1".to_owned(), "refused".to_owned()));
        assert_eq!(of(0, "why"), "etcdserver: no leader");
        assert_eq!(of(1, "outcome"), "unknown");
        assert_eq!(
            (of(2, "action"), of(2, "target")),
            ("member.remove".to_owned(), "a1".to_owned())
        );
        assert!(lines[2].get("user").is_none(), "{}", lines[2]);
        assert_eq!(
            (of(3, "action"), of(3, "from")),
            ("auth.login".to_owned(), "10.0.0.1:99".to_owned())
        );
        assert!(
            of(0, "time").ends_with('Z') && of(0, "time").len() == "2026-11-19T21:00:00.000Z".len()
        );
    }

    #[test]
    fn audit_log_leaves_out_what_changes_nothing_and_renewals() {
        let (_dir, audit) = opened(FILE_BYTES);
        let read = Operation::Read(Read::Members, Consistency::Serializable);
        assert!(audit.begin(&ann(), &read).is_none());
        let renewal = Operation::Write(Command::LeaseRenew(LeaseId(1)));
        assert!(audit.begin(&ann(), &renewal).is_none());
        assert!(Audit::default().begin(&ann(), &freeze("a")).is_none(), "there is no audit log");
    }

    #[test]
    fn audit_file_is_replaced_when_it_is_full_and_old_ones_go() {
        let (dir, audit) = opened(400);
        for n in 0..40 {
            audit
                .begin(&ann(), &freeze(&format!("job-{n}")))
                .unwrap()
                .came_to(&Err(Failure::NoLeader));
            // One write a line, so that every file is filled.
            while audit.0.as_ref().unwrap().lost.load(Ordering::Relaxed) > 0 {}
        }
        drop(audit);
        let names: Vec<_> = {
            let entries = std::fs::read_dir(dir.path()).unwrap();
            let mut names: Vec<_> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        assert!(names.len() <= 1 + FILES_KEPT, "{names:?}");
        assert!(names.iter().any(|name| name == "audit.log"), "{names:?}");
        let last = lines(&dir, "audit.log");
        assert_eq!(last.last().unwrap()["election"], "job-39");
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(dir.path().join("audit.log")).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);
    }
}
