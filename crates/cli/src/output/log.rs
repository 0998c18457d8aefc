//! A member's log, record by record.

use std::io::Write;

use serde::Serialize;
use tenure_server::disk::{Record, inspect::LogDump};
use tenure_server::log_rows::{Mark, Row};

use super::{Format, Output, no_table};

/// The first line.
#[derive(Serialize)]
struct Head {
    record: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    member_id: Option<String>,
    boots: u64,
    in_use: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<Mark>,
}

/// The last line.
#[derive(Serialize)]
struct End {
    record: &'static str,
    segments: usize,
    batches: usize,
    entries: usize,
    replaced: usize,
    first_index: Option<u64>,
    last_index: Option<u64>,
    term: u64,
    commit: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    torn: Option<Cut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot_damage: Option<String>,
}

#[derive(Serialize)]
struct Cut {
    file: String,
    offset: u64,
    bytes: u64,
}

impl<W: Write> Output<W> {
    /// The member that the log belongs to, and the snapshot before it.
    pub(crate) fn log_head(&mut self, dump: &LogDump) -> anyhow::Result<()> {
        let head = Head {
            record: "directory",
            cluster_id: dump.identity.map(|identity| identity.cluster_id.to_string()),
            member_id: dump.identity.map(|identity| identity.member_id.to_string()),
            boots: dump.boots,
            in_use: dump.in_use,
            snapshot: dump.snapshot.as_ref().map(Mark::of),
        };
        match self.format {
            Format::Json => return self.json(&head),
            Format::Simple => {}
            Format::Fields | Format::Table => return Err(no_table()),
        }
        let member = head.member_id.as_deref().unwrap_or("none");
        let cluster = head.cluster_id.as_deref().unwrap_or("none");
        writeln!(self.out, "member {member} of cluster {cluster}, opened {} times", head.boots)?;
        match head.snapshot {
            Some(mark) => writeln!(self.out, "newest snapshot: {mark}")?,
            None => writeln!(self.out, "no snapshot")?,
        }
        Ok(())
    }

    /// One record.
    pub(crate) fn log_row(&mut self, row: &Row) -> anyhow::Result<()> {
        if self.format == Format::Json {
            return self.json(row);
        }
        Ok(writeln!(self.out, "{}", row.line())?)
    }

    /// How much there was, and what is wrong.
    pub(crate) fn log_end(&mut self, dump: &LogDump) -> anyhow::Result<()> {
        let end = summary(dump);
        if self.format == Format::Json {
            return self.json(&end);
        }
        let span = match (end.first_index, end.last_index) {
            (Some(first), Some(last)) => format!("{} entries {first} to {last}", end.entries),
            _ => "no entries".to_owned(),
        };
        writeln!(
            self.out,
            "{span} ({} replaced) in {} batches and {} segments; term {}, commit {}",
            end.replaced, end.batches, end.segments, end.term, end.commit
        )?;
        if let Some(Cut { file, offset, bytes }) = &end.torn {
            writeln!(
                self.out,
                "torn: {file} at offset {offset}: {bytes} bytes of a write that was not finished; the next start \
                 cuts them off"
            )?;
        }
        for damage in end.snapshot_damage.iter().chain(&end.damage) {
            writeln!(self.out, "damaged: {damage}")?;
        }
        if end.torn.is_none() && end.damage.is_none() && end.snapshot_damage.is_none() {
            writeln!(self.out, "sound")?;
        }
        Ok(())
    }
}

fn summary(dump: &LogDump) -> End {
    let entries = || {
        dump.records.iter().filter_map(|found| match &found.record {
            Record::Entry(entry) => Some((entry.index, found.replaced)),
            _ => None,
        })
    };
    let indices = || entries().filter(|(_, replaced)| !replaced).map(|(index, _)| index);
    let state = dump.records.iter().rev().find_map(|found| match &found.record {
        Record::Start { hard_state, .. } | Record::HardState(hard_state) => Some(*hard_state),
        _ => None,
    });
    let mut files: Vec<_> = dump.records.iter().map(|found| &found.file).collect();
    files.dedup();
    let mut batches: Vec<u64> = dump.records.iter().map(|found| found.batch).collect();
    batches.dedup();
    let state = state.unwrap_or_default();
    End {
        record: "end",
        segments: files.len(),
        batches: batches.len(),
        entries: indices().count(),
        replaced: entries().filter(|(_, replaced)| *replaced).count(),
        first_index: indices().min(),
        last_index: indices().max(),
        term: state.term.0,
        commit: state.commit,
        torn: dump.torn.as_ref().map(|torn| Cut {
            file: torn.file.display().to_string(),
            offset: torn.offset,
            bytes: torn.bytes,
        }),
        damage: dump.damage.as_ref().map(ToString::to_string),
        snapshot_damage: dump.snapshot_damage.as_ref().map(ToString::to_string),
    }
}
