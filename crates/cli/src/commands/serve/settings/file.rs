//! The configuration file: YAML with etcd's keys, which are the names of the flags.
//!
//! etcd's own files work as they are. A list is the same as its items with commas between; a key
//! without a value is not set; the TLS settings may stand in etcd's two sections.

use std::path::Path;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};

use super::{Given, Origin, Settings, all_names, similar};

/// etcd's sections, and what their keys are called as flags.
const SECTIONS: [(&str, &str); 2] =
    [("client-transport-security", ""), ("peer-transport-security", "peer-")];

/// Takes everything the file says.
pub(super) fn collect(path: &Path, settings: &mut Settings) {
    let shown = path.display();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(cause) => return settings.problems.push(format!("--config-file: {shown}: {cause}")),
    };
    let items = match items(&text) {
        Ok(items) => items,
        Err(Unreadable { line, why }) => {
            return settings.problems.push(format!("{shown}:{line}: {why}"));
        }
    };
    for Item { line, key, text } in items {
        let origin = Origin::File { path: path.to_owned(), line, key: key.clone() };
        if settings.take(&flag_of(&key), Given { text, origin }) {
            continue;
        }
        let hint = similar(&key, all_names()).map(|meant| format!("; did you mean {meant}?"));
        let hint = hint.unwrap_or_default();
        settings.problems.push(format!("{shown}:{line}: {key}: there is no such setting{hint}"));
    }
}

fn flag_of(key: &str) -> String {
    let inside = |(section, prefix): &(&str, &str)| {
        let key = key.strip_prefix(section)?.strip_prefix('.')?;
        // These two are called otherwise there.
        let side = if prefix.is_empty() { "client-" } else { *prefix };
        Some(match key {
            "allowed-cn" | "allowed-hostname" => format!("{side}cert-{key}"),
            _ => format!("{prefix}{key}"),
        })
    };
    SECTIONS.iter().find_map(inside).unwrap_or_else(|| key.to_owned())
}

#[derive(Debug, PartialEq)]
pub(super) struct Item {
    line: usize,
    /// With its section in front, if it stands in one.
    key: String,
    text: String,
}

#[derive(Debug, PartialEq)]
pub(super) struct Unreadable {
    line: usize,
    why: String,
}

impl From<ScanError> for Unreadable {
    fn from(error: ScanError) -> Unreadable {
        Unreadable { line: error.marker().line(), why: error.info().to_owned() }
    }
}

/// The file as a flat list of keys and values, in order.
pub(super) fn items(text: &str) -> Result<Vec<Item>, Unreadable> {
    let mut events = Events(Parser::new_from_str(text));
    let mut items = Vec::new();
    loop {
        let (event, line) = events.next()?;
        match event {
            Event::MappingStart(..) => break,
            Event::StreamStart | Event::DocumentStart(_) => {}
            // Nothing but comments.
            Event::StreamEnd | Event::DocumentEnd => return Ok(items),
            Event::Scalar(nothing, ..) if nothing.is_empty() || nothing == "~" => {}
            _ => return Err(Unreadable { line, why: "must be a list of KEY: VALUE".to_owned() }),
        }
    }
    events.mapping("", &mut items)?;
    Ok(items)
}

struct Events<'a>(Parser<'a, saphyr_parser::StrInput<'a>>);

impl<'a> Events<'a> {
    fn next(&mut self) -> Result<(Event<'a>, usize), Unreadable> {
        match self.0.next() {
            Some(Ok((event, span))) => Ok((event, span.start.line())),
            Some(Err(error)) => Err(error.into()),
            None => Ok((Event::StreamEnd, 0)),
        }
    }

    /// Reads on to the end of a mapping whose beginning was just read.
    fn mapping(&mut self, section: &str, items: &mut Vec<Item>) -> Result<(), Unreadable> {
        loop {
            let (key, line) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(()),
                (Event::Scalar(key, ..), line) => (format!("{section}{key}"), line),
                (_, line) => return Err(Unreadable { line, why: "a key must be a word".into() }),
            };
            match self.next()? {
                (Event::Scalar(text, style, ..), _) => {
                    let unset = style == ScalarStyle::Plain
                        && (text.is_empty() || text == "~" || text == "null");
                    if !unset {
                        items.push(Item { line, key, text: text.into_owned() });
                    }
                }
                (Event::SequenceStart(..), _) => {
                    let text = self.list(&key)?;
                    items.push(Item { line, key, text });
                }
                (Event::MappingStart(..), _) if section.is_empty() => {
                    self.mapping(&format!("{key}."), items)?;
                }
                (_, line) => {
                    return Err(Unreadable { line, why: format!("{key} must have a plain value") });
                }
            }
        }
    }

    fn list(&mut self, key: &str) -> Result<String, Unreadable> {
        let mut parts = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(parts.join(",")),
                (Event::Scalar(text, ..), _) => parts.push(text.into_owned()),
                (_, line) => {
                    return Err(Unreadable { line, why: format!("{key} must be a list of words") });
                }
            }
        }
    }
}
