//! Show the versions of this program and of the API it speaks.

use std::io::{Write, stdout};

use crate::exit::Exit;

/// The commit that this program was built from.
pub(crate) const COMMIT: &str = env!("TENURE_COMMIT");

/// etcd's API, as of which release we speak it.
const API_VERSION: &str = "3.5";

/// How it was built: what was measured or tortured with the one says little of the other.
const BUILD: &str = if cfg!(debug_assertions) { "debug" } else { "release" };

/// Writes them as etcdctl does, and below where this program comes from.
pub(crate) fn run() -> anyhow::Result<Exit> {
    writeln!(
        stdout(),
        "tenure version: {}\nAPI version: {API_VERSION}\ncommit: {COMMIT} ({BUILD} build)",
        env!("CARGO_PKG_VERSION")
    )?;
    Ok(Exit::Done)
}
