//! What `tenure help` shows: the verbs, grouped by what one wants to do.
//!
//! clap knows the verbs and what each is for, but lists them in one long row. Here they are put into
//! groups; their words still come from clap, and a test fails for a verb that is in no group or in two.

use clap::{Arg, Command, CommandFactory};

use super::{Cli, examples};

/// What one wants to do, and the verbs for it.
const GROUPS: [(&str, &[&str]); 11] = [
    ("Start a server", &["serve", "up"]),
    ("Lead", &["run", "lock", "elect", "sidecar"]),
    ("Once for all hosts", &["once", "schedule"]),
    ("Fence off replaced leaders", &["fence"]),
    (
        "See who leads",
        &["leader", "candidates", "observe", "history", "is-leader", "locks", "sessions", "doctor"],
    ),
    ("Rule", &["resign", "transfer", "evict", "freeze", "resume"]),
    ("Keys", &["put", "get", "del", "txn", "watch", "lease"]),
    (
        "Look after a cluster",
        &[
            "status",
            "member",
            "certs",
            "endpoint",
            "alarm",
            "snapshot",
            "import",
            "compact",
            "defrag",
            "move-leader",
            "debug",
        ],
    ),
    ("Users and roles", &["user", "role", "auth"]),
    ("Understand and measure", &["lab", "bench"]),
    ("Help", &["version", "completions", "man"]),
];

/// The group of a verb that is in no other group.
const OTHERS: &str = "More";

const FIRST: &str = "\
Try these two first, each in a terminal of its own:
  tenure up                      three members on this machine
  tenure elect nightly-job       lead, or wait to";

const LAST: &str = "tenure help VERB says more about a verb, with examples.";

/// The command as it is parsed, with the overview for its help.
pub(crate) fn command() -> Command {
    let whole = whole();
    let template =
        format!("{{about}}\n\n{FIRST}\n\n{}\n{LAST}\n\n{{all-args}}\n", groups(&whole).join("\n"));
    // The list that clap would make of them is what this is instead of.
    whole.mut_subcommands(|verb| verb.hide(true)).help_template(template)
}

/// Verbs that talk to no cluster, and the client flags that they have a use for.
const OFFLINE: [(&str, &[&str]); 9] = [
    ("serve", &[]),
    ("up", &["write_out"]),
    ("import", &["write_out"]),
    ("certs", &["write_out"]),
    ("debug", &["write_out"]),
    ("lab", &["write_out"]),
    ("version", &["write_out"]),
    ("completions", &[]),
    ("man", &[]),
];

/// The command with all its verbs in sight: for completions and man pages.
pub(crate) fn whole() -> Command {
    let mut command = Cli::command();
    let of_clients: Vec<Arg> = command.get_arguments().cloned().collect();
    for (verb, wanted) in OFFLINE {
        let useless = of_clients.iter().filter(|flag| !wanted.contains(&flag.get_id().as_str()));
        // They may still be given, before any verb.
        let hidden: Vec<Arg> = useless.map(|flag| flag.clone().hide(true)).collect();
        command = command.mut_subcommand(verb, |verb| verb.args(hidden));
    }
    for (verb, text) in examples::TABLE {
        command = command.mut_subcommand(verb, |verb| verb.after_long_help(*text));
    }
    command
}

