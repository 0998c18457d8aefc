//! Configuration as files, variables and flags may have it.

use proptest::{collection::vec, prelude::*};
use tenure_damage::{damaged, damaged_text, frugally, hold};

use super::{file::items, *};

/// As etcd's own sample, and some more of what YAML can say.
const SOUND: &str = "# a comment\nname: 'a'\ndata-dir: \"/tmp/\\u00e9\"\nsnapshot-count: 10000\n\
    heartbeat-interval: 100\nelection-timeout: 1000\nquota-backend-bytes: -1\n\
    listen-peer-urls: http://localhost:2380,http://localhost:2381\n\
    listen-client-urls: [http://a:1, \"http://b:2\"]\ninitial-cluster: >-\n  a=http://h:1,\n  b=http://h:2\n\
    client-transport-security:\n  cert-file: ~\n  auto-tls: false\nlog-outputs:\n  - stderr\n  - x\n\
    auto-compaction-retention: \"1h\"\ncorrupt-check-time: 60000000000\nanchor: &a b\nalias: *a\n";

fn flag() -> impl Strategy<Value = String> {
    let known: Vec<&str> = all_names().collect();
    prop_oneof![6 => prop::sample::select(known).prop_map(str::to_owned), 1 => "[a-z-]{1,12}"]
}

fn value() -> impl Strategy<Value = String> {
    let sound = prop_oneof![
        Just("true"),
        Just("18446744073709551615"),
        Just("-9223372036854775808"),
        Just("1h30m"),
        Just("http://127.0.0.1:2379"),
        Just("a=http://h:1,b=http://h:2"),
        Just("info,tenure=debug"),
        Just("periodic"),
        Just("99999999999999h"),
        Just("existing"),
    ];
    damaged_text(sound.prop_map(str::to_owned))
}

#[test]
fn settings_files_that_are_damaged_are_refused_or_read() {
    hold(400, damaged_text(Just(SOUND.to_owned())), |text| {
        let _ = frugally(text.len(), || items(&text).map(drop));
        Ok(())
    });
}

/// The whole way of a file, through the settings to what a server would be started with.
#[test]
fn settings_of_a_damaged_file_are_refused_or_read() {
    hold(100, damaged(Just(SOUND.as_bytes().to_vec())), |bytes| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes[..]).unwrap();
        let config_file = Some(file.path().to_owned());
        let flags = Flags { config_file, print_config: false, given: BTreeMap::new() };
        frugally(bytes.len(), || {
            let mut settings = Settings::collect(&flags, std::iter::empty());
            let _ = settings.read();
        });
        Ok(())
    });
}

#[test]
fn settings_values_that_are_damaged_are_refused_or_read() {
    let given = vec((flag(), value(), any::<u8>()), 0..6);
    hold(600, given, |given| {
        let bytes: usize = given.iter().map(|(flag, value, _)| flag.len() + value.len()).sum();
        let mut environment = Vec::new();
        let mut flags = Flags { config_file: None, print_config: false, given: BTreeMap::new() };
        for (flag, value, by) in given {
            let variable = flag.to_uppercase().replace('-', "_");
            match by % 3 {
                0 => environment.push((format!("ETCD_{variable}"), value)),
                1 => environment.push((format!("TENURE_{variable}"), value)),
                _ => drop(flags.given.insert(flag, value)),
            }
        }
        environment.retain(|(name, _)| !name.ends_with("CONFIG_FILE"));
        // Whatever is wrong in a list is told in a sentence of its own.
        frugally(4 * bytes, || {
            let mut settings = Settings::collect(&flags, environment.into_iter());
            let serving = settings.read();
            let sound = serving.config.problems().is_empty();
            prop_assert!(sound || !settings.problems.is_empty(), "a broken rule was not told");
            Ok(())
        })
    });
}
