//! Clients of a simulated cluster.
//!
//! A client is a state machine: on its turn it sends a request, and the answer (or the death of the member) schedules
//! its next turn.

mod candidate;
mod lease;
mod operators;
mod probe;
mod registers;
mod stock;
mod users;
mod watch;

pub use candidate::CandidateClient;
pub use lease::LeaseClient;
pub use operators::{AdminClient, MembershipClient, MoveLeaderClient};
pub use probe::ProbeClient;
pub use registers::RegisterClient;
pub use stock::StockClient;
pub use users::{UserClient, root};
pub use watch::WatchClient;

use tenure_replica::{
    Answer,
    election::listeners::{Listener, ListenerEvent},
    watch::{WatchNews, WatchStream},
};

use crate::{
    cluster::{World, member::MemberNumber},
    invariants::one_answer::OpenRequest,
};

pub trait SimClient {
    fn turn(&mut self, me: usize, world: &mut World);

    fn answered(&mut self, _me: usize, _world: &mut World, _open: &OpenRequest, _answer: &Answer) {}

    /// The member that was asked has died, and with it the answer.
    fn lost(&mut self, _me: usize, _world: &mut World, _open: &OpenRequest) {}

    fn watch_news(
        &mut self,
        _me: usize,
        _world: &mut World,
        _stream: WatchStream,
        _news: &WatchNews,
    ) {
    }

    /// An event of an election that this client listens to at a member.
    fn election_news(
        &mut self,
        _me: usize,
        _world: &mut World,
        _to: Listener,
        _news: &ListenerEvent,
    ) {
    }

    /// A member has died, whether it had a request of this client or not.
    fn member_gone(&mut self, _me: usize, _world: &mut World, _member: MemberNumber) {}

    /// The run has come to rest: checks what this client must have received by now.
    fn settled(&mut self, _world: &mut World) {}
}