/// Each group as text.
fn groups(command: &Command) -> Vec<String> {
    let visible: Vec<&Command> =
        command.get_subcommands().filter(|verb| !verb.is_hide_set()).collect();
    let width = visible.iter().map(|verb| verb.get_name().len()).max().unwrap_or(0);
    let line = |verb: &Command| {
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        format!("  {:width$}  {about}\n", verb.get_name())
    };
    let mut texts: Vec<String> = GROUPS
        .iter()
        .map(|(heading, verbs)| {
            let known = verbs.iter().filter_map(|verb| {
                visible.iter().find(|known| known.get_name() == *verb).map(|known| line(known))
            });
            format!("{heading}:\n{}", known.collect::<String>())
        })
        .collect();
    let grouped =
        |verb: &&&Command| GROUPS.iter().any(|(_, verbs)| verbs.contains(&verb.get_name()));
    let others: String =
        visible.iter().filter(|verb| !grouped(verb)).map(|verb| line(verb)).collect();
    if !others.is_empty() {
        texts.push(format!("{OTHERS}:\n{others}"));
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;

    #[test]
    fn overview_has_every_verb_in_exactly_one_group() {
        let command = Cli::command();
        let visible: Vec<&str> = command
            .get_subcommands()
            .filter(|verb| !verb.is_hide_set())
            .map(Command::get_name)
            .collect();
        let grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        for verb in &visible {
            let times = grouped.iter().filter(|one| *one == verb).count();
            assert_eq!(times, 1, "{verb} is in {times} groups of args/overview.rs");
        }
        for verb in &grouped {
            assert!(visible.contains(verb), "{verb} stands in args/overview.rs and does not exist");
        }
    }

    #[test]
    fn overview_says_what_every_verb_is_for() {
        let help = command().render_long_help().to_string();
        for verb in Cli::command().get_subcommands() {
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(!about.is_empty(), "{} does not say what it is for", verb.get_name());
            let line = help.lines().find(|line| {
                line.trim_start().starts_with(&format!("{} ", verb.get_name()))
                    && line.ends_with(&about)
            });
            assert!(line.is_some(), "{} is not in the overview:\n{help}", verb.get_name());
        }
        assert!(!help.contains(OTHERS), "{help}");
        assert!(help.contains("--endpoints"), "{help}");
    }

    /// Every example is a line that can be typed.
    #[test]
    fn help_examples_can_be_read() {
        let mut read = 0;
        for verb in whole().get_subcommands() {
            let Some(text) = verb.get_after_long_help() else { continue };
            for line in text.to_string().lines().map(str::trim) {
                if !line.starts_with("tenure ") {
                    continue;
                }
                let typed = line.split("  ").next().unwrap_or(line);
                let typed = typed.split([';', '<', '>', '|', '&']).next().unwrap_or(typed);
                let matches = command().try_get_matches_from(typed.split_whitespace());
                let matches = matches.unwrap_or_else(|error| panic!("{line}: {error}"));
                assert!(Cli::from_arg_matches(&matches).is_ok(), "{line}");
                read += 1;
            }
        }
        assert!(read > 40, "only {read} examples");
    }

    fn help(verb: &str, long: bool) -> String {
        let mut whole = command();
        whole.build();
        let verb = whole.find_subcommand_mut(verb).expect("it exists");
        let help = if long { verb.render_long_help() } else { verb.render_help() };
        help.to_string()
    }

    #[test]
    fn short_help_has_what_is_used_every_day_and_long_help_the_rest() {
        for (verb, lines_max) in [("run", 45), ("lock", 45), ("elect", 30)] {
            let short = help(verb, false);
            assert!(short.lines().count() <= lines_max, "{verb}: {short}");
            assert!(short.contains("--timeout") && short.contains("--endpoints"), "{short}");
            assert!(!short.contains("--cacert") && !short.contains("--priority"), "{short}");
        }
        let long = help("run", true);
        for part in ["Waiting:", "The candidate:", "The command:", "When it is lost:", "--cacert"] {
            assert!(long.contains(part), "{part} is not in {long}");
        }
    }

    #[test]
    fn help_of_verbs_without_a_cluster_has_no_client_options() {
        for verb in ["serve", "version", "lab", "completions", "import"] {
            let help = help(verb, true);
            assert!(!help.contains("--endpoints") && !help.contains("--cacert"), "{help}");
        }
        assert!(help("version", true).contains("--write-out"));
        for line in ["tenure version --endpoints a", "tenure --endpoints a lab list -w json"] {
            assert!(command().try_get_matches_from(line.split(' ')).is_ok(), "{line}");
        }
    }

    #[test]
    fn help_of_the_first_verbs_has_examples() {
        let whole = whole();
        let begin =
            ["serve", "up", "elect", "leader", "observe", "transfer", "put", "get", "watch"];
        for verb in begin {
            let verb = whole.find_subcommand(verb).expect("it exists");
            assert!(verb.get_after_long_help().is_some(), "{}", verb.get_name());
        }
    }
}
