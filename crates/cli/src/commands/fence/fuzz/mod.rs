//! Input that was damaged at random.
//!
//! A request that the upstream finds inside another, or an answer that a client takes for that to its next
//! request, is a way around the fence. hyper reads and writes all messages; [`proxy`] sends damaged ones
//! through the real proxy, and [`messages`] reads what comes out on the other side in its own way.

mod messages;
mod names;
mod proxy;
