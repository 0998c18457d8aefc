//! A page of documentation as a play: what is typed into which terminal, and what must be seen there
//! ([`steps`]); or as one [`script`] for a shell.
//!
//! A block that begins with ` ```sh terminal=1 ` is typed into that terminal, line by line. A ` ```text `
//! block says what is then seen in the same terminal, or in the one it names (` ```text terminal=2 `).
//! `…` stands for whatever varies: in a line for any text, alone on a line for any lines. A line that
//! ends with an exit code other than 0 fails the page unless its block says so (` exit=3 `). Comments
//! that readers do not see press keys: `<!-- terminal 1: Ctrl-C -->`, `<!-- terminal 1: type l -->`. A
//! reader is slower than a test: `<!-- until: COMMAND -->` waits for what the reader takes for granted.

use std::fmt;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its line on the page.
    pub line: usize,
    /// Which terminal, from 1.
    pub terminal: usize,
    /// What happens there.
    pub act: Act,
}

/// What happens in a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Lines for the shell, and the exit code of each.
    Type(Vec<String>, i32),
    /// What must be seen.
    See(Vec<String>),
    /// Ctrl-C.
    Interrupt,
    /// A line for whatever runs in the foreground.
    Tell(String),
    /// In no terminal: what a reader is slow enough for, as a command that must succeed.
    Until(String),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, terminal {}: {:?}", self.line, self.terminal, self.act)
    }
}

/// Reads a page. Blocks without a terminal are for readers only, except for `text` behind one.
pub fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut last: Option<usize> = None;
    let mut lines = page.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if let Some(note) = line.strip_prefix("<!-- terminal ").and_then(|n| n.strip_suffix(" -->"))
        {
            let (terminal, act) = note.split_once(": ").unwrap_or_else(|| panic!("{line}"));
            let act = match act.strip_prefix("type ") {
                Some(words) => Act::Tell(words.to_owned()),
                None if act == "Ctrl-C" => Act::Interrupt,
                None => panic!("line {}: nobody knows how to {act}", at + 1),
            };
            let terminal = terminal.parse().unwrap_or_else(|_| panic!("{line}"));
            last = Some(terminal);
            steps.push(Step { line: at + 1, terminal, act });
            continue;
        }
        if let Some(until) = line.strip_prefix("<!-- until: ").and_then(|n| n.strip_suffix(" -->"))
        {
            let act = Act::Until(until.to_owned());
            steps.push(Step { line: at + 1, terminal: 0, act });
            continue;
        }
        let Some(info) = line.strip_prefix("```") else { continue };
        let body: Vec<String> =
            lines.by_ref().map(|(_, line)| line.to_owned()).take_while(|l| l != "```").collect();
        let word = |name: &str| info.split(' ').find_map(|word| word.strip_prefix(name));
        let named = word("terminal=").map(|number| number.parse().expect("a terminal's number"));
        let code = word("exit=").map_or(0, |code| code.parse().expect("an exit code"));
        let (terminal, act) = match (info.split(' ').next(), named, last) {
            (Some("sh"), Some(terminal), _) => (terminal, Act::Type(body, code)),
            (Some("text"), Some(terminal), _) | (Some("text"), None, Some(terminal)) => {
                (terminal, Act::See(body))
            }
            _ => {
                last = None;
                continue;
            }
        };
        last = Some(terminal);
        steps.push(Step { line: at + 1, terminal, act });
    }
    steps
}

/// One part of a page: from its heading of the second level to the next.
pub fn section<'a>(page: &'a str, title: &str) -> &'a str {
    let heading = format!("\n## {title}\n");
    let (_, rest) = page.split_once(&heading).unwrap_or_else(|| panic!("no {heading:?}"));
    rest.split("\n## ").next().unwrap_or(rest)
}

