//! Writing results.
//!
//! The formats are etcdctl's, to the letter where scripts read them: `simple` (keys and values, one
//! a line), `fields` (a name and a value a line), `json` (one object; a line for each in a stream,
//! bytes in base64), and `table` where there is one. A file here for each family of answers; what
//! the formats have in common is in `text`, `fields`, `json` and `table`.

mod alarm;
mod auth;
mod endpoint;
mod fields;
mod json;
mod kv;
mod lease;
mod log;
mod member;
mod records;
mod snapshot;
mod status;
mod table;
mod text;
mod txn;
mod watch;

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use serde::Serialize;

use crate::args::Settings;
use crate::exit::usage;

pub(crate) use endpoint::{MemberHash, MemberHealth};
pub(crate) use kv::Show;
pub(crate) use status::{MemberStatus, NamedStatus};
pub(crate) use text::{quoted, size, visible};

/// How to write results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Keys and values, one a line
    #[default]
    Simple,
    /// Every field, one a line
    Fields,
    /// One JSON object, bytes in base64
    Json,
    /// A table, where there is one
    Table,
}

/// Where results go, and how.
pub(crate) struct Output<W> {
    out: W,
    format: Format,
    hex: bool,
    /// A person reads it: what others wrote must not move the cursor.
    on_terminal: bool,
}

impl Output<BufWriter<StdoutLock<'static>>> {
    /// Results on stdout.
    pub(crate) fn stdout(settings: &Settings) -> Self {
        let on_terminal = io::stdout().is_terminal();
        let out = BufWriter::new(io::stdout().lock());
        Output { out, format: settings.format, hex: settings.hex, on_terminal }
    }
}

impl<W: Write> Output<W> {
    /// Lets everything written so far be seen.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn json(&mut self, object: &impl Serialize) -> anyhow::Result<()> {
        // serde_json wraps IO errors; a closed pipe must stay recognisable.
        let line = serde_json::to_vec(object)?;
        self.out.write_all(&line)?;
        Ok(writeln!(self.out)?)
    }

    /// Bytes as text, on a terminal without what it would obey.
    fn shown<'a>(&self, bytes: &'a [u8]) -> std::borrow::Cow<'a, str> {
        match (String::from_utf8_lossy(bytes), self.on_terminal) {
            (text, false) => text,
            (text, true) => visible(&text).into_owned().into(),
        }
    }

    /// Bytes as they are, or in hexadecimal if asked for, and the end of the line. On a terminal without what a terminal would
    /// obey.
    fn line(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.hex {
            self.out.write_all(text::hex(bytes).as_bytes())?;
        } else if self.on_terminal {
            let text = String::from_utf8_lossy(bytes);
            self.out.write_all(text::readable(&text).as_bytes())?;
        } else {
            self.out.write_all(bytes)?;
        }
        self.out.write_all(b"\n")
    }
}

/// Some answers have no columns. Which, is checked before they are asked for.
fn no_table() -> anyhow::Error {
    usage("there is no such format for this")
}

#[cfg(test)]
mod golden {
    //! What each test writes is compared with what etcdctl 3.5.1 wrote for the same answer.

    use super::*;
    use tenure::api::wire::{etcdserverpb as pb, mvccpb};

    /// What `write` writes, in a format.
    pub(super) fn written(
        format: Format,
        write: impl FnOnce(&mut Output<Vec<u8>>) -> anyhow::Result<()>,
    ) -> String {
        let mut output = Output { out: Vec::new(), format, hex: false, on_terminal: false };
        write(&mut output).unwrap();
        String::from_utf8(output.out).unwrap()
    }

    #[test]
    fn output_on_a_terminal_has_nothing_that_it_would_obey() {
        let hostile = kv("a\x1b[2J", "line\n\tnext\x1b]0;title\x07\u{9b}1A\rover\u{202e}", 3);
        let answer = pb::RangeResponse { kvs: vec![hostile], ..Default::default() };
        for (show, on_terminal) in [(Show::All, true), (Show::ValuesOnly, true), (Show::All, false)]
        {
            let (out, format) = (Vec::new(), Format::Simple);
            let mut output = Output { out, format, hex: false, on_terminal };
            output.get(&answer, show).unwrap();
            let text = String::from_utf8(output.out).unwrap();
            let obeyed = |c: char| c.is_control() && c != '\n' && c != '\t' || c == '\u{202e}';
            assert_eq!(text.contains(obeyed), !on_terminal, "{text:?}");
            assert!(text.contains("line\n\tnext"), "{text:?}");
        }
    }

    pub(super) fn header(revision: i64) -> Option<pb::ResponseHeader> {
        Some(pb::ResponseHeader { cluster_id: 7, member_id: 8, revision, raft_term: 2 })
    }

    pub(super) fn kv(key: &'static str, value: &'static str, revision: i64) -> mvccpb::KeyValue {
        mvccpb::KeyValue {
            key: key.into(),
            value: value.into(),
            create_revision: revision,
            mod_revision: revision,
            version: 1,
            lease: 0,
        }
    }
}
