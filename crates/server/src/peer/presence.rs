//! A member's presence, and the incoming connection that stands for it.
//!
//! [`tenure_replica::presence`] has the rules. Here is what they need of sockets: a newer connection ends the one before.

use tenure_replica::presence::{CallNumber, Outlived, Presence as Rules};
use tokio::sync::oneshot;

/// What is known of one member's connections.
#[derive(Debug, Default)]
pub(super) struct Presence {
    rules: Rules,
    incoming: Option<Standing>,
}

#[derive(Debug)]
struct Standing {
    directory: u64,
    /// Dropped to end the connection.
    _keep: oneshot::Sender<()>,
}

/// An incoming connection's ticket.
#[derive(Debug)]
pub(super) struct Call {
    number: CallNumber,
    /// The member was lost and is there again.
    pub(super) returned: bool,
    /// Ends when another connection takes this one's place.
    pub(super) superseded: oneshot::Receiver<()>,
}

impl Presence {
    /// An incoming connection was accepted. It ends the one before.
    pub(super) fn called(&mut self, boot: u64, directory: u64) -> Result<Call, Outlived> {
        let called = self.rules.called(boot)?;
        let (keep, superseded) = oneshot::channel();
        self.incoming = Some(Standing { directory, _keep: keep });
        Ok(Call { number: called.number, returned: called.returned, superseded })
    }

    /// An outgoing connection was accepted by the other side.
    pub(super) fn answered(&mut self, boot: u64) -> Result<(), Outlived> {
        self.rules.answered(boot)
    }

    /// The newest life that has answered our call; 0 if none has.
    pub(super) fn life(&self) -> u64 {
        self.rules.life()
    }

    /// An incoming connection ended. Answers whether that is a loss.
    pub(super) fn hung_up(&mut self, call: &Call) -> bool {
        self.rules.hung_up(call.number)
    }

    /// The outgoing connection to this life ended. Answers whether that is a loss.
    pub(super) fn broke(&mut self, boot: u64) -> bool {
        self.rules.broke(boot)
    }

    /// Ends the incoming connection. Answers whether that is a loss.
    pub(super) fn dismiss(&mut self) -> bool {
        self.incoming = None;
        self.rules.dismiss()
    }

    /// Ends an incoming connection of another data directory than this. Answers whether that is a loss.
    pub(super) fn expect_directory(&mut self, directory: u64) -> bool {
        let is_other = |standing: &Standing| standing.directory != directory;
        self.incoming.as_ref().is_some_and(is_other) && self.dismiss()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use oneshot::error::TryRecvError;

    use super::*;

    fn is_ended(call: &mut Call) -> bool {
        call.superseded.try_recv().is_err_and(|error| error == TryRecvError::Closed)
    }

    #[test]
    fn presence_ends_a_connection_that_another_one_replaces() {
        let mut presence = Presence::default();
        let mut old = presence.called(1, 7).unwrap();
        assert!(!is_ended(&mut old));
        let mut new = presence.called(1, 7).unwrap();
        assert!(is_ended(&mut old) && !is_ended(&mut new));
        assert!(!presence.hung_up(&old) && presence.hung_up(&new));
    }

    #[test]
    fn presence_ends_a_connection_of_another_directory() {
        let mut presence = Presence::default();
        let mut call = presence.called(1, 7).unwrap();
        assert!(!presence.expect_directory(7));
        assert!(!is_ended(&mut call));
        assert!(presence.expect_directory(8), "nothing else stood");
        assert!(is_ended(&mut call));
        assert!(!presence.hung_up(&call), "it was ended here");
    }
}
