//! bbolt files, written front to back.
//!
//! bbolt itself changes pages in place. Here a whole database is written once, as a stream, to a client that stores it. The
//! first pages name the root, so the number of every page must be known before the first byte leaves. So the database is
//! written in two passes: a [`Plan`] sees the lengths of all items and assigns the pages, a [`Writer`] sees the items
//! themselves, in the same order, and fills them.
//!
//! In the file: two meta pages, the list of free pages (none), for each bucket its leaves and then its branches level by
//! level, and at last the leaf that names the buckets.

use super::{
    meta::Meta,
    page::{BRANCH, ELEMENT_BYTES, HEADER_BYTES, Header, IS_BUCKET, LEAF},
};

/// The size of etcd's pages on every machine it is built for.
const PAGE_BYTES: usize = 4096;
/// Meta pages and the list of free pages.
const FIRST_PAGE: u64 = 3;
const FREE_LIST_PAGE: u64 = 2;
const FREE_LIST: u16 = 0x10;
const META: u16 = 0x04;

/// A page of a tree before it is written.
#[derive(Debug)]
struct PlannedPage {
    id: u64,
    first_key: Box<[u8]>,
    count: u16,
    /// Pages that it takes, those included that it overflows into.
    pages: u32,
}

/// The pages of one bucket.
#[derive(Debug)]
struct PlannedBucket {
    name: &'static [u8],
    leaves: Vec<PlannedPage>,
    /// From the parents of the leaves up. Each has the children of the level below in order.
    branches: Vec<Vec<PlannedPage>>,
}

impl PlannedBucket {
    fn root(&self) -> u64 {
        self.branches.last().unwrap_or(&self.leaves)[0].id
    }
}

/// Which page every item goes to.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    buckets: Vec<PlannedBucket>,
    next_page: u64,
}

impl Plan {
    pub(crate) fn new() -> Plan {
        Plan { buckets: vec![], next_page: FIRST_PAGE }
    }

    /// Plans a bucket of these keys, in order, each with the length of its value. Buckets come in the order of their names.
    pub(crate) fn bucket<K: AsRef<[u8]>>(
        &mut self,
        name: &'static [u8],
        items: impl Iterator<Item = (K, usize)>,
    ) {
        debug_assert!(self.buckets.last().is_none_or(|last| last.name < name));
        let leaves = self.level(items);
        let mut branches: Vec<Vec<PlannedPage>> = vec![];
        loop {
            let below = branches.last().unwrap_or(&leaves);
            if below.len() == 1 {
                break;
            }
            let keys: Vec<Box<[u8]>> = below.iter().map(|page| page.first_key.clone()).collect();
            let level = self.level(keys.into_iter().map(|key| (key, 0)));
            branches.push(level);
        }
        self.buckets.push(PlannedBucket { name, leaves, branches });
    }

    /// The pages for these elements, at least one.
    fn level<K: AsRef<[u8]>>(
        &mut self,
        items: impl Iterator<Item = (K, usize)>,
    ) -> Vec<PlannedPage> {
        let mut pages: Vec<PlannedPage> = vec![];
        let mut bytes = 0;
        for (key, value_bytes) in items {
            let key = key.as_ref();
            let more = ELEMENT_BYTES + key.len() + value_bytes;
            let fits = bytes + more <= PAGE_BYTES;
            match pages.last_mut().filter(|_| fits) {
                Some(page) => page.count += 1,
                None => {
                    self.close(pages.last_mut(), bytes);
                    let first_key = key.into();
                    pages.push(PlannedPage { id: 0, first_key, count: 1, pages: 1 });
                    bytes = HEADER_BYTES;
                }
            }
            bytes += more;
        }
        if pages.is_empty() {
            pages.push(PlannedPage { id: 0, first_key: Box::default(), count: 0, pages: 1 });
            bytes = HEADER_BYTES;
        }
        self.close(pages.last_mut(), bytes);
        pages
    }

    /// Gives a page that has so many bytes its place in the file.
    fn close(&mut self, page: Option<&mut PlannedPage>, bytes: usize) {
        let Some(page) = page else { return };
        page.id = self.next_page;
        page.pages =
            u32::try_from(bytes.div_ceil(PAGE_BYTES)).expect("an item is far below 16 TiB");
        self.next_page += u64::from(page.pages);
    }

