//! The language of the scripts. Every line is one request; what it answers, and the change it made,
//! is printed below it.
//!
//! ```text
//! put KEY VALUE [lease=N] [prev]     put KEY keep-value | keep-lease …
//! get SPAN [rev=N] [limit=N] [order=asc|desc] [sort=FIELD] [keys-only] [count-only]
//!          [min-mod=N] [max-mod=N] [min-create=N] [max-create=N]
//! del SPAN [prev]                    revoke KEY…
//! txn [if="FIELD(SPAN) = X"]… [then="REQUEST"]… [else="REQUEST"]…
//! define NAME …as txn…               then="txn NAME" nests it
//! leases N…                          these live, no others
//! compact N | sweep [N] | status | changes N | restore | max-ops N
//! ```
//! A SPAN is a key, `a..c` (c excluded), `a..` (from a on) or `a*` (prefix).

use std::{collections::BTreeMap, error::Error, fmt::Write as _};

use bytes::Bytes;
use goldenscript::{Command, Runner};
use tenure_api::{
    Compare, CompareResult, CompareTarget, DeleteRange, Event, EventKind, KeyValue, LeaseId, Op,
    OpResult, Put, Range, RangeResult, Revision, SortOrder, SortTarget, Span, Txn, TxnResult,
    op::PutLease,
};
use tenure_replica::mvcc::{Change, Restore, Store, check_txn};

type Answer<T> = Result<T, Box<dyn Error>>;

/// An argument of a command, or of a request inside a transaction.
struct Word {
    key: Option<String>,
    value: String,
}

impl Word {
    fn parse<T: std::str::FromStr<Err: Error + 'static>>(&self) -> Answer<T> {
        Ok(self.value.parse()?)
    }
}

impl From<&goldenscript::Argument> for Word {
    fn from(argument: &goldenscript::Argument) -> Word {
        Word { key: argument.key.clone(), value: argument.value.clone() }
    }
}

pub struct StoreScript {
    store: Store,
    leases: Vec<i64>,
    txns: BTreeMap<String, Txn>,
    max_ops: usize,
}

impl StoreScript {
    pub fn new() -> StoreScript {
        StoreScript { store: Store::new(), leases: Vec::new(), txns: BTreeMap::new(), max_ops: 128 }
    }
}

impl Runner for StoreScript {
    fn run(&mut self, command: &Command) -> Answer<String> {
        let args: Vec<Word> = command.args.iter().map(Word::from).collect();
        let args = &args[..];
        let leases = self.leases.clone();
        let lives = move |lease: LeaseId| leases.contains(&lease.0);
        let mut out = String::new();
        match command.name.as_str() {
            "put" => {
                let put = parse_put(args)?;
                let (result, change) = self.store.put(&put, &lives)?;
                show_prev(&mut out, result.prev.iter());
                show_change(&mut out, &change);
            }
            "get" => show_range(&mut out, &self.store.range(&parse_range(args)?)?),
            "del" => {
                let (result, change) = self.store.delete_range(&parse_delete(args)?);
                writeln!(out, "deleted {}", result.deleted)?;
                show_prev(&mut out, result.prev.iter());
                change.iter().for_each(|change| show_change(&mut out, change));
            }
            "revoke" => {
                let keys: Vec<Bytes> = args.iter().map(|arg| arg.value.clone().into()).collect();
                match self.store.delete_keys(&keys) {
                    Some(change) => show_change(&mut out, &change),
                    None => writeln!(out, "nothing to delete")?,
                }
            }
            "define" => {
                let txn = self.parse_txn(&args[1..])?;
                self.txns.insert(args[0].value.clone(), txn);
            }
            "txn" => {
                let txn = self.parse_txn(args)?;
                check_txn(&txn, self.max_ops)?;
                let (result, change) = self.store.txn(&txn, &lives, usize::MAX)?;
                show_txn(&mut out, &result, 0);
                match change {
                    Some(change) => show_change(&mut out, &change),
                    None => writeln!(out, "still at rev {}", self.store.revision())?,
                }
            }
            "leases" => {
                self.leases = args.iter().map(|arg| arg.value.parse()).collect::<Result<_, _>>()?;
            }
            "max-ops" => self.max_ops = args[0].parse()?,
            "compact" => self.store.compact(Revision(args[0].parse()?))?,
            "sweep" => {
                let budget = args.first().map_or(Ok(usize::MAX), Word::parse)?;
                let more = self.store.sweep(budget);
                writeln!(out, "{}", if more { "more to sweep" } else { "swept" })?;
            }
            "status" => {
                let (revision, compacted) = (self.store.revision(), self.store.compacted());
                let keys = self.store.len();
                writeln!(out, "rev {revision} compacted {compacted} keys {keys}")?;
            }
            "changes" => {
                let from = Revision(args[0].parse()?);
                self.store.changes_since(from).for_each(|change| show_change(&mut out, change));
            }
            "restore" => {
                let mut restore = Restore::new();
                self.store.chunks().try_for_each(|chunk| restore.chunk(&chunk))?;
                let copy = restore.finish()?;
                let same = copy.hash(None) == self.store.hash(None);
                writeln!(out, "{}", if same { "same hash" } else { "ANOTHER HASH" })?;
                self.store = copy;
            }
            other => return Err(format!("no command {other}").into()),
        }
        Ok(out)
    }
}