/// The shell blocks of a page as one script, also those in lists. A comment `<!-- runbook: kill n3 -->` does what
/// the text takes for granted, to the process whose id is in `$pid_n3`; any other command after `runbook:` is run as it stands.
pub fn script(page: &str) -> String {
    let mut script =
        String::from("set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n");
    let mut inside: Option<usize> = None;
    for line in page.lines() {
        let plain = line.trim_start();
        match (plain, inside) {
            ("```sh", _) => inside = Some(line.len() - plain.len()),
            ("```", _) => inside = None,
            (_, Some(indent)) => {
                let line = line.get(indent..).unwrap_or_default();
                // What a failing command was is seen in its line before.
                if !line.starts_with(' ') {
                    script.push_str(&format!("echo {} >&2\n", quoted(line)));
                }
                script.push_str(line);
                script.push('\n');
            }
            (note, None) => {
                let note = note.strip_prefix("<!-- runbook: ");
                match note.and_then(|note| note.strip_suffix(" -->")) {
                    Some(note) if note.starts_with("kill ") => {
                        script.push_str(&format!("kill -9 $pid_{}\n", &note["kill ".len()..]));
                    }
                    Some(command) => script.push_str(&format!("{command}\n")),
                    None => {}
                }
            }
        }
    }
    script
}

fn quoted(line: &str) -> String {
    format!("'+ {}'", line.replace('\'', r"'\''"))
}

/// Whether what is seen is what the page says. Spaces and tabs are all the same.
pub fn fits(wanted: &[String], seen: &[String]) -> bool {
    match wanted.split_first() {
        None => seen.is_empty(),
        Some((any, rest)) if any.trim() == "…" => {
            (0..=seen.len()).any(|skipped| fits(rest, &seen[skipped..]))
        }
        Some((line, rest)) => seen
            .split_first()
            .is_some_and(|(first, more)| line_fits(line, first) && fits(rest, more)),
    }
}

fn line_fits(wanted: &str, seen: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (wanted, seen) = (plain(wanted), plain(seen));
    let mut parts = wanted.split('…');
    let Some(mut rest) = parts.next().and_then(|begin| seen.strip_prefix(begin)) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((end, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_page_becomes_steps() {
        let page = "words\n```sh terminal=2 exit=3\nfalse\n```\nmore\n```text\nno\n```\n\
                    <!-- terminal 1: type l -->\n<!-- terminal 2: Ctrl-C -->\n```rust\nx\n```\n\
                    ```text\nnot a step\n```\n";
        let found = steps(page);
        assert_eq!(found.len(), 4);
        assert_eq!(found[0].act, Act::Type(vec!["false".into()], 3));
        assert_eq!((found[1].terminal, &found[1].act), (2, &Act::See(vec!["no".into()])));
        assert_eq!((found[2].terminal, &found[2].act), (1, &Act::Tell("l".into())));
        assert_eq!(found[3].act, Act::Interrupt);
        assert_eq!(found[1].line, 6);
    }

    #[test]
    fn the_blocks_of_a_part_become_a_script() {
        let page = "# Page\n## One\n```sh\nno\n```\n## Two\n1. list\n\n   ```sh\n   a \\\n     b\n   ```\n\
                    \n   ```text\n   c\n   ```\n   <!-- runbook: kill n3 -->\n<!-- runbook: d -->\n## Three\n";
        let found = script(section(page, "Two"));
        let lines: Vec<_> = found.lines().skip(2).collect();
        assert_eq!(lines, [r"echo '+ a \' >&2", r"a \", "  b", "kill -9 $pid_n3", "d"]);
    }

    #[test]
    fn what_varies_is_left_open_and_nothing_else() {
        let fit = |wanted: &str, seen: &str| fits(&lines(wanted), &lines(seen));
        assert!(fit("alice leads token … for …", "alice\tleads\ttoken 3\tfor 12s"));
        assert!(!fit("alice leads token …", "bob\tleads\ttoken 3"));
        assert!(fit("a\n…\nb", "a\nx\ny\nb") && fit("a\n…\nb", "a\nb") && !fit("a\n…\nb", "a\nx"));
        assert!(!fit("a", "a\nb") && !fit("a\nb", "a") && fit("", ""));
        assert!(fit("x … y … z", "x 1 y 2 z") && !fit("x … y … z", "x 1 z"));
        assert!(!fit("ready", "ready …"), "what is seen has no wildcards");
    }
}
