//! bbolt files: the database under etcd. This module reads them, `writer` writes them.
//!
//! A file is pages of equal size. The first two are *meta* pages, written in turn, so that one of them
//! is sound whenever the power fails; the newer sound one names the root. From there it is a tree of
//! *branch* and *leaf* pages with keys in order. A value may be a *bucket*, a tree of its own: either
//! the number of its root page, or, if it is small, a leaf page inside the value. A page that is too
//! small for its content goes on in the pages after it (*overflow*).
//!
//! Pages are read one at a time, never the whole file, and nothing in them is believed: every number
//! is checked against the page, the page against the file, the depth and the number of pages against
//! what a tree can have, and the order of the keys all along. A damaged file gives an error with the
//! offset, or, where no rule is broken, other data; that is what etcd's checksum at the end is for.
//!
//! The list of free pages is not read, nor anything else that a reader does not need.

mod meta;
mod page;
mod writer;

use std::{fs::File, io, os::unix::fs::FileExt};

pub(crate) use self::{
    meta::{MAGIC, MAGIC_OFFSET},
    writer::{Plan, Writer},
};
use self::{
    meta::{META_BYTES, Meta, PAGE_BYTES_MAX, PAGE_BYTES_MIN},
    page::{HEADER_BYTES, Header, Page},
};

/// A tree of 2^64 entries with two children a branch would be as deep.
const DEPTH_MAX: usize = 64;
/// The largest page with its overflow. etcd's largest request is far below it.
const PAGE_WHOLE_BYTES_MAX: u64 = 256 << 20;
/// Root page and sequence number, before a small bucket's own page.
const BUCKET_HEADER_BYTES: usize = 16;

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) offset: u64,
    pub(crate) what: String,
}

/// Why a walk ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    Damage(Damage),
    Io(io::Error),
}

impl From<Damage> for Stop {
    fn from(damage: Damage) -> Stop {
        Stop::Damage(damage)
    }
}

/// An open file.
#[derive(Debug)]
pub(crate) struct Db {
    file: File,
    meta: Meta,
}

/// One tree.
#[derive(Clone, Debug)]
pub(crate) enum Bucket {
    /// Its root page.
    Root(u64),
    /// The page itself, which was in its parent at this offset.
    Inline(Vec<u8>, u64),
}

/// A key and what it stands for.
#[derive(Debug)]
pub(crate) struct Item<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    /// The offset of the value in the file.
    pub(crate) offset: u64,
    is_bucket: bool,
}

impl Db {
    /// Opens a file whose first `length` bytes are the database.
    pub(crate) fn open(file: File, length: u64) -> Result<Db, Stop> {
        let meta = newest_meta(&file, length)?;
        let db = Db { file, meta };
        match meta.pages.checked_mul(meta.page_bytes) {
            Some(needed) if needed <= length => Ok(db),
            needed => Err(Stop::Damage(Damage {
                offset: length,
                what: match needed {
                    Some(needed) => format!("the file ends here, {needed} bytes are needed"),
                    None => "the number of pages makes no sense".into(),
                },
            })),
        }
    }

