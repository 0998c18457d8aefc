//! Backups: what was saved, what a file holds, what was made of it.

use std::io::Write;
use std::path::Path;

use serde::Serialize;
use tenure::api::Member;
use tenure_server::Config;
use tenure_server::backup::{BackupSummary, Restored};

use super::text::{quoted, size};
use super::{Format, Output, fields, table};

/// The first four names are etcdutl's.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    hash: u32,
    revision: i64,
    total_key: usize,
    total_size: u64,
    compact_revision: i64,
    leases: usize,
    leased_keys: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    member_id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    taken_at: Option<u64>,
    raft_index: u64,
    raft_term: u64,
    cluster_version: u32,
    members: Vec<Listed<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<'a> {
    id: u64,
    name: &'a str,
    #[serde(rename = "peerURLs")]
    peer_urls: &'a [String],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Made<'a> {
    cluster_id: u64,
    member_id: u64,
    revision: i64,
    total_key: usize,
    leased_keys_dropped: usize,
    leases_dropped: usize,
    members: Vec<Listed<'a>>,
    data_dir: &'a Path,
}

const HEADS: [&str; 8] =
    ["HASH", "REVISION", "TOTAL KEYS", "TOTAL SIZE", "LEASES", "CLUSTER ID", "MEMBERS", "VERSION"];

impl<W: Write> Output<W> {
    /// What was saved.
    pub(crate) fn snapshot_saved(
        &mut self,
        file: &Path,
        saved: &BackupSummary,
    ) -> anyhow::Result<()> {
        if self.format != Format::Simple {
            return self.snapshot_status(saved);
        }
        writeln!(self.out, "Snapshot saved at {}", file.display())?;
        let (revision, keys, bytes) = (saved.revision.0, saved.keys, size(saved.bytes as i64));
        let sha256 = saved.sha256.as_deref().unwrap_or_default();
        Ok(writeln!(self.out, "revision {revision}, {keys} keys, {bytes}, sha256 {sha256}")?)
    }

    /// What a file holds.
    pub(crate) fn snapshot_status(&mut self, found: &BackupSummary) -> anyhow::Result<()> {
        match self.format {
            Format::Simple => writeln!(self.out, "{}", row(found).join(", "))?,
            Format::Json => self.json(&status(found))?,
            Format::Table => table::draw(&mut self.out, HEADS, &[row(found)])?,
            Format::Fields => self.snapshot_fields(found)?,
        }
        Ok(())
    }

    fn snapshot_fields(&mut self, found: &BackupSummary) -> std::io::Result<()> {
        let out = &mut self.out;
        fields::field(out, "Hash", found.hash)?;
        fields::field(out, "Revision", found.revision.0)?;
        fields::field(out, "Keys", found.keys)?;
        fields::field(out, "Size", found.bytes)?;
        fields::field(out, "CompactRevision", found.compacted.0)?;
        fields::field(out, "Leases", found.leases)?;
        fields::field(out, "LeasedKeys", found.leased_keys)?;
        if let Some(note) = found.note {
            fields::field(out, "ClusterID", note.cluster_id.0)?;
            fields::field(out, "MemberID", note.member_id.0)?;
            fields::field(out, "TakenAt", note.taken_at)?;
        }
        fields::field(out, "RaftIndex", found.index)?;
        fields::field(out, "RaftTerm", found.term.0)?;
        fields::field(out, "ClusterVersion", found.cluster_version)?;
        for member in &found.members {
            let urls = member.peer_urls.join(",");
            let text = format!("{} {} {urls}", member.id, member.name);
            fields::field(out, "Member", quoted(text.as_bytes()))?;
        }
        fields::field(out, "SHA256", quoted(found.sha256.as_deref().unwrap_or_default().as_bytes()))
    }

    /// What was made of a file, and the command that starts it.
    pub(crate) fn snapshot_restored(
        &mut self,
        config: &Config,
        restored: &Restored,
    ) -> anyhow::Result<()> {
        if self.format == Format::Json {
            return self.json(&Made {
                cluster_id: restored.cluster_id.0,
                member_id: restored.member_id.0,
                revision: restored.revision.0,
                total_key: restored.keys,
                leased_keys_dropped: restored.keys_dropped,
                leases_dropped: restored.leases_dropped,
                members: restored.members.iter().map(listed).collect(),
                data_dir: &config.data_dir,
            });
        }
        let out = &mut self.out;
        let count = restored.members.len();
        writeln!(
            out,
            "Restored {} keys to {}: member {} ({}) of {count} in the new cluster {}",
            restored.keys,
            config.data_dir.display(),
            restored.member_id,
            config.name,
            restored.cluster_id,
        )?;
        writeln!(
            out,
            "revision {}; dropped {} leases and {} keys on them",
            restored.revision.0, restored.leases_dropped, restored.keys_dropped,
        )?;
        Ok(())
    }
}

fn row(found: &BackupSummary) -> [String; 8] {
    [
        format!("{:x}", found.hash),
        found.revision.0.to_string(),
        found.keys.to_string(),
        size(found.bytes as i64),
        found.leases.to_string(),
        found.note.map_or_else(|| "-".to_owned(), |note| note.cluster_id.to_string()),
        found.members.len().to_string(),
        found.cluster_version.to_string(),
    ]
}

fn status(found: &BackupSummary) -> Status<'_> {
    Status {
        hash: found.hash,
        revision: found.revision.0,
        total_key: found.keys,
        total_size: found.bytes,
        compact_revision: found.compacted.0,
        leases: found.leases,
        leased_keys: found.leased_keys,
        cluster_id: found.note.map(|note| note.cluster_id.0),
        member_id: found.note.map(|note| note.member_id.0),
        taken_at: found.note.map(|note| note.taken_at),
        raft_index: found.index,
        raft_term: found.term.0,
        cluster_version: found.cluster_version,
        members: found.members.iter().map(listed).collect(),
        sha256: found.sha256.as_deref(),
    }
}

fn listed(member: &Member) -> Listed<'_> {
    Listed { id: member.id.0, name: &member.name, peer_urls: &member.peer_urls }
}
