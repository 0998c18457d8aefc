//! A lost root: a process that can write to a member's data directory can read all data, and may as well set root's password.
//!
//! `tenure auth recover` leaves what bcrypt made of a new password in the data directory. When the member starts next, it
//! logs that as a command, so that all members agree, and removes the file.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use tenure_api::Principal;
use tenure_replica::{
    Operation,
    command::{AuthCommand, Command},
};
use tracing::{info, warn};

use super::passwords::{self, PASSWORD_BYTES_MAX};
use crate::{admission::Admitted, node::NodeHandle};

const FILE: &str = "recover-root";
/// How often it is tried while the cluster has no raft leader, say.
const TRY_EVERY: Duration = Duration::from_secs(1);

/// Why nothing was prepared.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// There is no member's data.
    #[error("{} is no data directory of a member", .0.display())]
    NoData(PathBuf),
    /// The password is empty, or longer than bcrypt reads.
    #[error("a password has 1 to {PASSWORD_BYTES_MAX} bytes")]
    BadPassword,
    /// It cannot be written.
    #[error("cannot write {}: {cause}", .file.display())]
    Write {
        /// Which file.
        file: PathBuf,
        /// Why.
        cause: io::Error,
    },
}

/// Leaves a new password for root in a member's data directory. It counts when that member has started and a majority of the
/// members is there.
///
/// # Errors
/// [`RecoveryError`]; nothing was changed then.
pub fn prepare_recovery(data_dir: &Path, password: &str, cost: u32) -> Result<(), RecoveryError> {
    if !data_dir.join("identity").is_file() {
        return Err(RecoveryError::NoData(data_dir.to_owned()));
    }
    if !(1..=PASSWORD_BYTES_MAX).contains(&password.len()) {
        return Err(RecoveryError::BadPassword);
    }
    let made = passwords::make(password, cost).ok_or(RecoveryError::BadPassword)?;
    let file = data_dir.join(FILE);
    let unfinished = data_dir.join(format!("{FILE}.tmp"));
    let write = || {
        let mut options = OpenOptions::new();
        let mut out =
            options.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        out.write_all(made.as_bytes())?;
        out.sync_all()?;
        fs::rename(&unfinished, &file)?;
        File::open(data_dir)?.sync_all()
    };
    write().map_err(|cause| RecoveryError::Write { file: file.clone(), cause })
}

/// Logs what was prepared, if anything was, and removes it.
pub(crate) async fn recover(data_dir: PathBuf, node: NodeHandle) {
    let file = data_dir.join(FILE);
    let password = match fs::read(&file) {
        Ok(password) => Bytes::from(password).into(),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return,
        Err(cause) => {
            warn!(%cause, file = %file.display(), "root's new password cannot be read");
            return;
        }
    };
    let command = Operation::Write(Command::Auth(AuthCommand::Recover { password }));
    let itself = Admitted::in_process(Principal::System);
    loop {
        let answer = node.ask(&itself, command.clone()).await;
        match answer.and_then(|answer| answer.result) {
            Ok(_) => break,
            Err(cause) => info!(%cause, "root's new password is not logged yet"),
        }
        tokio::select! {
            () = tokio::time::sleep(TRY_EVERY) => {}
            () = node.closed() => return,
        }
    }
    warn!("root has a new password, as was asked for in the data directory");
    if let Err(cause) = fs::remove_file(&file) {
        warn!(%cause, file = %file.display(), "remove this file: it sets root's password at each start");
    }
}

#[cfg(test)]
mod tests {
    use tenure_replica::{AuthRead, AuthReply, Consistency, PasswordCheck, Read, Reply};

    use super::*;
    use crate::{
        Server,
        auth::{Passwords, permissions::alone},
    };

    async fn is_roots_password(node: &NodeHandle, password: &str) -> bool {
        let itself = Admitted::in_process(Principal::System);
        let read = Read::Auth(AuthRead::Password("root".into()));
        let answer = node.ask(&itself, Operation::Read(read, Consistency::Linearizable)).await;
        let Ok(Reply::Auth(AuthReply::Password(PasswordCheck::Password(kept, _)))) =
            answer.unwrap().result
        else {
            panic!("root has a password")
        };
        Passwords::new(4).check(password.to_owned(), Some(kept)).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn recovery_sets_roots_password_when_the_member_starts() {
        let dir = tempfile::TempDir::new().unwrap();
        let server = Server::start(alone(&dir)).await.unwrap();
        server.node().users_ready().await.unwrap();
        let itself = Admitted::in_process(Principal::System);
        let password = Passwords::new(4).make("lost".to_owned()).await.ok();
        for command in [
            AuthCommand::UserAdd { name: "root".into(), password },
            AuthCommand::UserGrant { user: "root".into(), role: "root".into() },
            AuthCommand::Enable,
        ] {
            let request = Operation::Write(Command::Auth(command));
            server.node().ask(&itself, request).await.unwrap().result.unwrap();
        }
        assert!(is_roots_password(server.node(), "lost").await);
        server.run_until(async {}).await.unwrap();
        let data = dir.path().join("data");
        prepare_recovery(&data, "found", 4).unwrap();

        let server = Server::start(alone(&dir)).await.unwrap();
        let node = server.node();
        node.status_when(|status| status.auth.1 == 4).await;
        assert!(is_roots_password(node, "found").await);
        // It is used once.
        while data.join(FILE).exists() {
            tokio::task::yield_now().await;
        }
        server.run_until(async {}).await.unwrap();
    }

    #[test]
    fn recovery_is_prepared_only_in_a_members_data() {
        let dir = tempfile::TempDir::new().unwrap();
        let prepare = |password: &str| prepare_recovery(dir.path(), password, 4);
        assert!(matches!(prepare("new"), Err(RecoveryError::NoData(_))));
        fs::write(dir.path().join("identity"), "").unwrap();
        assert!(matches!(prepare(""), Err(RecoveryError::BadPassword)));
        prepare("new").unwrap();
        let left = fs::read_to_string(dir.path().join(FILE)).unwrap();
        assert!(left.starts_with("$2a$04$") && !left.contains("new"));
    }
}
