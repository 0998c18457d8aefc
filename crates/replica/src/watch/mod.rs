//! Watches: the keys that each watcher wants to hear of, and how far it has heard.
//!
//! A watcher is *in step* when it has been told of everything up to the newest revision. Those in
//! step are in an `Index` and are told of a change as it is applied; watchers of the same keys
//! share one list of events, which is built (and, in the server, encoded) once for all of them. A
//! watcher that starts in the past, or whose stream does not drain, is *behind*: it is served from
//! the store's history at its own pace and never makes others wait. If compaction overtakes it, it
//! is cancelled and told so; there is never a silent gap.

mod index;
mod news;
mod watchers;

pub use index::Interest;
pub use news::{Told, WatchCreate, WatchId, WatchInput, WatchNews, WatchRefusal, WatchStream};
pub use watchers::{WatchLimits, Watchers};
