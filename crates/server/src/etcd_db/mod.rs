//! etcd's database file: what `etcdctl snapshot save` writes, and what etcd keeps in it.
//!
//! `bbolt` is the format, read and written. `file` is what etcdctl puts around it (a checksum). `content` reads the buckets
//! that etcd fills, `written` fills them as etcd would, and `ours` is one more of them, with what only tenure knows.
//! `import` makes a data directory of a file that etcd saved, `backup` of one that tenure saved.

pub(crate) mod bbolt;
pub(crate) mod content;
mod error;
mod file;
pub(crate) mod ours;
mod revision;
pub(crate) mod sha256;
pub(crate) mod users;
pub(crate) mod written;

pub use self::error::DatabaseError;
pub(crate) use self::file::SnapshotFile;
