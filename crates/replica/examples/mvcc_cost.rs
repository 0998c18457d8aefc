//! What the store costs: `MIMALLOC_PURGE_DELAY=-1 cargo run --release -p tenure-replica --example
//! mvcc_cost [keys]`. The variable keeps memory once touched: the first touch of a page costs some
//! microseconds in the kernel, more than a put, and says nothing about the store.

use std::{
    alloc::{GlobalAlloc, Layout},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use bytes::Bytes;
use mimalloc::MiMalloc;
use tenure_api::{Put, Range, Span, op::PutLease};
use tenure_replica::mvcc::{Restore, Store};

/// Counts what is allocated, rounded as a common allocator rounds (16 bytes).
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

#[allow(unsafe_code)]
// Hands every call on to the server's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size().next_multiple_of(16), Relaxed);
        unsafe { MiMalloc.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size().next_multiple_of(16), Relaxed);
        unsafe { MiMalloc.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const VALUE_BYTES: usize = 256;
const SAMPLE: u64 = 100_000;

fn main() {
    let keys: u64 = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(1_000_000);
    drop((filled(keys), filled(keys), filled(keys)));
    let before = ALLOCATED.load(Relaxed);
    let mut store = Store::new();
    puts("put, new keys, into an empty store", &mut store, 0..SAMPLE);
    for at in SAMPLE..keys {
        put(&mut store, at);
    }
    let key_and_value = key(0).len() + VALUE_BYTES;
    let per_key = (ALLOCATED.load(Relaxed) - before) / store.len();
    println!("{} keys: {per_key} bytes each, {key_and_value} of them key and value", store.len());

    puts("put, new keys", &mut store, keys..keys + SAMPLE);
    puts("put, existing keys", &mut store, 0..SAMPLE);
    let frozen = store.clone();
    puts("put, new keys, beside a frozen clone", &mut store, keys + SAMPLE..keys + 2 * SAMPLE);
    let again = store.clone();
    puts("put, existing keys, beside a frozen clone", &mut store, SAMPLE..2 * SAMPLE);
    puts("put, one key, beside a frozen clone", &mut store, [7; SAMPLE as usize].into_iter());

    let start = Cpu::now();
    let mut found = 0;
    for at in 0..SAMPLE {
        found += usize::from(store.get(&key(at)).is_some());
    }
    println!("get: {} ns ({found} found)", per(start.elapsed(), SAMPLE));
    let start = Cpu::now();
    for at in 0..SAMPLE {
        let range = Range::all(Span::One(key(at)));
        found += store.range(&range).map_or(0, |answer| answer.kvs.len());
    }
    println!("range of one key: {} ns ({found} found)", per(start.elapsed(), SAMPLE));

    // Twice: the first restore pays for memory that was not touched yet.
    drop(snapshot(&store));
    drop(snapshot(&store));
    let start = Cpu::now();
    let hash = store.hash(None).expect("the newest revision can be hashed");
    println!("hash: {:?} ({:08x})", start.elapsed(), hash.hash);

    let start = Cpu::now();
    drop((frozen, again));
    println!("drop of two frozen clones: {:?}", start.elapsed());
    sweep(&mut store);
    let per_key = (ALLOCATED.load(Relaxed) - before) / store.len();
    println!("{} keys after the sweep: {per_key} bytes each", store.len());
    let restored = snapshot(&store);
    drop(store);
    let per_key = (ALLOCATED.load(Relaxed) - before) / restored.len();
    println!("{} keys restored: {per_key} bytes each", restored.len());
}

fn filled(keys: u64) -> Store {
    let mut store = Store::new();
    for number in 0..keys {
        put(&mut store, number);
    }
    store
}

/// Time that this thread really ran: the machine may be shared.
struct Cpu(Duration);

impl Cpu {
    fn now() -> Cpu {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let nanos = stat.split(' ').next().and_then(|first| first.parse().ok());
        Cpu(Duration::from_nanos(nanos.unwrap_or_default()))
    }

    fn elapsed(&self) -> Duration {
        Cpu::now().0.saturating_sub(self.0)
    }
}

fn puts(what: &str, store: &mut Store, numbers: impl Iterator<Item = u64>) {
    let requests: Vec<Put> = numbers.map(request).collect();
    let mut times: Vec<Duration> = Vec::with_capacity(requests.len());
    let cpu = Cpu::now();
    for put in &requests {
        let start = Instant::now();
        let answer = store.put(put, &|_| true);
        times.push(start.elapsed());
        assert!(answer.is_ok());
    }
    let cpu = cpu.elapsed();
    times.sort_unstable();
    let at = |per_mille: usize| times[(times.len() - 1) * per_mille / 1000];
    println!(
        "{what}: {} ns of CPU, p50 {:?}, p99 {:?}, p99.9 {:?}, worst {:?}",
        per(cpu, times.len() as u64),
        at(500),
        at(990),
        at(999),
        at(1000),
    );
}

fn put(store: &mut Store, number: u64) {
    store.put(&request(number), &|_| true).expect("a plain put is never refused");
}

fn request(number: u64) -> Put {
    Put {
        key: key(number),
        value: Some(Bytes::from(vec![number as u8; VALUE_BYTES])),
        lease: PutLease::Set(None),
        prev_kv: false,
    }
}

/// Scattered over the key space: the worst case for caches.
fn key(number: u64) -> Bytes {
    format!("service/{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into()
}

fn snapshot(store: &Store) -> Store {
    let start = Cpu::now();
    let chunks: Vec<_> = store.chunks().collect();
    let bytes: usize = chunks.iter().map(Vec::len).sum();
    println!("snapshot: {:?}, {} chunks, {} MB", start.elapsed(), chunks.len(), bytes / 1_000_000);
    let start = Cpu::now();
    let mut restore = Restore::new();
    for chunk in &chunks {
        restore.chunk(chunk).expect("our own chunk");
    }
    let restored = restore.finish().expect("all chunks were given");
    println!("restore: {:?}", start.elapsed());
    assert_eq!(restored.hash(None), store.hash(None));
    restored
}

fn sweep(store: &mut Store) {
    store.compact(store.revision()).expect("the newest revision can be compacted");
    let versions = store.revision().0 as u64;
    let mut worst = Duration::ZERO;
    let start = Cpu::now();
    loop {
        let step = Instant::now();
        let more = store.sweep(100);
        worst = worst.max(step.elapsed());
        if !more {
            break;
        }
    }
    let total = start.elapsed();
    println!("sweep: {} ns an event, worst step of 100 {worst:?}", per(total, versions));
}

fn per(total: Duration, count: u64) -> u128 {
    total.as_nanos() / u128::from(count)
}
