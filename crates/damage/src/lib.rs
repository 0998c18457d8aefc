//! Bytes as a bad disk, a broken peer or a stranger would hand them in. For tests only.
//!
//! Whoever reads bytes from outside promises four things of any bytes at all: no panic, an end, no
//! memory out of proportion, and that what was read means the same when it is written and read again.
//! Random bytes prove little, because they are refused at the first tag. So [`damaged`] takes what is
//! sound and hurts it: bits flip, ends are missing, pieces come twice or in another's place, numbers
//! become huge. A checksum would catch all of that at the door; a test seals the damaged bytes with a
//! right one, so that the reader behind the door sees them.
//!
//! [`hold`] runs the cases, [`frugally`] watches the memory. Linking this crate replaces the allocator
//! of a test binary by one that counts.
//!
//! [`Golden`] is the other side of it: sound bytes that must mean the same for ever.
//!
//! It is a crate of its own because every crate's tests use it and none of them shall carry it, nor the
//! one piece of unsafe code in it, into what is shipped. It knows no format.

mod allocation;
mod effort;
mod golden;
mod wounds;

pub use allocation::{bytes_max, bytes_taken, frugally};
pub use effort::hold;
pub use golden::Golden;
pub use wounds::{Damaged, Wounds, damaged, damaged_text, spoilt};
