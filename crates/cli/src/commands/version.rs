//! Show the versions of this program and of the API it speaks.

use std::io::{Write, stdout};

use crate::exit::Exit;

/// etcd's API, as of which release we speak it.
const API_VERSION: &str = "3.5";

/// Writes them as etcdctl does.
pub(crate) fn run() -> anyhow::Result<Exit> {
    writeln!(
        stdout(),
        "tenure version: {}\nAPI version: {API_VERSION}",
        env!("CARGO_PKG_VERSION")
    )?;
    Ok(Exit::Done)
}
