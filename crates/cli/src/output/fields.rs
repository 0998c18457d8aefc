//! The `fields` form: a quoted name, a colon, a value; one a line.

use std::fmt::Display;
use std::io::{self, Write};

use tenure::api::wire::{etcdserverpb as pb, mvccpb};

use super::text::quoted;

pub(super) fn field(out: &mut impl Write, name: &str, value: impl Display) -> io::Result<()> {
    writeln!(out, "\"{name}\" : {value}")
}

pub(super) fn header(out: &mut impl Write, header: Option<&pb::ResponseHeader>) -> io::Result<()> {
    let header = header.cloned().unwrap_or_default();
    field(out, "ClusterID", header.cluster_id)?;
    field(out, "MemberID", header.member_id)?;
    field(out, "Revision", header.revision)?;
    field(out, "RaftTerm", header.raft_term)
}

/// The fields of a version, their names led by `prefix` (`Prev` for the one before).
pub(super) fn kv(out: &mut impl Write, prefix: &str, kv: &mvccpb::KeyValue) -> io::Result<()> {
    writeln!(out, "\"{prefix}Key\" : {}", quoted(&kv.key))?;
    writeln!(out, "\"{prefix}CreateRevision\" : {}", kv.create_revision)?;
    writeln!(out, "\"{prefix}ModRevision\" : {}", kv.mod_revision)?;
    writeln!(out, "\"{prefix}Version\" : {}", kv.version)?;
    writeln!(out, "\"{prefix}Value\" : {}", quoted(&kv.value))?;
    writeln!(out, "\"{prefix}Lease\" : {}", kv.lease)
}
