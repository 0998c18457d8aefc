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
    script
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
}
