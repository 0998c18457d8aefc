//! Which verbs write their results in which formats.
//!
//! What is not possible is refused before anything is done. `docs/reference/command.md` has the same table, and a test
//! compares both with what the verbs do.

use clap::{ArgMatches, ValueEnum};

use crate::exit::usage;
use crate::output::Format::{self, Fields, Json, Table};

const ALL: &[Format] = &[Fields, Json, Table];
const NO_TABLE: &[Format] = &[Fields, Json];
const JSON: &[Format] = &[Json];
const NONE: &[Format] = &[];

/// The verbs that write results, and the formats beside `simple`.
const FORMATS: &[(&str, &[Format])] = &[
    ("elect", ALL),
    ("observe", ALL),
    ("leader", ALL),
    ("candidates", ALL),
    ("history", ALL),
    ("locks", ALL),
    ("sessions", ALL),
    ("doctor", JSON),
    ("resign", ALL),
    ("transfer", ALL),
    ("evict", ALL),
    ("freeze", ALL),
    ("resume", ALL),
    ("once", ALL),
    ("schedule", ALL),
    ("put", NO_TABLE),
    ("get", ALL),
    ("del", NO_TABLE),
    ("txn", NO_TABLE),
    ("watch", NO_TABLE),
    ("lease grant", NO_TABLE),
    ("lease revoke", NO_TABLE),
    ("lease timetolive", NO_TABLE),
    ("lease keep-alive", NO_TABLE),
    ("lease list", ALL),
    ("certs create", JSON),
    ("certs show", JSON),
    ("certs check", JSON),
    ("certs renew", JSON),
    ("user list", ALL),
    ("user get", ALL),
    ("user add", NO_TABLE),
    ("user delete", NO_TABLE),
    ("user passwd", NO_TABLE),
    ("user grant-role", NO_TABLE),
    ("user revoke-role", NO_TABLE),
    ("role list", ALL),
    ("role get", ALL),
    ("role add", NO_TABLE),
    ("role delete", NO_TABLE),
    ("role grant-permission", NO_TABLE),
    ("role revoke-permission", NO_TABLE),
    ("auth status", ALL),
    ("auth enable", NO_TABLE),
    ("auth disable", NO_TABLE),
    ("auth recover", NO_TABLE),
    ("member list", ALL),
    ("member add", JSON),
    ("member promote", JSON),
    ("member update", JSON),
    ("member remove", JSON),
    ("status", ALL),
    ("endpoint health", ALL),
    ("endpoint status", ALL),
    ("endpoint hashkv", ALL),
    ("alarm list", NO_TABLE),
    ("alarm disarm", NO_TABLE),
    ("snapshot save", ALL),
    ("snapshot status", ALL),
    ("snapshot restore", JSON),
    ("compact", ALL),
    ("defrag", ALL),
    ("move-leader", ALL),
    ("debug wal", JSON),
    ("lab list", JSON),
    ("lab explain", JSON),
    ("lab run", JSON),
    ("lab replay", JSON),
    ("lab compare", JSON),
    ("lab soak", JSON),
    ("bench", JSON),
    ("up", JSON),
    ("import", NONE),
    ("version", ALL),
];

/// Refuses a format that the verb does not write.
///
/// # Errors
/// Says which formats are possible.
pub(crate) fn check(typed: &ArgMatches) -> anyhow::Result<()> {
    let mut path = Vec::new();
    let mut at = typed;
    let mut asked = None;
    while let Some((verb, matches)) = at.subcommand() {
        path.push(verb);
        at = matches;
        asked = at.try_get_one::<Format>("write_out").ok().flatten().copied().or(asked);
    }
    let place = if asked.is_some() { "--write-out" } else { "TENURE_WRITE_OUT" };
    let from_environment = || {
        let text = std::env::var("TENURE_WRITE_OUT").ok()?;
        Format::from_str(&text, true).ok()
    };
    match asked.or_else(from_environment) {
        Some(format) => {
            possible(&path.join(" "), format).map_err(|rule| usage(format!("{place}: {rule}")))
        }
        None => Ok(()),
    }
}

fn possible(path: &str, format: Format) -> Result<(), String> {
    // A verb with kinds of work, such as bench, has one row.
    let row = FORMATS.iter().find(|(verb, _)| {
        path.strip_prefix(verb).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    });
    let Some((verb, formats)) = row else { return Ok(()) };
    if format == Format::Simple || formats.contains(&format) {
        return Ok(());
    }
    let named = formats.iter().map(|format| name(*format));
    let known: Vec<_> = std::iter::once("simple".to_owned()).chain(named).collect();
    Err(format!("tenure {verb} has no format {}; there are {}", name(format), known.join(", ")))
}

fn name(format: Format) -> String {
    format.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::whole;

    #[test]
    fn format_that_a_verb_does_not_have_is_refused_with_what_it_has() {
        let error = possible("put", Table).unwrap_err();
        assert_eq!(error, "tenure put has no format table; there are simple, fields, json");
        assert!(possible("bench put", Table).is_err() && possible("bench put", Json).is_ok());
        assert!(possible("run", Table).is_ok(), "it has no results to write");
        for (verb, _) in FORMATS {
            assert!(possible(verb, Format::Simple).is_ok(), "{verb}");
        }
    }

    #[test]
    fn format_table_has_verbs_that_exist() {
        for (path, _) in FORMATS {
            let mut command = whole();
            for verb in path.split(' ') {
                let found = command.find_subcommand(verb).cloned();
                command = found.unwrap_or_else(|| panic!("tenure {path} does not exist"));
            }
        }
    }

    /// The page has the same table.
    #[test]
    fn format_table_is_that_of_the_page() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/command.md");
        let page = std::fs::read_to_string(path).unwrap();
        for (verb, formats) in FORMATS {
            let has = |format| if formats.contains(&format) { "yes" } else { "no" };
            let row = format!("| `{verb}` | {} | {} | {} |", has(Fields), has(Json), has(Table));
            assert!(page.contains(&row), "docs/reference/command.md lacks {row}");
        }
    }
}
