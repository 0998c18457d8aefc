//! Whether the other side of a connection is still there, as far as the kernel can find out.
//!
//! A process that ends closes its connections, and its kernel says so. A machine that loses its power, or a network
//! that drops packets, says nothing; and a side that only waits for news never sends anything that could go unanswered.

use std::{io, time::Duration};

use rustix::net::sockopt;
use tokio::net::TcpStream;

/// What the kernel is to find out, and how soon.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Liveness {
    /// How long sent bytes, and questions whether it is there, may stay unacknowledged. Without this, the kernel
    /// would go on for many minutes after a partition, and wait long between its attempts when the partition is over.
    ///
    /// A receiver that is there but takes nothing, so that its window stays shut, has the same time.
    pub(crate) unacknowledged_max: Duration,
    /// After this silence the kernel asks whether the other side is still there, in whole seconds.
    pub(crate) ask_after: Duration,
    /// How often it asks then.
    pub(crate) ask_every: Duration,
}

impl Liveness {
    /// Lets the kernel look after a connection.
    pub(crate) fn watch(&self, stream: &TcpStream) -> io::Result<()> {
        sockopt::set_tcp_user_timeout(stream, self.unacknowledged_max.as_millis() as u32)?;
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, self.ask_after)?;
        sockopt::set_tcp_keepintvl(stream, self.ask_every)?;
        Ok(())
    }
}
