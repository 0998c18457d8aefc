//! `--print-config`: the settings in force, as a file that gives the same again.

use std::io::{self, Write};

use super::{SETTINGS, Settings};

/// Writes every setting with its value and, as a comment, where that came from.
pub(in crate::commands::serve) fn print(
    settings: &Settings,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut group = "";
    for setting in SETTINGS.iter().filter(|setting| !setting.is_hidden()) {
        if setting.group != group {
            let gap = if group.is_empty() { "" } else { "\n" };
            group = setting.group;
            writeln!(out, "{gap}# {group}")?;
        }
        let given = settings.effective(setting);
        writeln!(out, "{}: {} # {}", setting.flag, quoted(&given.text), given.origin.remark())?;
    }
    Ok(())
}

/// Plain where YAML cannot take it for anything else, in double quotes otherwise.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let starts_well = text.chars().next().is_some_and(|c| c.is_ascii_alphanumeric() || c == '/');
    if starts_well && text.chars().all(plain) && text != "null" {
        return text.to_owned();
    }
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
