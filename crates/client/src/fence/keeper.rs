//! What stands behind all clones of a gate: its [`Book`], a way to wait for a change of it, and the disk.
//!
//! No token is admitted that the disk does not have. A call that needs an edition of the book written down writes it,
//! unless another call is writing; what was seen in the meantime is in the next one.

use std::{
    fmt, io,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use super::book::{Book, Held, Place};
use super::disk::Disk;
use super::{FencingToken, Hold, Obstacle, Pass, Refusal, file};

/// What all clones of a gate share.
#[derive(Debug)]
pub(super) struct Keeper {
    state: Mutex<State>,
    /// Notified whenever a token left, a newer token was seen, or the disk answered.
    pub(super) changed_async: Notify,
    pub(super) changed: Condvar,
    /// The longest wait of one call.
    pub(super) patience: Duration,
    disk: Option<Box<dyn Disk>>,
    /// Told how long each write took.
    listener: Listener,
}

/// The callback that is told how long each write took.
#[derive(Default)]
struct Listener(OnceLock<Box<dyn Fn(Duration) + Send + Sync>>);

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

/// What changes.
#[derive(Debug)]
pub(super) struct State {
    book: Book,
    /// The edition of the book that the disk has.
    durable: u64,
    /// An edition is being written down.
    writing: bool,
    broken: Option<Arc<io::Error>>,
}

/// What a call whose token was seen has to do next.
pub(super) enum Step {
    In(Place),
    /// Write the book down; no other call does.
    Write,
    Wait(Obstacle),
}

impl Keeper {
    pub(super) fn new(book: Book, patience: Duration, disk: Option<Box<dyn Disk>>) -> Keeper {
        // Without a disk every edition counts as written.
        let durable = if disk.is_some() { 0 } else { u64::MAX };
        let state = State { book, durable, writing: false, broken: None };
        Keeper {
            state: Mutex::new(state),
            changed_async: Notify::new(),
            changed: Condvar::new(),
            patience,
            disk,
            listener: Listener::default(),
        }
    }

    pub(super) fn when_written(&self, tell: Box<dyn Fn(Duration) + Send + Sync>) {
        let _ = self.listener.0.set(tell);
    }

    /// A panic while the lock is held would leave the book as it was before or after one change of
    /// one line, both of which are good; so poisoning tells nothing.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a token; answers the edition of the book that the disk must have.
    pub(super) fn see(&self, pass: &Pass<'_>) -> Result<u64, Refusal> {
        let mut state = self.lock();
        state.usable()?;
        let before = state.book.edition();
        let edition = state.book.see(pass)?;
        let newer = state.book.edition() != before;
        drop(state);
        if newer {
            // Calls that wait with an older token have been overtaken.
            self.tell();
        }
        Ok(edition)
    }

    pub(super) fn step(&self, pass: &Pass<'_>, edition: u64) -> Result<Step, Refusal> {
        self.lock().step(pass, edition)
    }

    pub(super) fn in_force(&self, place: &Place) -> Option<FencingToken> {
        self.lock().book.in_force(place)
    }

    pub(super) fn overtaken(&self, place: &Place, token: FencingToken, shared: bool) -> bool {
        self.lock().book.overtaken(place, token, shared)
    }

    pub(super) fn leave(&self, place: &Place, token: FencingToken, shared: bool) {
        self.lock().book.leave(place, token, shared);
        self.tell();
    }

    fn tell(&self) {
        self.changed.notify_all();
        self.changed_async.notify_waiters();
    }
}

impl State {
    pub(super) fn edition(&self) -> u64 {
        self.book.edition()
    }

    pub(super) fn broken(&self) -> Option<Arc<io::Error>> {
        self.broken.clone()
    }

    fn usable(&self) -> Result<(), Refusal> {
        match &self.broken {
            Some(cause) => Err(Refusal::Broken { cause: Arc::clone(cause) }),
            None => Ok(()),
        }
    }

    /// What a call whose token was seen has to do next: enter, if nothing is in the way.
    pub(super) fn step(&mut self, pass: &Pass<'_>, edition: u64) -> Result<Step, Refusal> {
        self.usable()?;
        if self.durable < edition {
            if self.writing {
                return Ok(Step::Wait(Obstacle::Disk { waited: Duration::ZERO }));
            }
            self.writing = true;
            return Ok(Step::Write);
        }
        let (place, token) = (Place::of(pass), pass.token);
        match self.book.enter(&place, token, pass.hold == Hold::Shared) {
            Ok(()) => Ok(Step::In(place)),
            Err(Held::Stale { in_force }) => Err(Refusal::Stale { token, in_force }),
            Err(Held::Older(count)) => {
                Ok(Step::Wait(Obstacle::UnderWay { count, waited: Duration::ZERO }))
            }
        }
    }
}

/// The right to write the book down. One exists at a time; if it is dropped before the disk has
/// answered (a panic, a runtime that is shut down), it is unknown what the disk has, and the gate is
/// closed for good.
pub(super) struct Writing {
    keeper: Arc<Keeper>,
    answered: bool,
}

impl Writing {
    /// For the call that [`State::step`] has told to write.
    pub(super) fn of(keeper: &Arc<Keeper>) -> Writing {
        Writing { keeper: Arc::clone(keeper), answered: false }
    }

    /// Writes down everything seen so far. Tokens that are seen meanwhile wait for the next turn.
    pub(super) fn write(mut self) {
        let (edition, marks) = self.keeper.lock().book.marks();
        let disk = self.keeper.disk.as_deref().expect("only a gate with a disk has to write");
        let began = Instant::now();
        let written = file::replace(disk, &marks);
        self.answered = true;
        if let Some(tell) = self.keeper.listener.0.get() {
            tell(began.elapsed());
        }
        let mut state = self.keeper.lock();
        state.writing = false;
        match written {
            Ok(()) => state.durable = edition,
            Err(cause) => state.broken = Some(Arc::new(cause)),
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if !self.answered {
            let cause = io::Error::other("a write was given up half way");
            self.keeper.lock().broken = Some(Arc::new(cause));
        }
        self.keeper.tell();
    }
}
