//! Memory that goes back to the system.
//!
//! The allocator gives it back on whatever thread asks for more when the time has come, and all at once: after a large
//! compaction that was a member's core loop, which stood still for 20 ms. A member does it here instead, now and then,
//! on a thread that nobody waits for.

use std::{ffi::c_long, time::Duration};

use libmimalloc_sys::{mi_collect, mi_option_set, mi_option_t};

/// After how many milliseconds memory goes back. The crate has no name for it; the number is that of `mimalloc.h`.
const PURGE_DELAY: mi_option_t = 15;
/// Longer than any member runs: by itself the allocator finds nothing to be due.
const NEVER_MS: c_long = 1 << 40;
/// How often it is done here.
const INTERVAL: Duration = Duration::from_secs(5);
/// How nice the thread is to those that serve clients.
const NICENESS: i32 = 10;

/// From now on only a thread of its own gives memory back.
pub(crate) fn give_back_beside() {
    let spawned = std::thread::Builder::new().name("memory".to_owned()).spawn(|| {
        // If the system does not allow it, the thread only gets in the way a little more.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS);
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
    // SAFETY: it may be called at any time, by any thread, and touches only what nobody uses.
    unsafe { mi_collect(true) }
}

#[cfg(test)]
mod tests {
    use libmimalloc_sys::mi_option_get;

    use super::*;

    /// A new version of the allocator may number its options anew.
    #[test]
    #[allow(unsafe_code)]
    fn the_option_is_the_one_that_is_meant() {
        let set_by_the_environment = std::env::var_os("MIMALLOC_PURGE_DELAY").is_some();
        // SAFETY: options may be read at any time, by any thread.
        let before = unsafe { mi_option_get(PURGE_DELAY) };
        assert!(set_by_the_environment || before == 1000, "{before} is not its default");
        hold_back();
        // SAFETY: the same.
        assert_eq!(unsafe { mi_option_get(PURGE_DELAY) }, NEVER_MS);
        give_back();
    }
}