    /// Plans the leaf that names the buckets, and begins to write.
    pub(crate) fn finish(mut self) -> Writer {
        let names: Vec<&'static [u8]> = self.buckets.iter().map(|bucket| bucket.name).collect();
        let root = self.level(names.into_iter().map(|name| (name, BUCKET_BYTES)));
        assert_eq!(root.len(), 1, "a few names fit on a page");
        let [root] = <[PlannedPage; 1]>::try_from(root).expect("one page");
        Writer { buckets: self.buckets.into_iter(), roots: vec![], root, pages: self.next_page }
    }
}

/// The number of a bucket's root page, and a sequence number that etcd does not use.
const BUCKET_BYTES: usize = 16;

/// Fills the planned pages. Call [`Writer::begin`], then [`Writer::bucket`] for each planned bucket, then [`Writer::end`].
#[derive(Debug)]
pub(crate) struct Writer {
    buckets: std::vec::IntoIter<PlannedBucket>,
    roots: Vec<(&'static [u8], u64)>,
    root: PlannedPage,
    pages: u64,
}

impl Writer {
    /// The length of the whole file.
    pub(crate) fn bytes(&self) -> u64 {
        self.pages * PAGE_BYTES as u64
    }

    /// The meta pages, and the list of free pages.
    pub(crate) fn begin(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(3 * PAGE_BYTES);
        for transaction in [0, 1] {
            let header = Header { id: transaction, flags: META, count: 0, overflow: 0 };
            out.extend_from_slice(&header.to_bytes());
            let meta = Meta {
                page_bytes: PAGE_BYTES as u64,
                root: self.root.id,
                pages: self.pages,
                transaction,
            };
            out.extend_from_slice(&meta.to_bytes(FREE_LIST_PAGE));
            out.resize(out.len().next_multiple_of(PAGE_BYTES), 0);
        }
        let header = Header { id: FREE_LIST_PAGE, flags: FREE_LIST, count: 0, overflow: 0 };
        out.extend_from_slice(&header.to_bytes());
        out.resize(3 * PAGE_BYTES, 0);
        out
    }

    /// Writes the next bucket: the items that it was planned with, in the same order. `send` is given whole pages.
    pub(crate) fn bucket<K: AsRef<[u8]>, V: AsRef<[u8]>, E>(
        &mut self,
        name: &[u8],
        mut items: impl Iterator<Item = (K, V)>,
        send: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let bucket = self.buckets.next().expect("a bucket that was planned");
        assert_eq!(
            bucket.name, name,
            "buckets are written in the order in which they were planned"
        );
        self.roots.push((bucket.name, bucket.root()));
        let mut page = Vec::new();
        for planned in &bucket.leaves {
            let elements = items.by_ref().take(usize::from(planned.count));
            let elements = elements.map(|(key, value)| (0, key, value));
            fill(&mut page, planned, LEAF, elements);
            send(&page)?;
        }
        debug_assert!(items.next().is_none(), "items that were not planned");
        let mut below = &bucket.leaves;
        for level in &bucket.branches {
            let mut children = below.iter();
            for planned in level {
                let children = children.by_ref().take(usize::from(planned.count));
                fill_branch(&mut page, planned, children);
                send(&page)?;
            }
            below = level;
        }
        Ok(())
    }

