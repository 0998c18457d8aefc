//! Compare, then do one or the other, all at once.
//!
//! Three blocks are read from stdin, each ended by an empty line or the end of input: comparisons,
//! what to do if all of them hold, what to do if not. The language is etcdctl's:
//!
//! ```text
//! mod("job") = "0"
//!
//! put job "mine"
//!
//! get job
//!
//! ```

mod compare;
#[cfg(test)]
mod fuzz;
mod words;

use std::ffi::OsString;
use std::io::{self, BufRead};
use std::os::unix::ffi::OsStringExt;

use clap::{Parser, Subcommand};
use tenure::api::wire::etcdserverpb as pb;
use tenure::api::wire::etcdserverpb::request_op::Request;

use super::{del, get, put};
use crate::args::Settings;
use crate::exit::{Exit, usage};
use crate::output::Output;

/// How to read it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Ask for each block
    #[arg(short, long)]
    interactive: bool,
}

/// Reads a transaction from stdin, has it done, and writes the answer.
pub(crate) async fn run(args: Args, settings: Settings) -> anyhow::Result<Exit> {
    let prompt = |text: &str| {
        if args.interactive {
            eprintln!("{text}");
        }
    };
    let request = read(&mut io::stdin().lock(), prompt)?;
    let response = settings.client().kv().txn(request).await?;
    let mut output = Output::stdout(&settings);
    output.txn(&response)?;
    output.flush()?;
    Ok(Exit::Done)
}

fn read(input: &mut impl BufRead, prompt: impl Fn(&str)) -> anyhow::Result<pb::TxnRequest> {
    prompt("compares:");
    let compare = block(input, |line| compare::read(line).map(Into::into))?;
    prompt("success requests (get, put, del):");
    let success = block(input, operation)?;
    prompt("failure requests (get, put, del):");
    let failure = block(input, operation)?;
    Ok(pb::TxnRequest { compare, success, failure })
}

/// Reads lines up to an empty one.
fn block<T>(
    input: &mut impl BufRead,
    read: impl Fn(&str) -> anyhow::Result<T>,
) -> anyhow::Result<Vec<T>> {
    let mut items = Vec::new();
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 && !line.trim().is_empty() {
        items.push(read(line.trim())?);
        line.clear();
    }
    Ok(items)
}

/// An operation is written like the command of the same name.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true, disable_help_subcommand = true)]
struct Line {
    #[command(subcommand)]
    operation: Operation,
}

#[derive(Subcommand)]
enum Operation {
    Get(get::Args),
    Put(put::Args),
    Del(del::Args),
}

fn operation(line: &str) -> anyhow::Result<pb::RequestOp> {
    let words = words::split(line).map_err(|problem| usage(format!("{problem}: {line}")))?;
    let line = Line::try_parse_from(words.into_iter().map(OsString::from_vec))
        .map_err(|error| usage(format!("invalid txn request: {line}\n{error}")))?;
    let request = match line.operation {
        Operation::Get(get) => Request::RequestRange(get.request()?),
        Operation::Put(put) => Request::RequestPut(put.request()?),
        Operation::Del(del) => Request::RequestDeleteRange(del.request()?),
    };
    Ok(pb::RequestOp { request: Some(request) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure::api::wire::convert;
    use tenure::api::{Compare, CompareResult, CompareTarget, Op, Revision, Span, Txn};

    fn txn(text: &str) -> anyhow::Result<Txn> {
        let request = read(&mut text.as_bytes(), |_| ())?;
        Ok(convert::txn(request).expect("what was read is well formed"))
    }

    #[test]
    fn txn_reads_three_blocks() {
        let txn =
            txn("mod(\"job\") = \"0\"\n\nput job \"it's mine\"\ndel old --prefix\n\nget job\n\n");
        let txn = txn.unwrap();
        assert_eq!(
            txn.compare,
            [Compare {
                span: Span::One("job".into()),
                result: CompareResult::Equal,
                target: CompareTarget::Mod(Revision(0)),
            }]
        );
        let [Op::Put(put), Op::DeleteRange(del)] = &txn.success[..] else {
            panic!("{:?}", txn.success)
        };
        assert_eq!(put.value.as_deref(), Some(&b"it's mine"[..]));
        assert_eq!(del.span, Span::prefix("old".into()));
        assert!(
            matches!(&txn.failure[..], [Op::Range(get)] if get.span == Span::One("job".into()))
        );
    }

    #[test]
    fn txn_blocks_may_be_empty_or_missing() {
        assert_eq!(txn("").unwrap(), Txn::default());
        let only_failure = txn("\n\nget a\n").unwrap();
        assert!(only_failure.compare.is_empty() && only_failure.success.is_empty());
        assert_eq!(only_failure.failure.len(), 1);
    }

    #[test]
    fn txn_flags_work_as_in_the_commands() {
        let txn = txn("\nput k v --lease=1a --prev-kv\nget a c --limit 2\n\n").unwrap();
        let [Op::Put(put), Op::Range(get)] = &txn.success[..] else { panic!() };
        assert!(put.prev_kv);
        assert_eq!(get.limit, Some(2));
    }

    #[test]
    fn txn_shows_what_cannot_be_read() {
        for (text, part) in [
            ("\nput k\n", "put needs a key and a value"),
            ("\nfrob k\n", "invalid txn request: frob k"),
            ("\nput k v --if-absent\n", "no place inside a transaction"),
            ("\nput \"k v\n", "put \"k v"),
            ("mod(k) = 0\n", "malformed comparison: mod(k) = 0"),
        ] {
            let error = txn(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }
}
