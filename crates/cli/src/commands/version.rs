//! Show the versions of this program and of the API it speaks.

use serde::Serialize;

use crate::args::ClientArgs;
use crate::exit::Exit;
use crate::output::Output;

/// The commit that this program was built from.
pub(crate) const COMMIT: &str = env!("TENURE_COMMIT");

/// etcd's API, as of which release we speak it.
const API_VERSION: &str = "3.5";

/// How it was built: what was measured or tortured with the one says little of the other.
const BUILD: &str = if cfg!(debug_assertions) { "debug" } else { "release" };

#[derive(Serialize)]
struct Versions {
    version: &'static str,
    api_version: &'static str,
    commit: &'static str,
    build: &'static str,
}

/// Writes them as etcdctl does, and below where this program comes from.
pub(crate) fn run(client: ClientArgs) -> anyhow::Result<Exit> {
    let version = env!("CARGO_PKG_VERSION");
    let versions = Versions { version, api_version: API_VERSION, commit: COMMIT, build: BUILD };
    let mut output = Output::stdout(&client.settings()?);
    output.records([versions], |_| {
        format!(
            "tenure version: {version}\nAPI version: {API_VERSION}\ncommit: {COMMIT} ({BUILD} build)"
        )
    })?;
    output.flush()?;
    Ok(Exit::Done)
}
