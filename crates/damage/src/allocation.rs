//! How much memory reading takes.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

/// How much memory reading may take for each byte that is read. The smallest things take a byte or two
/// and become a `String` or an id with its place in a list, which keeps room for as many again.
const BYTES_FOR_EACH: usize = 64;
/// What reading may take whatever is read: buffers of files and sockets.
const BYTES_ANYHOW: usize = 1 << 20;

/// The most memory that reading so many bytes may take at any moment.
pub fn bytes_max(input_bytes: usize) -> usize {
    BYTES_FOR_EACH * input_bytes + BYTES_ANYHOW
}

/// Reads, and panics if more memory was held meanwhile than [`bytes_max`] allows. What is read must be
/// in memory already. Only this thread is watched.
pub fn frugally<T>(input_bytes: usize, read: impl FnOnce() -> T) -> T {
    let (value, taken) = bytes_taken(read);
    let max = bytes_max(input_bytes);
    assert!(taken <= max, "reading {input_bytes} bytes took {taken} bytes, {max} are allowed");
    value
}

/// Does something, and tells how much more memory this thread held meanwhile, at most.
pub fn bytes_taken<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    PEAK.set(before);
    let value = work();
    (value, usize::try_from(PEAK.get() - before).unwrap_or(0))
}

thread_local! {
    /// What this thread has taken and not given back. Below zero if it frees what others took.
    static HELD: Cell<isize> = const { Cell::new(0) };
    /// The most that it was since somebody began to watch.
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    let held = HELD.get() + bytes;
    HELD.set(held);
    PEAK.set(PEAK.get().max(held));
}

/// A layout is never longer than that.
fn signed(bytes: usize) -> isize {
    isize::try_from(bytes).expect("an allocation is at most isize::MAX bytes long")
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: everything is handed to the system's allocator as it came. Counting touches nothing but two
// numbers of this thread, which need no memory of their own and no destructor.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: the caller keeps this function's contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-signed(layout.size()));
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(signed(bytes) - signed(layout.size()));
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_proportion_is_let_through() {
        let kept = frugally(100, || vec![0u8; bytes_max(100)]);
        // What was taken before does not count again.
        assert_eq!(frugally(100, || kept.clone()).len(), kept.len());
    }

    #[test]
    #[should_panic(expected = "are allowed")]
    fn what_is_out_of_proportion_is_noticed_though_it_was_given_back() {
        frugally(100, || drop(vec![0u8; bytes_max(100) + 1]));
    }
}
