//! Settings from the environment: `TENURE_` and the flag in capitals with `_`, then `ETCD_`.

use std::{collections::BTreeMap, path::PathBuf};

use super::{Given, Origin, Settings, all_names, similar};

/// Ours comes last, so that it wins.
const PREFIXES: [&str; 2] = ["ETCD_", "TENURE_"];
const CONFIG_FILE: &str = "CONFIG_FILE";

pub(super) fn config_file(environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    let named = |prefix| environment.get(&format!("{prefix}{CONFIG_FILE}"));
    PREFIXES.iter().rev().find_map(named).map(PathBuf::from)
}

pub(super) fn collect(environment: &BTreeMap<String, String>, settings: &mut Settings) {
    for prefix in PREFIXES {
        for (name, text) in environment {
            let Some(rest) = name.strip_prefix(prefix).filter(|rest| *rest != CONFIG_FILE) else {
                continue;
            };
            let flag = rest.to_lowercase().replace('_', "-");
            let origin = Origin::Environment(name.clone());
            if !settings.take(&flag, Given { text: text.clone(), origin }) {
                settings.warnings.extend(stranger(prefix, name, &flag));
            }
        }
    }
}

/// Variables of ours may be meant for the client or for tests, so only one that looks like a slip is
/// worth a word. etcd names every one with its prefix that it does not know.
fn stranger(prefix: &str, name: &str, flag: &str) -> Option<String> {
    match similar(flag, all_names()) {
        Some(meant) => {
            let meant = format!("{prefix}{}", meant.to_uppercase().replace('-', "_"));
            Some(format!("{name} is not a setting; did you mean {meant}?"))
        }
        None if prefix == "ETCD_" => Some(format!("{name} is not a setting")),
        None => None,
    }
}
