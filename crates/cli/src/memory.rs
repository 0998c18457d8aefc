//! Memory that goes back to the system.
//!
//! The allocator gives it back on whatever thread asks for more when the time has come, and all at once: after a large
//! compaction that was a member's core loop, which stood still for 20 ms. A member does it here instead, now and then,
//! on a thread that nothing waits for.
//!
//! So does, once, the code that ran only while the member started: reading what was typed and what is on the disk touches more
//! than half of the program, and all of it would count as the member's for as long as it runs. What is needed again comes back from the
//! system's own memory, without a disk.

use std::{ffi::c_long, ops::Range, path::Path, time::Duration};

use libmimalloc_sys::{mi_collect, mi_option_set, mi_option_t};
use rustix::mm::{Advice, madvise};

/// After how many milliseconds memory goes back. The crate has no name for it; the number is that of `mimalloc.h`.
const PURGE_DELAY: mi_option_t = 15;
/// Longer than any member runs: by itself the allocator finds nothing to be due.
const NEVER_MS: c_long = 1 << 40;
/// How often it is done here.
const INTERVAL: Duration = Duration::from_secs(5);
/// When a member has started, and what it runs from then on shows.
const STARTED_AFTER: Duration = Duration::from_secs(1);
/// How nice the thread is to those that serve clients.
const NICENESS: i32 = 10;

/// From now on only a thread of its own gives memory back.
pub(crate) fn give_back_beside() {
    let spawned = std::thread::Builder::new().name("memory".to_owned()).spawn(|| {
        // If the system does not allow it, the thread only gets in the way a little more.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS);
        std::thread::sleep(STARTED_AFTER);
        let_code_go();
        loop {
            std::thread::sleep(INTERVAL);
            give_back();
        }
    });
    // Without the thread everything stays as the allocator does it.
    if spawned.is_ok() {
        hold_back();
    }
}

#[allow(unsafe_code)]
fn hold_back() {
    // SAFETY: options may be set at any time, by any thread; the allocator reads them as atomics.
    unsafe { mi_option_set(PURGE_DELAY, NEVER_MS) }
}

#[allow(unsafe_code)]
fn give_back() {
    // SAFETY: it may be called at any time, by any thread, and touches only unused memory.
    unsafe { mi_collect(true) }
}

/// Unmaps the program's own code; whatever is run next is mapped again.
fn let_code_go() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    let program = std::env::current_exe().unwrap_or_default();
    for range in maps.lines().filter_map(|line| code_in(line, &program)) {
        forget(range);
    }
}

/// The addresses in a line of `/proc/self/maps`, if it is about code of this program. Nothing else may be unmapped: what
/// looks read-only may have been written by the loader, and would be lost.
fn code_in(line: &str, program: &Path) -> Option<Range<usize>> {
    let mut words = line.split_ascii_whitespace();
    let (addresses, rights) = (words.next()?, words.next()?);
    let path = words.nth(3)?;
    if rights != "r-xp" || Path::new(path) != program {
        return None;
    }
    let (begin, end) = addresses.split_once('-')?;
    let parse = |address| usize::from_str_radix(address, 16).ok();
    Some(parse(begin)?..parse(end)?)
}

#[allow(unsafe_code)]
fn forget(code: Range<usize>) {
    let begin = std::ptr::with_exposed_provenance_mut(code.start);
    // SAFETY: the range is this program's code, mapped from its file, executable and never written: every page of it comes
    // back as it was with the next access.
    let _ = unsafe { madvise(begin, code.len(), Advice::LinuxDontNeed) };
}

#[cfg(test)]
mod tests {
    use libmimalloc_sys::mi_option_get;

    use super::*;

    /// A new version of the allocator may number its options anew.
    #[test]
    #[allow(unsafe_code)]
    fn memory_option_is_the_one_that_is_meant() {
        let set_by_the_environment = std::env::var_os("MIMALLOC_PURGE_DELAY").is_some();
        // SAFETY: options may be read at any time, by any thread.
        let before = unsafe { mi_option_get(PURGE_DELAY) };
        assert!(set_by_the_environment || before == 1000, "{before} is not its default");
        hold_back();
        // SAFETY: the same.
        assert_eq!(unsafe { mi_option_get(PURGE_DELAY) }, NEVER_MS);
        give_back();
    }

    #[test]
    fn memory_lets_code_run_on_that_was_let_go() {
        let program = std::env::current_exe().unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let code: Vec<_> = maps.lines().filter_map(|line| code_in(line, &program)).collect();
        let here = code_in as *const () as usize;
        assert!(code.iter().any(|range| range.contains(&here)), "{here:x} is not in {code:x?}");
        let_code_go();
        assert_eq!(
            code_in("00400000-00500000 r--p 00000000 fe:00 7 /bin/x", Path::new("/bin/x")),
            None
        );
        assert_eq!(
            code_in("00400000-00500000 r-xp 00000000 fe:00 7 /bin/x", Path::new("/bin/x")),
            Some(0x40_0000..0x50_0000)
        );
    }
}
