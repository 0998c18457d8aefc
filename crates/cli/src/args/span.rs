//! Keys, ranges of keys and lease ids on the command line.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use bytes::Bytes;
use tenure::api::{Span, span::after_prefix};

use crate::exit::usage;

/// One key, or a range of them.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SpanArgs {
    /// The key, or the first of a range
    pub(crate) key: OsString,
    /// The key after the last of the range
    pub(crate) range_end: Option<OsString>,
    /// All keys that begin with KEY
    #[arg(long)]
    pub(crate) prefix: bool,
    /// All keys from KEY on
    #[arg(long)]
    pub(crate) from_key: bool,
}

impl SpanArgs {
    /// The keys meant. An empty prefix means all of them.
    pub(crate) fn span(&self) -> anyhow::Result<Span> {
        let key = bytes(self.key.clone());
        match (&self.range_end, self.prefix, self.from_key) {
            (_, true, true) => {
                Err(usage("`--prefix` and `--from-key` cannot be set at the same time, choose one"))
            }
            (Some(_), true, _) | (Some(_), _, true) => Err(usage(
                "too many arguments: `--prefix` and `--from-key` take one key and no range end",
            )),
            (Some(end), false, false) => Ok(Span::Between(key, bytes(end.clone()))),
            // The wire has no empty key; everything begins at the zero byte.
            (None, true, _) | (None, _, true) if key.is_empty() => Ok(everything()),
            (None, true, false) => Ok(match after_prefix(&key) {
                Some(end) => Span::Between(key, end),
                None => Span::From(key),
            }),
            (None, false, true) => Ok(Span::From(key)),
            (None, false, false) => Ok(Span::One(key)),
        }
    }
}

fn everything() -> Span {
    Span::From(Bytes::from_static(b"\0"))
}

/// The bytes that were typed, text or not.
pub(crate) fn bytes(typed: OsString) -> Bytes {
    typed.into_vec().into()
}

/// A lease id is written in hexadecimal, as every output shows it.
pub(crate) fn lease_id(text: &str) -> Result<i64, String> {
    i64::from_str_radix(text, 16)
        .map_err(|_| format!("bad lease ID {text:?}: it is a hexadecimal number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(key: &str, end: Option<&str>, prefix: bool, from_key: bool) -> anyhow::Result<Span> {
        let range_end = end.map(Into::into);
        SpanArgs { key: key.into(), range_end, prefix, from_key }.span()
    }

    #[test]
    fn span_flags_choose_the_range() {
        assert_eq!(span("a", None, false, false).unwrap(), Span::One("a".into()));
        assert_eq!(
            span("a", Some("c"), false, false).unwrap(),
            Span::Between("a".into(), "c".into())
        );
        assert_eq!(span("a", None, true, false).unwrap(), Span::Between("a".into(), "b".into()));
        assert_eq!(span("a", None, false, true).unwrap(), Span::From("a".into()));
    }

    #[test]
    fn span_of_an_empty_prefix_is_everything() {
        assert_eq!(span("", None, true, false).unwrap(), everything());
        assert_eq!(span("", None, false, true).unwrap(), everything());
    }

    #[test]
    fn span_refuses_contradictions() {
        assert!(span("a", None, true, true).is_err());
        assert!(span("a", Some("b"), true, false).is_err());
        assert!(span("a", Some("b"), false, true).is_err());
    }
}
