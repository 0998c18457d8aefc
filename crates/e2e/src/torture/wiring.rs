//! What lies between the members: namespaces with packets that are dropped, or relays that hold back.

use std::{env, time::Duration};

use super::Switchboard;
use crate::{Address, Member, Network, tools};

/// Chooses one of the two for any user: `namespaces` or `relays`.
const CHOICE: &str = "TENURE_NETWORK";
/// How fast a slow member sends, and how long it takes over a relay.
const SLOW_RATE: &str = "4mbit";
const SLOW_DELAY: Duration = Duration::from_millis(40);

/// The lines between members.
#[derive(Debug)]
pub enum Wiring {
    /// A namespace for each member.
    Namespaces(Network),
    /// Relays in this process.
    Relays(Switchboard),
}

impl Wiring {
    /// Namespaces for root and relays for other users, unless told otherwise.
    pub async fn new(count: usize) -> Wiring {
        let chosen = env::var(CHOICE).ok();
        let namespaces = match chosen.as_deref() {
            Some("namespaces") => true,
            Some("relays") => false,
            Some(other) => panic!("{CHOICE}={other}: it is namespaces or relays"),
            None => tools::is_root(),
        };
        if namespaces {
            Wiring::Namespaces(Network::new(count))
        } else {
            Wiring::Relays(Switchboard::new(count).await)
        }
    }

    /// What it is.
    pub fn name(&self) -> &'static str {
        match self {
            Wiring::Namespaces(_) => "network namespaces",
            Wiring::Relays(_) => "relays",
        }
    }

    /// Where members are reached, by clients and by each other.
    pub fn addresses(&self, count: usize) -> Vec<(Address, Address)> {
        match self {
            Wiring::Namespaces(network) => network.addresses(count),
            Wiring::Relays(board) => {
                board.places.iter().map(|[client, relay, _]| (*client, *relay)).collect()
            }
        }
    }

    /// Says how the member of this index is to be started.
    pub fn place(&self, at: usize, member: &mut Member) {
        match self {
            Wiring::Namespaces(network) => member.spawn.before = network.inside(at),
            Wiring::Relays(board) => member.moved_to = Some(board.places[at][2]),
        }
    }

    /// The member of this index was started.
    pub fn started(&self, at: usize, pid: u32) {
        if let Wiring::Relays(board) = self {
            board.started(at, pid);
        }
    }

    /// Nothing gets from one to the other any more. Neither side is told.
    pub fn cut_one_way(&self, from: usize, to: usize) {
        match self {
            Wiring::Namespaces(network) => network.cut_one_way(from, to),
            Wiring::Relays(board) => board.cut_one_way(from, to),
        }
    }

    /// Two members lose each other.
    pub fn cut(&self, a: usize, b: usize) {
        self.cut_one_way(a, b);
        self.cut_one_way(b, a);
    }

    /// So many of a hundred packets are lost.
    pub fn lose(&self, of_hundred: usize) {
        match self {
            Wiring::Namespaces(network) => network.lose(of_hundred as f32 / 100.0),
            Wiring::Relays(board) => board.lose(of_hundred),
        }
    }

    /// What this member sends gets through slowly.
    pub fn slow(&self, at: usize) {
        match self {
            Wiring::Namespaces(network) => network.slow(at, SLOW_RATE),
            Wiring::Relays(board) => board.slow(at, SLOW_DELAY),
        }
    }

    /// Mends everything.
    pub fn heal(&self) {
        match self {
            Wiring::Namespaces(network) => network.heal(),
            Wiring::Relays(board) => board.heal(),
        }
    }
}
