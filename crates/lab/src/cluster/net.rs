//! The network between members: links, connections, and what each member knows of its connections.
//!
//! Two members have two connections, one made by each. Messages travel on the connection that their sender made, and
//! each can break by itself. The shipped rules ([`tenure_replica::presence`]) decide from socket events whether a member
//! takes another for present.

use std::collections::BTreeMap;

use tenure_replica::{
    Moment,
    presence::{CallNumber, Presence},
};

use crate::{
    cluster::member::MemberNumber,
    engine::{Dice, Links, RunCounts},
};

/// The number of a connection. It is never used again.
pub type ConnectionId = u64;

/// An open connection.
#[derive(Clone, Copy, Debug)]
struct Connection {
    id: ConnectionId,
    /// The lives of the caller and the called.
    lives: (u64, u64),
    /// The caller has the answer, and sends.
    open: bool,
}

/// An event that a member's socket reports.
#[derive(Clone, Copy, Debug)]
pub enum ConnectionEvent {
    /// Another member has connected.
    Called,
    /// The other member has accepted the connection.
    Answered,
    /// An incoming connection ended.
    HungUp,
    /// An outgoing connection ended.
    Broke,
}

/// What a member concludes from its socket events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresenceChange {
    Connected,
    Lost,
}

/// What one member knows of its connections with another.
#[derive(Debug, Default)]
struct PeerPresence {
    presence: Presence,
    incoming: Option<(ConnectionId, CallNumber)>,
    /// The outgoing connection, and the life of the other member's process.
    outgoing: Option<(ConnectionId, u64)>,
}

#[derive(Debug, Default)]
pub struct MemberNetwork {
    pub links: Links,
    /// Open connections, by caller and called.
    connections: BTreeMap<(MemberNumber, MemberNumber), Connection>,
    /// What each member knows of each other one.
    seen: BTreeMap<(MemberNumber, MemberNumber), PeerPresence>,
    last: ConnectionId,
}

impl MemberNetwork {
    /// When a message arrives: never, once, or twice.
    pub fn arrivals(
        &mut self,
        now: Moment,
        from: MemberNumber,
        to: MemberNumber,
        dice: &mut Dice,
        counts: &mut RunCounts,
    ) -> Vec<Moment> {
        if !self.connections.get(&(from, to)).is_some_and(|connection| connection.open) {
            return vec![];
        }
        self.links.arrivals(now, from, to, dice, counts)
    }

    /// Whether messages from the first life reach the second.
    pub fn carries(&self, from: (MemberNumber, u64), to: (MemberNumber, u64)) -> bool {
        let connection = self.connections.get(&(from.0, to.0));
        connection.is_some_and(|connection| connection.open && connection.lives == (from.1, to.1))
    }

    /// Whether the connection that `caller` made is open.
    pub fn is_connected(&self, caller: MemberNumber, called: MemberNumber) -> bool {
        self.connections.contains_key(&(caller, called))
    }

    /// Opens a connection. The caller does not know it yet.
    pub fn connect(
        &mut self,
        caller: (MemberNumber, u64),
        called: (MemberNumber, u64),
    ) -> ConnectionId {
        self.last += 1;
        let connection = Connection { id: self.last, lives: (caller.1, called.1), open: false };
        self.connections.insert((caller.0, called.0), connection);
        self.last
    }

    /// Ends the connection that `caller` made, if it is open.
    pub fn disconnect(
        &mut self,
        caller: MemberNumber,
        called: MemberNumber,
    ) -> Option<ConnectionId> {
        self.connections.remove(&(caller, called)).map(|connection| connection.id)
    }

    /// The member's process has ended, and with it all that it knew.
    pub fn forget(&mut self, observer: MemberNumber) {
        self.seen.retain(|(whose, _), _| *whose != observer);
    }

    /// The member forgets another one.
    pub fn forget_peer(&mut self, observer: MemberNumber, peer: MemberNumber) {
        self.seen.remove(&(observer, peer));
    }

    /// Handles an event of a member's socket. Returns what the member concludes, in order.
    pub fn on_event(
        &mut self,
        (observer, peer): (MemberNumber, MemberNumber),
        id: ConnectionId,
        event: ConnectionEvent,
    ) -> Vec<PresenceChange> {
        let seen = self.seen.entry((observer, peer)).or_default();
        let told = |is: bool, what: PresenceChange| is.then_some(what).into_iter().collect();
        match event {
            // The end of a connection may overtake the report of its begin.
            ConnectionEvent::Called => {
                let Some(connection) = self.connections.get(&(peer, observer)) else {
                    return vec![];
                };
                if connection.id != id {
                    return vec![];
                }
                let Ok(called) = seen.presence.called(connection.lives.0) else { return vec![] };
                seen.incoming = Some((id, called.number));
                told(called.returned, PresenceChange::Connected)
            }
            ConnectionEvent::Answered => {
                let connection = self.connections.get_mut(&(observer, peer));
                let Some(connection) = connection.filter(|one| one.id == id) else { return vec![] };
                let boot = connection.lives.1;
                // A member that connects again knows that its last connection is gone.
                let before = seen.outgoing.take();
                let lost = before.is_some_and(|(_, boot)| seen.presence.broke(boot));
                let mut news = told(lost, PresenceChange::Lost);
                if seen.presence.answered(boot).is_ok() {
                    seen.outgoing = Some((id, boot));
                    connection.open = true;
                    news.push(PresenceChange::Connected);
                }
                news
            }
            ConnectionEvent::HungUp => {
                let ended = seen.incoming.take_if(|(incoming, _)| *incoming == id);
                let lost = ended.is_some_and(|(_, number)| seen.presence.hung_up(number));
                told(lost, PresenceChange::Lost)
            }
            ConnectionEvent::Broke => {
                let ended = seen.outgoing.take_if(|(outgoing, _)| *outgoing == id);
                let lost = ended.is_some_and(|(_, boot)| seen.presence.broke(boot));
                told(lost, PresenceChange::Lost)
            }
        }
    }
}
