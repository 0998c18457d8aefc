//! Whether another member is there, judged from connections that come and go out of order.
//!
//! When a process dies, its kernel closes all its connections at once, but we see their ends one after the other,
//! and a restarted process may have called again in between. What decides:
//!
//! - An incoming connection that ends is a loss, unless a newer one has taken its place.
//! - An outgoing connection that ends is a loss only if no incoming one stands. If one stands, its end
//!   will follow when the process is gone, *after* everything it said: a loss that overtakes the
//!   last messages would be undone by them.
//! - Nothing that an earlier life of the process leaves behind counts.
//! - One loss is told once.

use tokio::sync::oneshot;

/// What is known of one member's connections.
#[derive(Debug, Default)]
pub(super) struct Presence {
    /// The newest life that we have heard of.
    boot: u64,
    /// Counts incoming connections; the newest is the one that counts.
    calls: u64,
    incoming: Option<Standing>,
    /// Something stood since the last loss was told.
    present: bool,
}

#[derive(Debug)]
struct Standing {
    call: u64,
    directory: u64,
    /// Dropped to end the connection.
    _keep: oneshot::Sender<()>,
}

/// An incoming connection's ticket.
#[derive(Debug)]
pub(super) struct Call {
    number: u64,
    /// Ends when another connection takes this one's place.
    pub(super) superseded: oneshot::Receiver<()>,
}

impl Presence {
    /// An incoming connection was accepted. It ends the one before. An answer of `Err` names the
    /// newer life that has already called.
    pub(super) fn called(&mut self, boot: u64, directory: u64) -> Result<Call, u64> {
        self.see(boot)?;
        self.calls += 1;
        let (keep, superseded) = oneshot::channel();
        self.incoming = Some(Standing { call: self.calls, directory, _keep: keep });
        Ok(Call { number: self.calls, superseded })
    }

    /// An outgoing connection was accepted by the other side.
    pub(super) fn answered(&mut self, boot: u64) -> Result<(), u64> {
        self.see(boot)
    }

    fn see(&mut self, boot: u64) -> Result<(), u64> {
        if boot < self.boot {
            return Err(self.boot);
        }
        self.boot = boot;
        self.present = true;
        Ok(())
    }

    /// An incoming connection ended. Answers whether that is a loss.
    pub(super) fn hung_up(&mut self, call: &Call) -> bool {
        if self.incoming.as_ref().is_none_or(|standing| standing.call != call.number) {
            return false;
        }
        self.incoming = None;
        std::mem::take(&mut self.present)
    }

    /// The outgoing connection to this life ended. Answers whether that is a loss.
    pub(super) fn broke(&mut self, boot: u64) -> bool {
        if boot < self.boot || self.incoming.is_some() {
            return false;
        }
        std::mem::take(&mut self.present)
    }

    /// Ends the incoming connection of a member that is one no longer.
    pub(super) fn dismiss(&mut self) {
        self.incoming = None;
    }

    /// Ends an incoming connection of another data directory than this.
    pub(super) fn expect_directory(&mut self, directory: u64) {
        if self.incoming.as_ref().is_some_and(|standing| standing.directory != directory) {
            self.incoming = None;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_process_is_lost_once() {
        let mut presence = Presence::default();
        let call = presence.called(1, 0).unwrap();
        presence.answered(1).unwrap();
        assert!(!presence.broke(1), "its last words may still be on the way");
        assert!(presence.hung_up(&call));
        assert!(!presence.broke(1));
    }

    #[test]
    fn without_an_incoming_connection_the_outgoing_one_counts() {
        let mut presence = Presence::default();
        presence.answered(1).unwrap();
        assert!(presence.broke(1));
        assert!(!presence.broke(1));
    }

    #[test]
    fn the_end_of_an_old_connection_is_no_loss() {
        let mut presence = Presence::default();
        let old = presence.called(1, 0).unwrap();
        let new = presence.called(1, 0).unwrap();
        assert!(!presence.hung_up(&old));
        assert!(presence.hung_up(&new));
    }

    #[test]
    fn an_earlier_life_cannot_disturb_a_later_one() {
        let mut presence = Presence::default();
        presence.answered(1).unwrap();
        let call = presence.called(2, 0).unwrap();
        assert!(!presence.broke(1));
        assert_eq!(presence.called(1, 0).unwrap_err(), 2);
        assert!(presence.hung_up(&call));
        assert!(!presence.broke(1));
    }

    #[test]
    fn a_connection_of_another_directory_is_ended() {
        let mut presence = Presence::default();
        let mut call = presence.called(1, 7).unwrap();
        presence.expect_directory(7);
        assert!(
            call.superseded.try_recv().is_err_and(|e| e == oneshot::error::TryRecvError::Empty)
        );
        presence.expect_directory(8);
        assert!(
            call.superseded.try_recv().is_err_and(|e| e == oneshot::error::TryRecvError::Closed)
        );
    }
}
