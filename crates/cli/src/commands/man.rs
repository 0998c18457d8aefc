//! Man pages, from the same source as the help.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Command;
use clap_mangen::Man;

use crate::args;
use crate::exit::Exit;

/// Where to.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Write a page for every verb into this directory; without it, the main page goes to stdout
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  tenure man | man -l -                          read the main page
  tenure man --dir ~/.local/share/man/man1       install them all: man tenure-elect
";

/// Writes the pages.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let Some(dir) = &args.dir else {
        let main = pages().pop().map(|(_, page)| page).unwrap_or_default();
        std::io::stdout().lock().write_all(&main)?;
        return Ok(Exit::Done);
    };
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let pages = pages();
    for (name, page) in &pages {
        let path = dir.join(name);
        fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    eprintln!("{} pages in {}", pages.len(), dir.display());
    Ok(Exit::Done)
}

/// Every page with the name of its file; the main one is the last.
fn pages() -> Vec<(String, Vec<u8>)> {
    let mut whole = args::whole().disable_help_subcommand(true);
    whole.build();
    let mut pages = Vec::new();
    collect(whole, &mut pages);
    pages
}

fn collect(command: Command, pages: &mut Vec<(String, Vec<u8>)>) {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        collect(verb.clone(), pages);
    }
    let man = Man::new(command);
    let mut page = Vec::new();
    man.render(&mut page).expect("memory can be written to");
    pages.push((man.get_filename(), page));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn man_has_a_page_for_every_verb() {
        let pages = pages();
        let names: Vec<&str> = pages.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names.last(), Some(&"tenure.1"));
        for verb in args::whole().get_subcommands() {
            let page = format!("tenure-{}.1", verb.get_name());
            assert!(names.contains(&&page[..]), "{page} is not in {names:?}");
        }
        assert!(names.contains(&"tenure-lease-grant.1"));
        let mut twice = names.clone();
        twice.sort_unstable();
        twice.dedup();
        assert_eq!(twice.len(), names.len(), "no page overwrites another");
    }
}
