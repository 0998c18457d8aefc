//! The gate: a [`Book`](super::book) behind a lock, with a way to wait, and perhaps a disk.

use std::{
    io,
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use super::book::{Book, Held, Place};
use super::disk::{Directory, Disk};
use super::file::{self, OpenError};
use super::{Admission, FencingToken, Hold, Obstacle, Pass, Refusal};

/// How long a resource's name may be.
pub const RESOURCE_BYTES_MAX: usize = 255;

/// What a gate allows itself.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many resources one gate watches over; each slot of a semaphore counts as one. None is
    /// ever forgotten, so this bounds memory, and the file of a durable gate.
    pub resources_max: usize,
    /// How long a newer holder waits for older ones to leave, and for the disk.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { resources_max: 4096, patience: Duration::from_secs(5) }
    }
}

/// Stands before something that only the newest holder may touch.
///
/// A gate remembers the newest token it has seen and refuses older ones. A new leader *raises* it
/// before it reads anything that it will build upon: otherwise an older leader's write, delayed in
/// some queue, could still land between its read and its own write.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tenure::fence::Refusal> {
/// use tenure::fence::{FencingToken, Gate, Limits, Refusal};
///
/// let gate = Gate::in_memory(Limits::default());
/// let [older, newer] = [33, 34].map(|n| FencingToken::from_revision(n).unwrap());
///
/// let passage = gate.enter(older).await?; // the first leader writes
/// drop(passage);                          // and its write is done
///
/// gate.raise(newer).await?;               // it pauses, and the next leader takes over
/// let refused = gate.enter(older).await.unwrap_err();
/// assert!(matches!(refused, Refusal::Stale { in_force, .. } if in_force == newer));
/// # Ok(())
/// # }
/// ```
///
/// Hold the [`Passage`] for as long as the operation may have an effect: the gate lets a newer
/// holder in when all older ones have left. [`Gate::admits`] alone does not do that.
///
/// Clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// Told whenever somebody left, a newer token was seen, or the disk answered.
    changed_async: Notify,
    changed: Condvar,
    patience: Duration,
    disk: Option<Box<dyn Disk>>,
}

#[derive(Debug)]
struct State {
    book: Book,
    /// The edition of the book that the disk has.
    durable: u64,
    /// Somebody is writing one down.
    writing: bool,
    broken: Option<Arc<io::Error>>,
}

impl Gate {
    /// A gate that lives as long as the process. After a restart it has seen nothing: it fits what
    /// is itself lost with the process.
    pub fn in_memory(limits: Limits) -> Gate {
        Gate::with(Book::with(limits, Default::default()), limits, None)
    }

    /// A new gate that writes every newer token to a file before it acts on it.
    ///
    /// # Errors
    /// If the file is there already, or cannot be written.
    pub fn create(path: impl AsRef<Path>, limits: Limits) -> Result<Gate, OpenError> {
        Gate::create_on(Box::new(Directory::lock(path.as_ref())?), limits)
    }

    /// The gate that this file remembers.
    ///
    /// # Errors
    /// If there is no such file: a file that was deleted takes the memory with it, and only you know
    /// whether that is what happened. If it is damaged, or another process has it open.
    pub fn open(path: impl AsRef<Path>, limits: Limits) -> Result<Gate, OpenError> {
        Gate::open_on(Box::new(Directory::lock(path.as_ref())?), limits)
    }

    /// The gate that this file remembers, or a new one if there is no such file. Of use where losing
    /// the file means losing what the gate protects as well, as on the same disk.
    ///
    /// # Errors
    /// If the file is damaged, cannot be written, or another process has it open.
    pub fn open_or_create(path: impl AsRef<Path>, limits: Limits) -> Result<Gate, OpenError> {
        let disk = Directory::lock(path.as_ref())?;
        match disk.exists() {
            true => Gate::open_on(Box::new(disk), limits),
            false => Gate::create_on(Box::new(disk), limits),
        }
    }

    pub(super) fn create_on(disk: Box<dyn Disk>, limits: Limits) -> Result<Gate, OpenError> {
        file::create(&*disk)?;
        Ok(Gate::with(Book::with(limits, Default::default()), limits, Some(disk)))
    }

    pub(super) fn open_on(disk: Box<dyn Disk>, limits: Limits) -> Result<Gate, OpenError> {
        let marks = file::load(&*disk)?;
        Ok(Gate::with(Book::with(limits, marks), limits, Some(disk)))
    }