    /// The leaf that names the buckets.
    pub(crate) fn end(self) -> Vec<u8> {
        debug_assert_eq!(self.buckets.len(), 0, "buckets that were not written");
        let mut page = Vec::new();
        let elements = self.roots.into_iter().map(|(name, root)| {
            let mut bucket = [0; BUCKET_BYTES];
            bucket[..8].copy_from_slice(&root.to_le_bytes());
            (IS_BUCKET, name, bucket)
        });
        fill(&mut page, &self.root, LEAF, elements);
        page
    }
}

fn begin_page(page: &mut Vec<u8>, planned: &PlannedPage, flags: u16) -> usize {
    let PlannedPage { id, count, pages, .. } = *planned;
    page.clear();
    page.resize(pages as usize * PAGE_BYTES, 0);
    let header = Header { id, flags, count, overflow: pages - 1 };
    page[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    HEADER_BYTES + usize::from(count) * ELEMENT_BYTES
}

/// Fills a leaf: flags, key and value of each element.
fn fill<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    page: &mut Vec<u8>,
    planned: &PlannedPage,
    flags: u16,
    elements: impl Iterator<Item = (u32, K, V)>,
) {
    let mut data = begin_page(page, planned, flags);
    let mut element = HEADER_BYTES;
    for (flags, key, value) in elements {
        let (key, value) = (key.as_ref(), value.as_ref());
        let words = [flags, (data - element) as u32, key.len() as u32, value.len() as u32];
        for (at, word) in words.into_iter().enumerate() {
            page[element + 4 * at..][..4].copy_from_slice(&word.to_le_bytes());
        }
        page[data..][..key.len()].copy_from_slice(key);
        page[data + key.len()..][..value.len()].copy_from_slice(value);
        data += key.len() + value.len();
        element += ELEMENT_BYTES;
    }
    debug_assert_eq!(element, HEADER_BYTES + usize::from(planned.count) * ELEMENT_BYTES);
}

fn fill_branch<'a>(
    page: &mut Vec<u8>,
    planned: &PlannedPage,
    children: impl Iterator<Item = &'a PlannedPage>,
) {
    let mut data = begin_page(page, planned, BRANCH);
    let mut element = HEADER_BYTES;
    for child in children {
        let key = &child.first_key;
        page[element..][..4].copy_from_slice(&((data - element) as u32).to_le_bytes());
        page[element + 4..][..4].copy_from_slice(&(key.len() as u32).to_le_bytes());
        page[element + 8..][..8].copy_from_slice(&child.id.to_le_bytes());
        page[data..][..key.len()].copy_from_slice(key);
        data += key.len();
        element += ELEMENT_BYTES;
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, io::Write};

    use proptest::prelude::*;

    use super::{super::Db, *};

    type Items = Vec<(Vec<u8>, Vec<u8>)>;

    fn written(buckets: &[(&'static [u8], Items)]) -> Vec<u8> {
        let mut plan = Plan::new();
        for (name, items) in buckets {
            plan.bucket(name, items.iter().map(|(key, value)| (key, value.len())));
        }
        let mut writer = plan.finish();
        let mut file = writer.begin();
        let bytes = writer.bytes();
        for (name, items) in buckets {
            let send = &mut |page: &[u8]| -> Result<(), Infallible> {
                file.extend_from_slice(page);
                Ok(())
            };
            let Ok(()) = writer.bucket(name, items.iter().map(|(k, v)| (k, v)), send);
        }
        file.extend_from_slice(&writer.end());
        assert_eq!(file.len() as u64, bytes);
        file
    }

    fn read(file: &[u8], name: &[u8]) -> Items {
        let mut on_disk = tempfile::tempfile().unwrap();
        on_disk.write_all(file).unwrap();
        let db = Db::open(on_disk, file.len() as u64).unwrap();
        let bucket = db.bucket(name).unwrap().unwrap();
        let mut found = vec![];
        db.walk(&bucket, &mut |item| {
            found.push((item.key.to_vec(), item.value.to_vec()));
            Ok(())
        })
        .unwrap();
        found
    }

    fn items(sizes: impl IntoIterator<Item = usize>) -> Items {
        let values = sizes.into_iter().map(|size| vec![b'v'; size]);
        (0_u64..).map(|n| n.to_be_bytes().to_vec()).zip(values).collect()
    }

    #[test]
    fn bbolt_writer_makes_trees_of_every_depth() {
        for count in [0, 1, 2, 100, 254, 30_000] {
            let first = items(std::iter::repeat_n(3, count));
            let second = items([0, 9_000, PAGE_BYTES - 40, PAGE_BYTES, 1]);
            let file = written(&[(b"first", first.clone()), (b"second", second.clone())]);
            assert!(read(&file, b"first") == first, "{count} items");
            assert!(read(&file, b"second") == second);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
        #[test]
        fn bbolt_writer_is_read_back(sizes in prop::collection::vec(prop_oneof![0_usize..60, 3_900..4_200_usize, 0..20_000_usize], 0..300)) {
            let items = items(sizes);
            let file = written(&[(b"key", items.clone())]);
            prop_assert!(read(&file, b"key") == items);
        }
    }
}