    /// The bucket of this name, if there is one.
    pub(crate) fn bucket(&self, name: &[u8]) -> Result<Option<Bucket>, Stop> {
        let mut found = None;
        self.walk(&Bucket::Root(self.meta.root), &mut |item| {
            if item.key == name {
                found = Some(item.bucket()?);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Shows every item of the bucket of this name; none if there is no such bucket.
    pub(crate) fn walk_named(
        &self,
        name: &[u8],
        visit: &mut dyn FnMut(Item<'_>) -> Result<(), Damage>,
    ) -> Result<(), Stop> {
        match self.bucket(name)? {
            Some(bucket) => self.walk(&bucket, visit),
            None => Ok(()),
        }
    }

    /// Shows every item of a bucket, in the order of their keys.
    pub(crate) fn walk(
        &self,
        bucket: &Bucket,
        visit: &mut dyn FnMut(Item<'_>) -> Result<(), Damage>,
    ) -> Result<(), Stop> {
        let root = match bucket {
            Bucket::Root(id) => self.page(*id, 0)?,
            Bucket::Inline(bytes, offset) => Page::new(bytes.clone(), *offset)?,
        };
        let mut visited = 1;
        let mut last: Option<Vec<u8>> = None;
        // Pages from the root down, each with the index of the element that comes next.
        let mut path = vec![(root, 0)];
        while let Some((page, next)) = path.last_mut() {
            if *next == page.count {
                path.pop();
                continue;
            }
            let at = *next;
            *next += 1;
            if page.is_branch {
                let (child, from) = page.child(at);
                visited += 1;
                if path.len() == DEPTH_MAX || visited > self.meta.pages {
                    let what = "the pages of a tree go round in a circle".into();
                    return Err(Stop::Damage(Damage { offset: from, what }));
                }
                let child = self.page(child, from)?;
                path.push((child, 0));
                continue;
            }
            let leaf = page.leaf(at)?;
            if last.as_deref().is_some_and(|last| last >= leaf.key) {
                let what = "keys are not in order".into();
                return Err(Stop::Damage(Damage { offset: leaf.offset, what }));
            }
            last.get_or_insert_default().splice(.., leaf.key.iter().copied());
            let page::Leaf { key, value, offset, is_bucket } = leaf;
            visit(Item { key, value, offset, is_bucket })?;
        }
        Ok(())
    }

    /// Reads a page with its overflow. `from` is where a number that is wrong was used.
    fn page(&self, id: u64, from: u64) -> Result<Page, Stop> {
        let damaged = |offset, what| Stop::Damage(Damage { offset, what });
        if id >= self.meta.pages {
            return Err(damaged(
                from,
                format!("page {id} is asked for, but there are {}", self.meta.pages),
            ));
        }
        let offset = id * self.meta.page_bytes;
        let mut header = [0; HEADER_BYTES];
        self.file.read_exact_at(&mut header, offset).map_err(Stop::Io)?;
        let header = Header::read(header);
        if header.id != id {
            return Err(damaged(offset, format!("page {id} calls itself page {}", header.id)));
        }
        let pages = u64::from(header.overflow) + 1;
        let bytes = pages * self.meta.page_bytes;
        if pages > self.meta.pages - id || bytes > PAGE_WHOLE_BYTES_MAX {
            return Err(damaged(offset, format!("page {id} claims {pages} pages")));
        }
        let mut whole = vec![0; bytes as usize];
        self.file.read_exact_at(&mut whole, offset).map_err(Stop::Io)?;
        Ok(Page::new(whole, offset)?)
    }
}

impl Item<'_> {
    /// The bucket that stands here.
    fn bucket(&self) -> Result<Bucket, Damage> {
        let damaged = |what: &str| Damage { offset: self.offset, what: what.into() };
        if !self.is_bucket {
            return Err(damaged("a value where a bucket must be"));
        }
        let Some((header, page)) = self.value.split_at_checked(BUCKET_HEADER_BYTES) else {
            return Err(damaged("a bucket is shorter than its header"));
        };
        match u64::from_le_bytes(*header.first_chunk().expect("it is longer")) {
            0 => Ok(Bucket::Inline(page.to_vec(), self.offset + BUCKET_HEADER_BYTES as u64)),
            root => Ok(Bucket::Root(root)),
        }
    }
}

/// Of the two meta pages the newer one that is sound. If the first is damaged, the offset of the second
/// depends on a page size that is not known: every possible one is tried.
fn newest_meta(file: &File, length: u64) -> Result<Meta, Stop> {
    let read = |offset: u64| -> Result<Option<Result<Meta, Damage>>, Stop> {
        if offset + META_BYTES as u64 > length {
            return Ok(None);
        }
        let mut bytes = [0; META_BYTES];
        file.read_exact_at(&mut bytes, offset).map_err(Stop::Io)?;
        Ok(Some(Meta::read(&bytes, offset)))
    };
    let Some(first) = read(0)? else {
        return Err(
            Damage { offset: length, what: "the file ends before its meta pages".into() }.into()
        );
    };
    let mut found = first.as_ref().ok().copied();
    let mut size = first.as_ref().map_or(PAGE_BYTES_MIN, |meta| meta.page_bytes);
    let largest = first.as_ref().map_or(PAGE_BYTES_MAX, |meta| meta.page_bytes);
    while size <= largest {
        if let Some(Ok(second)) = read(size)?
            && second.page_bytes == size
            && found.is_none_or(|first| first.transaction < second.transaction)
        {
            found = Some(second);
        }
        size *= 2;
    }
    match (found, first) {
        (Some(meta), _) => Ok(meta),
        (None, Err(damage)) => Err(damage.into()),
        (None, Ok(_)) => unreachable!("a sound first page was found"),
    }
}
