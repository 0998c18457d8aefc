//! The one table of exit codes.

use std::io;
use std::process::ExitCode;

use tenure::grpc::ClientError;
use tenure::{EngineError, SessionError};
use tenure_server::{StartError, Stopped, disk::DiskError, import::ImportError};

use crate::guardian::Ending;

/// How the command ended, for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// It did not work; stderr says why.
    Error,
    /// It was not asked for properly.
    Usage,
    /// A condition did not hold: not written, not leader, lock not taken.
    NotTaken,
    /// Leadership or a lock was lost while it was held.
    Lost,
    /// This member was removed from its cluster; starting it again changes nothing.
    Removed,
    /// No server could be reached, or none that has a quorum.
    Unreachable,
    /// No answer in time.
    TimedOut,
    /// The command that was to be run is no program.
    NotExecutable,
    /// There is no such command.
    NotFound,
    /// Interrupted from the keyboard.
    Interrupted,
    /// Ended by a signal: our own end, or that of the command that was run.
    Signal(u8),
    /// The exit code of the command that was run, or one that the user chose.
    Code(u8),
}

impl Exit {
    /// The number.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Error => 1,
            Exit::Usage => 2,
            Exit::NotTaken => 3,
            Exit::Lost => 4,
            Exit::Removed => 5,
            Exit::Unreachable => 69,
            Exit::TimedOut => 124,
            Exit::NotExecutable => 126,
            Exit::NotFound => 127,
            Exit::Interrupted => 130,
            Exit::Signal(number) => number.saturating_add(128),
            Exit::Code(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

impl Exit {
    /// The exit code of a command is ours.
    pub(crate) fn of_ending(ending: Ending) -> Exit {
        match ending {
            Ending::Code(code) => Exit::Code(code),
            Ending::Signal(signal) => Exit::Signal(signal),
        }
    }

    /// The code for an error that ended a command.
    pub(crate) fn of(error: &anyhow::Error) -> Exit {
        if is_closed_pipe(error) {
            return Exit::Done;
        }
        if error.is::<UsageError>() {
            return Exit::Usage;
        }
        if let Some(StartError::Settings(_) | StartError::Disk(DiskError::NotOurs { .. })) =
            error.downcast_ref()
        {
            return Exit::Usage;
        }
        if matches!(error.downcast_ref(), Some(StartError::Removed(_)))
            || matches!(error.downcast_ref(), Some(Stopped::Removed(_)))
        {
            return Exit::Removed;
        }
        if let Some(ImportError::Settings(_)) = error.downcast_ref() {
            return Exit::Usage;
        }
        if let Some(SessionError::Settings { .. }) = error.downcast_ref() {
            return Exit::Usage;
        }
        if let Some(SessionError::Engine(EngineError::Unavailable { .. })) = error.downcast_ref() {
            return Exit::Unreachable;
        }
        match error.downcast_ref::<ClientError>() {
            Some(ClientError::Unreachable { .. } | ClientError::NoQuorum { .. }) => {
                Exit::Unreachable
            }
            Some(ClientError::TimedOut { .. }) => Exit::TimedOut,
            Some(ClientError::Endpoint { .. }) => Exit::Usage,
            _ => Exit::Error,
        }
    }
}

/// What was typed makes no sense, in a way that only a command can tell.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Shorthand for the commands.
pub(crate) fn usage(text: impl Into<String>) -> anyhow::Error {
    UsageError(text.into()).into()
}

/// The reader of our output has seen enough, as in `tenure get … | head -1`.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_of_an_error_is_what_scripts_expect() {
        let unreachable =
            ClientError::Unreachable { endpoints: "a:1".into(), cause: "refused".into() };
        assert_eq!(Exit::of(&unreachable.into()), Exit::Unreachable);
        assert_eq!(Exit::of(&usage("no")), Exit::Usage);
        assert_eq!(Exit::of(&anyhow::anyhow!("no")), Exit::Error);
        let pipe = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(Exit::of(&anyhow::Error::from(pipe).context("writing")), Exit::Done);
    }
}