    fn with(book: Book, limits: Limits, disk: Option<Box<dyn Disk>>) -> Gate {
        // Without a disk every edition counts as written.
        let durable = if disk.is_some() { 0 } else { u64::MAX };
        let state = State { book, durable, writing: false, broken: None };
        let inner = Inner {
            state: Mutex::new(state),
            changed_async: Notify::new(),
            changed: Condvar::new(),
            patience: limits.patience,
            disk,
        };
        Gate { inner: Arc::new(inner) }
    }

    /// Whether this token is let in at this moment. A newer token than any before is noted, and
    /// older ones are refused from now on, whatever the answer.
    ///
    /// Waits for nobody inside, but for the disk of a durable gate if the token is new. The answer
    /// is about now: something older may be admitted before it and take effect after it. Where that
    /// matters, and it usually does, [`enter`](Gate::enter) and stay inside while you act.
    pub fn admits<'a>(&self, pass: impl Into<Pass<'a>>) -> Admission {
        match self.pass_through(&pass.into(), Duration::ZERO) {
            Ok(_) => Admission::Admitted,
            Err(refusal) => Admission::Refused(refusal),
        }
    }

    /// Closes the gate for older tokens and waits until those inside have left. Afterwards nothing
    /// older can take effect any more: now the new holder may read, and build upon what it read.
    ///
    /// # Errors
    /// See [`Refusal`]. After [`Refusal::NotYet`] older tokens are refused all the same.
    pub async fn raise<'a>(&self, pass: impl Into<Pass<'a>>) -> Result<(), Refusal> {
        self.enter(pass).await.map(drop)
    }

    /// Comes in, after those with older tokens have left, and stays until the passage is dropped.
    /// With a newer token than any before, this raises the gate as well.
    ///
    /// Cancelling the future takes back nothing but the entry: the token stays seen.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub async fn enter<'a>(&self, pass: impl Into<Pass<'a>>) -> Result<Passage, Refusal> {
        let pass = pass.into();
        let mut obstacle = Obstacle::Disk { waited: Duration::ZERO };
        let coming_in = async {
            let edition = self.inner.see(&pass)?;
            loop {
                // Listens before it looks, so that no change falls between the two.
                let changed = self.inner.changed_async.notified();
                match self.inner.step(&pass, edition)? {
                    Step::In(place) => return Ok(self.passage(&pass, place)),
                    Step::Write => {
                        obstacle = Obstacle::Disk { waited: Duration::ZERO };
                        let writing = Writing::of(&self.inner);
                        // Awaited to its very end: nothing of it keeps the file open when the last
                        // gate is dropped. What came of it is in the state.
                        let _ = tokio::task::spawn_blocking(move || writing.write()).await;
                    }
                    Step::Wait(now) => {
                        obstacle = now;
                        changed.await;
                    }
                }
            }
        };
        match tokio::time::timeout(self.inner.patience, coming_in).await {
            Ok(result) => result,
            Err(_) => Err(not_yet(&pass, obstacle, self.inner.patience)),
        }
    }

    /// [`raise`](Gate::raise) for threads that may block.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn raise_blocking<'a>(&self, pass: impl Into<Pass<'a>>) -> Result<(), Refusal> {
        self.enter_blocking(pass).map(drop)
    }

    /// [`enter`](Gate::enter) for threads that may block. A disk that does not answer is waited for
    /// as long as it takes by the one thread that writes.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn enter_blocking<'a>(&self, pass: impl Into<Pass<'a>>) -> Result<Passage, Refusal> {
        self.pass_through(&pass.into(), self.inner.patience)
    }

    fn pass_through(&self, pass: &Pass<'_>, patience: Duration) -> Result<Passage, Refusal> {
        let began = Instant::now();
        let edition = self.inner.see(pass)?;
        loop {
            // The state is not let go between looking and waiting.
            let mut state = self.inner.lock();
            let obstacle = match state.step(pass, edition)? {
                Step::In(place) => return Ok(self.passage(pass, place)),
                Step::Write => {
                    drop(state);
                    Writing::of(&self.inner).write();
                    continue;
                }
                Step::Wait(obstacle) => obstacle,
            };
            // The disk is waited for even by those who wait for nobody inside.
            let allowed = match obstacle {
                Obstacle::Disk { .. } => self.inner.patience,
                Obstacle::UnderWay { .. } => patience,
            };
            let waited = began.elapsed();
            let Some(left) = allowed.checked_sub(waited).filter(|left| !left.is_zero()) else {
                return Err(not_yet(pass, obstacle, waited));
            };
            drop(self.inner.changed.wait_timeout(state, left));
        }
    }

    fn passage(&self, pass: &Pass<'_>, place: Place) -> Passage {
        let shared = pass.hold == Hold::Shared;
        Passage { inner: Arc::clone(&self.inner), place, token: pass.token, shared }
    }

    /// The newest token seen for a resource, exclusive or shared: an exclusive holder with an older
    /// one is refused.
    pub fn in_force(&self, resource: &str) -> Option<FencingToken> {
        let place = Place { resource: resource.into(), slot: None };
        self.inner.lock().book.in_force(&place)
    }

    /// The newest token seen for one permit of a semaphore.
    pub fn in_force_at(&self, resource: &str, slot: u32) -> Option<FencingToken> {
        let place = Place { resource: resource.into(), slot: Some(slot) };
        self.inner.lock().book.in_force(&place)
    }
}

