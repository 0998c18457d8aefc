//! Completions for a shell, from the same source as the help.

use std::io::Write;

use clap_complete::Shell;

use crate::args;
use crate::exit::Exit;

/// For which shell.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  tenure completions bash > ~/.local/share/bash-completion/completions/tenure
  tenure completions zsh > ~/.zfunc/_tenure
  tenure completions fish > ~/.config/fish/completions/tenure.fish
";

/// Writes the script to stdout.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    std::io::stdout().lock().write_all(&script(args.shell))?;
    Ok(Exit::Done)
}

// By way of memory: the generator takes a closed pipe for a reason to panic.
fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::whole(), "tenure", &mut script);
    if shell == Shell::Fish {
        script.extend(fish_positionals().into_bytes());
    }
    script
}

/// The generator for fish completes the values of flags only: here are those of arguments with a list of names.
fn fish_positionals() -> String {
    let mut lines = String::new();
    for verb in args::whole().get_subcommands() {
        for kind in verb.get_subcommands() {
            for arg in kind.get_positionals() {
                let Some(values) = arg.get_value_parser().possible_values() else { continue };
                let names: Vec<_> = values.map(|value| value.get_name().to_owned()).collect();
                let (verb, kind, names) = (verb.get_name(), kind.get_name(), names.join(" "));
                lines += &format!(
                    "complete -c tenure -n \"__fish_seen_subcommand_from {verb}; and __fish_seen_subcommand_from {kind}\" -f -a \"{names}\"\n"
                );
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn completions_know_every_verb_in_every_shell() {
        let whole = args::whole();
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script(*shell)).unwrap();
            for verb in whole.get_subcommands().filter(|verb| !verb.is_hide_set()) {
                assert!(script.contains(verb.get_name()), "{shell}: {}", verb.get_name());
            }
            assert!(script.contains("endpoints"), "{shell}");
        }
    }

    #[test]
    fn completions_know_the_names_of_the_lab() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = String::from_utf8(script(shell)).unwrap();
            for name in ["redlock-pause", "raft-kraft", "far-apart-usual"] {
                assert!(script.contains(name), "{shell}: {name}");
            }
        }
        // Help has no room for two hundred names.
        let mut whole = args::whole();
        whole.build();
        let lab = whole.find_subcommand_mut("lab").unwrap();
        let help = lab.find_subcommand_mut("run").unwrap().render_long_help().to_string();
        assert!(!help.contains("redlock-pause") && help.contains("redlock"), "{help}");
    }
}