impl StoreScript {
    fn parse_txn(&self, args: &[Word]) -> Answer<Txn> {
        let mut txn = Txn::default();
        for arg in args {
            match arg.key.as_deref() {
                Some("if") => txn.compare.push(parse_compare(&arg.value)?),
                Some("then") => txn.success.push(self.parse_op(&arg.value)?),
                Some("else") => txn.failure.push(self.parse_op(&arg.value)?),
                _ => return Err(format!("what is {}?", arg.value).into()),
            }
        }
        Ok(txn)
    }

    fn parse_op(&self, text: &str) -> Answer<Op> {
        let mut words = text.split(' ');
        let name = words.next().unwrap_or_default();
        let args: Vec<Word> = words
            .map(|word| match word.split_once('=') {
                Some((key, value)) => Word { key: Some(key.into()), value: value.into() },
                None => Word { key: None, value: word.into() },
            })
            .collect();
        Ok(match name {
            "put" => Op::Put(parse_put(&args)?),
            "get" => Op::Range(parse_range(&args)?),
            "del" => Op::DeleteRange(parse_delete(&args)?),
            "txn" => Op::Txn(self.txns.get(&args[0].value).ok_or("no such txn")?.clone()),
            other => return Err(format!("no operation {other}").into()),
        })
    }
}

fn parse_put(args: &[Word]) -> Answer<Put> {
    let mut put = Put {
        key: args[0].value.clone().into(),
        value: None,
        lease: PutLease::Set(None),
        prev_kv: false,
    };
    let mut keeps_value = false;
    for arg in &args[1..] {
        match (arg.key.as_deref(), arg.value.as_str()) {
            (Some("lease"), _) => put.lease = PutLease::Set(Some(LeaseId(arg.parse()?))),
            (None, "keep-lease") => put.lease = PutLease::Keep,
            (None, "keep-value") => keeps_value = true,
            (None, "prev") => put.prev_kv = true,
            (None, value) => put.value = Some(value.to_owned().into()),
            (Some(key), _) => return Err(format!("what is {key}?").into()),
        }
    }
    if !keeps_value && put.value.is_none() {
        return Err("no value".into());
    }
    Ok(put)
}

fn parse_delete(args: &[Word]) -> Answer<DeleteRange> {
    let prev_kv = args.iter().any(|arg| arg.value == "prev");
    Ok(DeleteRange { span: parse_span(&args[0].value), prev_kv })
}

fn parse_range(args: &[Word]) -> Answer<Range> {
    let mut range = Range::all(parse_span(&args[0].value));
    for arg in &args[1..] {
        let revision = || arg.parse().map(|number| Some(Revision(number)));
        match (arg.key.as_deref(), arg.value.as_str()) {
            (Some("rev"), _) => range.revision = revision()?,
            (Some("limit"), _) => range.limit = Some(arg.parse()?),
            (Some("order"), "asc") => range.sort_order = SortOrder::Ascend,
            (Some("order"), "desc") => range.sort_order = SortOrder::Descend,
            (Some("sort"), "key") => range.sort_target = SortTarget::Key,
            (Some("sort"), "version") => range.sort_target = SortTarget::Version,
            (Some("sort"), "create") => range.sort_target = SortTarget::Create,
            (Some("sort"), "mod") => range.sort_target = SortTarget::Mod,
            (Some("sort"), "value") => range.sort_target = SortTarget::Value,
            (Some("min-mod"), _) => range.mod_revision.min = revision()?,
            (Some("max-mod"), _) => range.mod_revision.max = revision()?,
            (Some("min-create"), _) => range.create_revision.min = revision()?,
            (Some("max-create"), _) => range.create_revision.max = revision()?,
            (None, "keys-only") => range.keys_only = true,
            (None, "count-only") => range.count_only = true,
            _ => return Err(format!("what is {}?", arg.value).into()),
        }
    }
    Ok(range)
}

