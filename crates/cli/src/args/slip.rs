//! Slips in flags: which one was meant.
//!
//! clap suggests what is spelt alike, so that `--wait` becomes `--watchdog`. What begins with the word that was typed, or
//! is the beginning of it, is nearer.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command, Error};

use super::command;

/// What was typed. Ends the process if it cannot be read, or if it asks for help.
pub(crate) fn typed() -> ArgMatches {
    let words: Vec<_> = std::env::args_os().collect();
    let read = command().try_get_matches_from(&words);
    let verbs = words.iter().filter_map(|word| word.to_str());
    read.unwrap_or_else(|error| corrected(error, command(), verbs).exit())
}

/// The same error with a better suggestion, if there is one.
fn corrected<'a>(
    mut error: Error,
    mut whole: Command,
    words: impl Iterator<Item = &'a str>,
) -> Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    whole.build();
    let mut verb = &whole;
    for word in words.skip(1).take_while(|word| *word != "--") {
        verb = verb.find_subcommand(word).unwrap_or(verb);
    }
    let Some(ContextValue::String(slip)) = error.get(ContextKind::InvalidArg) else { return error };
    let Some(slip) = slip.strip_prefix("--").filter(|slip| !slip.is_empty()) else { return error };
    let flags = verb.get_arguments().filter(|flag| !flag.is_hide_set());
    let near = |long: &&str| long.starts_with(slip) || slip.starts_with(*long);
    let meant = flags.filter_map(|flag| flag.get_long()).filter(near).min_by_key(|long| long.len());
    if let Some(meant) = meant {
        let meant = format!("--{meant}");
        error.insert(ContextKind::SuggestedArg, ContextValue::String(meant));
        let usage = verb.clone().render_usage();
        error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &str) -> String {
        let words: Vec<_> = line.split(' ').collect();
        let error = command().try_get_matches_from(&words).unwrap_err();
        corrected(error, command(), words.into_iter()).to_string()
    }

    #[test]
    fn slip_is_corrected_by_the_flag_that_begins_alike() {
        for line in [
            "tenure run x --wait -- true",
            "tenure run x --wait-for-servers -- true",
            "tenure lock x --wait 1 -- true",
            "tenure sidecar --election x --wait-for",
        ] {
            let said = told(line);
            assert!(said.contains("'--wait-for-server'") && !said.contains("watchdog"), "{said}");
        }
        assert!(told("tenure run x --watch d -- true").contains("'--watchdog'"));
        assert!(told("tenure get x --endpoint y").contains("'--endpoints'"));
        assert!(told("tenure get x --endpiont y").contains("'--endpoints'"));
    }
}
