//! Those who ask.
//!
//! A client is a small machine of its own: its turn comes, it asks something, and the answer (or the
//! death of the member it asked) gives it its next turn.

mod candidate;
mod holder;
mod mover;
mod operator;
mod probe;
mod registers;
mod ruler;
mod stock;
mod watcher;

pub use candidate::Candidate;
pub use holder::Holder;
pub use mover::Mover;
pub use operator::Operator;
pub use probe::Probe;
pub use registers::Registers;
pub use ruler::Ruler;
pub use stock::Stock;
pub use watcher::Watcher;

use tenure_replica::{
    Answer,
    queue::listeners::{LineNews, Listener},
    watch::{WatchNews, WatchStream},
};

use crate::{
    cluster::{World, member::Number},
    invariants::one_answer::Open,
};

pub trait Client {
    fn turn(&mut self, me: usize, world: &mut World);

    fn answered(&mut self, _me: usize, _world: &mut World, _open: &Open, _answer: &Answer) {}

    /// The member that was asked is dead, and with it the answer.
    fn lost(&mut self, _me: usize, _world: &mut World, _open: &Open) {}

    fn told(&mut self, _me: usize, _world: &mut World, _stream: WatchStream, _news: &WatchNews) {}

    /// Word of a line that this client listens to at a member.
    fn line_news(&mut self, _me: usize, _world: &mut World, _to: Listener, _news: &LineNews) {}

    /// A member died, whether we had asked it something or not.
    fn member_gone(&mut self, _me: usize, _world: &mut World, _member: Number) {}

    /// Everything has come to rest: what should have been heard by now?
    fn settled(&mut self, _world: &mut World) {}
}