fn parse_span(text: &str) -> Span {
    let bytes = |text: &str| Bytes::from(text.to_owned());
    if let Some(prefix) = text.strip_suffix('*') {
        return Span::prefix(bytes(prefix));
    }
    match text.split_once("..") {
        Some((start, "")) => Span::From(bytes(start)),
        Some((start, end)) => Span::Between(bytes(start), bytes(end)),
        None => Span::One(bytes(text)),
    }
}

fn parse_compare(text: &str) -> Answer<Compare> {
    let mut words = text.splitn(3, ' ');
    let field = words.next().unwrap_or_default();
    let (field, span) = field.split_once('(').ok_or("compare what?")?;
    let result = match words.next() {
        Some("=") => CompareResult::Equal,
        Some("!=") => CompareResult::NotEqual,
        Some(">") => CompareResult::Greater,
        Some("<") => CompareResult::Less,
        _ => return Err("compare how?".into()),
    };
    let operand = words.next().unwrap_or_default();
    let target = match field {
        "version" => CompareTarget::Version(operand.parse()?),
        "create" => CompareTarget::Create(Revision(operand.parse()?)),
        "mod" => CompareTarget::Mod(Revision(operand.parse()?)),
        "value" => CompareTarget::Value(operand.to_owned().into()),
        "lease" => CompareTarget::Lease(LeaseId::from_wire(operand.parse()?)),
        other => return Err(format!("no field {other}").into()),
    };
    Ok(Compare { span: parse_span(span.trim_end_matches(')')), result, target })
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn show_kv(kv: &KeyValue, keys_only: bool) -> String {
    let value = if keys_only { String::new() } else { format!("={}", text(&kv.value)) };
    let lease = kv.lease.map(|lease| format!(" lease {}", lease.0)).unwrap_or_default();
    let (create, modified, version) = (kv.create_revision, kv.mod_revision, kv.version);
    format!("{}{value} create {create} mod {modified} version {version}{lease}", text(&kv.key))
}

fn show_range(out: &mut String, result: &RangeResult) {
    for kv in &result.kvs {
        let _ = writeln!(out, "{}", show_kv(kv, result.keys_only));
    }
    let more = if result.more { ", more" } else { "" };
    let _ = writeln!(out, "count {}{more}", result.count);
}

fn show_prev<'a>(out: &mut String, prev: impl Iterator<Item = &'a std::sync::Arc<KeyValue>>) {
    for kv in prev {
        let _ = writeln!(out, "before: {}", show_kv(kv, false));
    }
}

fn show_change(out: &mut String, change: &Change) {
    let events: Vec<String> = change.events.iter().map(show_event).collect();
    let _ = writeln!(out, "rev {}: {}", change.revision, events.join(", "));
}

fn show_event(event: &Event) -> String {
    let kv = &event.kv;
    let was = event.prev.as_ref().map(|prev| format!(" (was {})", text(&prev.value)));
    let was = was.unwrap_or_default();
    match event.kind {
        EventKind::Put => format!("put {}={}{was}", text(&kv.key), text(&kv.value)),
        EventKind::Delete => format!("del {}{was}", text(&kv.key)),
    }
}

fn show_txn(out: &mut String, result: &TxnResult, depth: usize) {
    let indent = "  ".repeat(depth);
    let taken = if result.succeeded { "then" } else { "else" };
    let _ = writeln!(out, "{indent}{taken}:");
    for response in &result.responses {
        let mut inner = String::new();
        match response {
            OpResult::Range(result) => show_range(&mut inner, result),
            OpResult::Put(result) => {
                inner.push_str("put\n");
                show_prev(&mut inner, result.prev.iter());
            }
            OpResult::DeleteRange(result) => {
                let _ = writeln!(inner, "deleted {}", result.deleted);
                show_prev(&mut inner, result.prev.iter());
            }
            OpResult::Txn(result) => {
                show_txn(out, result, depth + 1);
                continue;
            }
        }
        for line in inner.lines() {
            let _ = writeln!(out, "{indent}  {line}");
        }
    }
}
