//! A value and where it came from.

use std::path::PathBuf;

/// A setting's value, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) text: String,
    pub(super) origin: Origin,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Flag,
    /// The variable's name.
    Environment(String),
    /// Where in the configuration file, and under which key.
    File {
        path: PathBuf,
        line: usize,
        key: String,
    },
    Default,
}

impl Origin {
    /// In front of a complaint about the value.
    pub(super) fn place(&self, flag: &str) -> String {
        match self {
            Origin::Flag | Origin::Default => format!("--{flag}"),
            Origin::Environment(name) => name.clone(),
            Origin::File { path, line, key } => format!("{}:{line}: {key}", path.display()),
        }
    }

    /// Behind the value in `--print-config`.
    pub(super) fn remark(&self) -> String {
        match self {
            Origin::Flag => "flag".to_owned(),
            Origin::Environment(name) => name.clone(),
            Origin::File { path, line, .. } => format!("{}:{line}", path.display()),
            Origin::Default => "default".to_owned(),
        }
    }
}