fn not_yet(pass: &Pass<'_>, obstacle: Obstacle, waited: Duration) -> Refusal {
    let obstacle = match obstacle {
        Obstacle::UnderWay { count, .. } => Obstacle::UnderWay { count, waited },
        Obstacle::Disk { .. } => Obstacle::Disk { waited },
    };
    Refusal::NotYet { token: pass.token, obstacle }
}

/// What somebody whose token was seen has to do next.
enum Step {
    In(Place),
    /// Write the book down; nobody else does.
    Write,
    Wait(Obstacle),
}

impl Inner {
    /// A panic while the lock is held would leave the book as it was before or after one change of
    /// one line, both of which are good; so poisoning tells nothing.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn see(&self, pass: &Pass<'_>) -> Result<u64, Refusal> {
        let mut state = self.lock();
        state.usable()?;
        let before = state.book.edition();
        let edition = state.book.see(pass)?;
        let newer = state.book.edition() != before;
        drop(state);
        if newer {
            // Those who wait with an older token have been overtaken.
            self.tell();
        }
        Ok(edition)
    }

    fn step(&self, pass: &Pass<'_>, edition: u64) -> Result<Step, Refusal> {
        self.lock().step(pass, edition)
    }

    fn tell(&self) {
        self.changed.notify_all();
        self.changed_async.notify_waiters();
    }
}

impl State {
    fn usable(&self) -> Result<(), Refusal> {
        match &self.broken {
            Some(cause) => Err(Refusal::Broken { cause: Arc::clone(cause) }),
            None => Ok(()),
        }
    }

    fn step(&mut self, pass: &Pass<'_>, edition: u64) -> Result<Step, Refusal> {
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
/// answered (a panic, a runtime that is shut down), nobody knows what the disk has, and the gate is
/// closed for good.
struct Writing {
    inner: Arc<Inner>,
    answered: bool,
}

impl Writing {
    /// For whom [`State::step`] has chosen to write.
    fn of(inner: &Arc<Inner>) -> Writing {
        Writing { inner: Arc::clone(inner), answered: false }
    }

    /// Writes down everything seen so far. Tokens that are seen meanwhile wait for the next turn.
    fn write(mut self) {
        let (edition, marks) = self.inner.lock().book.marks();
        let disk = self.inner.disk.as_deref().expect("only a gate with a disk has to write");
        let written = file::replace(disk, &marks);
        self.answered = true;
        let mut state = self.inner.lock();
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
            self.inner.lock().broken = Some(Arc::new(cause));
        }
        self.inner.tell();
    }
}

/// Being inside. Ends when dropped.
///
/// Keep it until nothing of what was begun can still take effect. If the operation runs on another
/// task or thread, or in a queue, the passage has to go there too.
#[derive(Debug)]
#[must_use = "who does not hold the passage is not inside"]
pub struct Passage {
    inner: Arc<Inner>,
    place: Place,
    token: FencingToken,
    shared: bool,
}

impl Passage {
    /// The token that was let in.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Whether a newer holder has come, which is now waiting for this passage to end. What has begun
    /// may be finished; what can be broken off should be.
    pub fn is_overtaken(&self) -> bool {
        self.inner.lock().book.overtaken(&self.place, self.token, self.shared)
    }

    /// Waits until a newer holder has come.
    pub async fn overtaken(&self) {
        loop {
            let changed = self.inner.changed_async.notified();
            if self.is_overtaken() {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.inner.lock().book.leave(&self.place, self.token, self.shared);
        self.inner.tell();
    }
}
