//! What may be typed.

mod candidate;
mod client;
mod examples;
mod formats;
#[cfg(test)]
mod fuzz;
mod overview;
mod slip;
mod span;
mod tls;
mod user;

pub(crate) use candidate::{CandidateArgs, patience};
pub(crate) use client::{ClientArgs, Settings};
pub(crate) use formats::check as check_format;
pub(crate) use overview::{command, whole};
pub(crate) use slip::typed;
pub(crate) use span::{SpanArgs, bytes, lease_id};
pub(crate) use tenure::api::duration::{duration, whole_seconds};
pub(crate) use tls::TlsFiles;
pub(crate) use user::secret_variables;

use clap::Parser;

use crate::commands::Command;

/// Leader election, locks and keys: one server, one client, etcd's API.
#[derive(Debug, Parser)]
#[command(name = "tenure", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn arguments_fit_together() {
        Cli::command().debug_assert();
    }

    /// Flags of the client stand beside arguments of every verb; none may take the other's name.
    #[test]
    fn arguments_of_every_verb_can_be_read() {
        for line in [
            "put k v --lease 1a --prev-kv",
            "--endpoints a:1 put k v --if-revision 3 --ttl 10s -w json",
            "get k --prefix --key k.pem --order descend --sort-by MODIFY",
            "del a c --user ann:x --password y",
            "txn -i",
            "watch k --prefix --rev 3",
            "lease grant 60",
            "lease keep-alive --once 1a",
            "user add ann --no-password",
            "user add ann:x -w json",
            "user add ann --new-user-password x --user root:y",
            "user passwd ann --interactive=false",
            "user get ann --detail",
            "user grant-role ann ops",
            "role grant-permission ops readwrite a b",
            "role grant-permission ops campaign nightly/",
            "role revoke-permission ops a --from-key",
            "auth enable --password-file f --user root",
            "auth status -w table",
            "member list -w table",
            "member add n2 --peer-urls=http://h:1 --learner",
            "member remove 8e9e05c52164694d",
            "member update 1a --peer-urls http://h:1",
            "member promote 1a",
            "status -w table",
            "snapshot save backup.db --endpoints a:1",
            "snapshot status backup.db -w json",
            "snapshot restore backup.db --data-dir d --name a --initial-cluster a=http://h:1 --bump-revision 7",
            "endpoint health --cluster -w json",
            "endpoint status --cluster",
            "endpoint hashkv --rev 7",
            "alarm list",
            "alarm disarm",
            "compact 7 --physical",
            "compaction 7",
            "move-leader 8211f1d0f64f3269",
            "defrag --cluster",
            "import --from etcd.db --data-dir n1 --name n1 --initial-cluster n1=http://a:2380",
            "sidecar --election jobs --healthz leader --ready-when-leader --ttl 5s --endpoints a:1",
            "sidecar --election jobs --observe-only --status-file s.json",
            "fence --upstream http://h:1/base --state f --resource-path 2 --patience 1s --endpoints a:1",
            "fence --upstream http://h:1 --in-memory --no-cluster --header X-Epoch --threads 2",
            "debug wal d --from 1 --to 9 --summary -w json",
            "version",
        ] {
            let words = std::iter::once("tenure").chain(line.split(' '));
            let read = Cli::try_parse_from(words);
            assert!(read.is_ok(), "{line}: {}", read.unwrap_err());
        }
    }
}
