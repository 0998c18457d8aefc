//! The members that the cluster began with, as a founder's directory remembers them.
//!
//! A founder's log begins with them: its first entries are about a list of members that is in no entry.
//! The settings named them when the directory was made. Later they may name others, because
//! an operator keeps the *current* members there. See `docs/reference/formats.md`.

use std::{io, path::Path};

use tenure_api::Member;
use tenure_replica::codec::{Codec, DecodeError, Reader, put_u64};

use super::{DiskError, durable::write_durably, storage::Storage};

const MAGIC: &[u8; 8] = b"tenurefo";
const VERSION: u32 = 1;
/// Magic and version.
const HEADER_BYTES: usize = 12;
const CRC_BYTES: usize = 4;

/// The list, encoded.
struct Founders(Vec<Member>);

impl Codec for Founders {
    fn encode(&self, out: &mut Vec<u8>) {
        put_u64(out, self.0.len() as u64);
        self.0.iter().for_each(|member| member.encode(out));
    }

    fn decode(input: &mut Reader<'_>) -> Result<Founders, DecodeError> {
        let members = (0..input.count()?).map(|_| Member::decode(input));
        Ok(Founders(members.collect::<Result<_, _>>()?))
    }
}

pub(crate) fn write_founders(
    storage: &dyn Storage,
    path: &Path,
    members: &[Member],
) -> Result<(), DiskError> {
    let mut file = MAGIC.to_vec();
    file.extend_from_slice(&VERSION.to_le_bytes());
    Founders(members.to_vec()).encode(&mut file);
    file.extend_from_slice(&crc32fast::hash(&file).to_le_bytes());
    write_durably(storage, path, &file)
}

/// None if there is no such file: the member joined, or founded the cluster with a release that kept no list.
pub(crate) fn read_founders(
    storage: &dyn Storage,
    path: &Path,
) -> Result<Option<Vec<Member>>, DiskError> {
    let file = match storage.read(path) {
        Ok(file) => file,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(DiskError::io("read", path)(cause)),
    };
    let corrupt = |what: &str| DiskError::corrupt(path, 0, what);
    let Some((content, crc)) = file.split_last_chunk::<CRC_BYTES>() else {
        return Err(corrupt("it is too short"));
    };
    if !content.starts_with(MAGIC) {
        return Err(corrupt("it is not such a file"));
    }
    if u32::from_le_bytes(*crc) != crc32fast::hash(content) {
        return Err(corrupt("checksum mismatch"));
    }
    let Some((header, list)) = content.split_first_chunk::<HEADER_BYTES>() else {
        return Err(corrupt("it is too short"));
    };
    let found =
        u32::from_le_bytes(*header.last_chunk().expect("a header has more than four bytes"));
    if found != VERSION {
        return Err(DiskError::UnknownVersion { file: path.to_owned(), found, known: VERSION });
    }
    let list = Founders::from_bytes(list)
        .map_err(|cause| DiskError::corrupt(path, HEADER_BYTES as u64, cause.to_string()))?;
    Ok(Some(list.0))
}
