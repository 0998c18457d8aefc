//! The gate as others see it.

use std::{
    io,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use super::book::{Book, Place};
use super::disk::{Directory, Disk};
use super::file::{self, OpenError};
use super::keeper::{Keeper, Step, Writing};
use super::{Admission, FencingToken, Hold, Obstacle, Pass, Passage, Refusal};

/// How long a resource's name may be.
pub const RESOURCE_BYTES_MAX: usize = 255;

/// What a gate allows itself.
#[derive(Clone, Copy, Debug)]
pub struct GateLimits {
    /// How many resources one gate watches over; each slot of a semaphore counts as one. None is
    /// ever forgotten, so this bounds memory, and the file of a durable gate.
    pub resources_max: usize,
    /// How long a newer holder waits for older ones to leave, and for the disk.
    pub patience: Duration,
}

impl Default for GateLimits {
    fn default() -> GateLimits {
        GateLimits { resources_max: 4096, patience: Duration::from_secs(5) }
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
/// use tenure::fence::{FencingToken, Gate, GateLimits, Refusal};
///
/// let gate = Gate::in_memory(GateLimits::default());
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
    keeper: Arc<Keeper>,
}

impl Gate {
    /// A gate that lives as long as the process. After a restart it has seen nothing: it fits what
    /// is itself lost with the process.
    pub fn in_memory(limits: GateLimits) -> Gate {
        Gate::with(Book::with(limits, Default::default()), limits, None)
    }

    /// A new gate that writes every newer token to a file before it acts on it.
    ///
    /// # Errors
    /// If the file is there already, or cannot be written.
    pub fn create(path: impl AsRef<Path>, limits: GateLimits) -> Result<Gate, OpenError> {
        Gate::create_on(Box::new(Directory::lock(path.as_ref())?), limits)
    }

    /// The gate that this file remembers.
    ///
    /// # Errors
    /// If there is no such file: a file that was deleted takes the memory with it, and only you know
    /// whether that is what happened. If it is damaged, or another process has it open.
    pub fn open(path: impl AsRef<Path>, limits: GateLimits) -> Result<Gate, OpenError> {
        Gate::open_on(Box::new(Directory::lock(path.as_ref())?), limits)
    }

    /// The gate that this file remembers, or a new one if there is no such file. Of use where losing
    /// the file means losing what the gate protects as well, as on the same disk.
    ///
    /// # Errors
    /// If the file is damaged, cannot be written, or another process has it open.
    pub fn open_or_create(path: impl AsRef<Path>, limits: GateLimits) -> Result<Gate, OpenError> {
        let disk = Directory::lock(path.as_ref())?;
        match disk.exists() {
            true => Gate::open_on(Box::new(disk), limits),
            false => Gate::create_on(Box::new(disk), limits),
        }
    }

    pub(super) fn create_on(disk: Box<dyn Disk>, limits: GateLimits) -> Result<Gate, OpenError> {
        file::create(&*disk)?;
        Ok(Gate::with(Book::with(limits, Default::default()), limits, Some(disk)))
    }

    pub(super) fn open_on(disk: Box<dyn Disk>, limits: GateLimits) -> Result<Gate, OpenError> {
        let marks = file::load(&*disk)?;
        Ok(Gate::with(Book::with(limits, marks), limits, Some(disk)))
    }

    fn with(book: Book, limits: GateLimits, disk: Option<Box<dyn Disk>>) -> Gate {
        Gate { keeper: Arc::new(Keeper::new(book, limits.patience, disk)) }
    }

    /// Whether this token is let in at this moment. A newer token than any before is noted, and
    /// older ones are refused from now on, whatever the answer.
    ///
    /// Does not wait for tokens inside, but for the disk of a durable gate if the token is new. The answer
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
            let edition = self.keeper.see(&pass)?;
            loop {
                // Listens before it looks, so that no change falls between the two.
                let changed = self.keeper.changed_async.notified();
                match self.keeper.step(&pass, edition)? {
                    Step::In(place) => return Ok(self.passage(&pass, place)),
                    Step::Write => {
                        obstacle = Obstacle::Disk { waited: Duration::ZERO };
                        let writing = Writing::of(&self.keeper);
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
        match tokio::time::timeout(self.keeper.patience, coming_in).await {
            Ok(result) => result,
            Err(_) => Err(not_yet(&pass, obstacle, self.keeper.patience)),
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
        self.pass_through(&pass.into(), self.keeper.patience)
    }

    fn pass_through(&self, pass: &Pass<'_>, patience: Duration) -> Result<Passage, Refusal> {
        let began = Instant::now();
        let edition = self.keeper.see(pass)?;
        loop {
            // The state is not let go between looking and waiting.
            let mut state = self.keeper.lock();
            let obstacle = match state.step(pass, edition)? {
                Step::In(place) => return Ok(self.passage(pass, place)),
                Step::Write => {
                    drop(state);
                    Writing::of(&self.keeper).write();
                    continue;
                }
                Step::Wait(obstacle) => obstacle,
            };
            // The disk is waited for even by calls that do not wait for tokens inside.
            let allowed = match obstacle {
                Obstacle::Disk { .. } => self.keeper.patience,
                Obstacle::UnderWay { .. } => patience,
            };
            let waited = began.elapsed();
            let Some(left) = allowed.checked_sub(waited).filter(|left| !left.is_zero()) else {
                return Err(not_yet(pass, obstacle, waited));
            };
            drop(self.keeper.changed.wait_timeout(state, left));
        }
    }

    fn passage(&self, pass: &Pass<'_>, place: Place) -> Passage {
        let shared = pass.hold == Hold::Shared;
        Passage::new(Arc::clone(&self.keeper), place, pass.token, shared)
    }

    /// The newest token seen for a resource, exclusive or shared: an exclusive holder with an older
    /// one is refused.
    pub fn in_force(&self, resource: &str) -> Option<FencingToken> {
        let place = Place { resource: resource.into(), slot: None };
        self.keeper.in_force(&place)
    }

    /// How often a newer token was seen since this gate was opened.
    pub fn raised(&self) -> u64 {
        self.keeper.lock().edition()
    }

    /// Why the gate is closed for good, if it is.
    pub fn broken(&self) -> Option<Arc<io::Error>> {
        self.keeper.lock().broken()
    }

    /// Calls `tell` with how long each write of the gate's file took, flushes included. Only the first call of this
    /// method counts.
    pub fn when_written(&self, tell: impl Fn(Duration) + Send + Sync + 'static) {
        self.keeper.when_written(Box::new(tell));
    }

    /// The newest token seen for one permit of a semaphore.
    pub fn in_force_at(&self, resource: &str, slot: u32) -> Option<FencingToken> {
        let place = Place { resource: resource.into(), slot: Some(slot) };
        self.keeper.in_force(&place)
    }
}

fn not_yet(pass: &Pass<'_>, obstacle: Obstacle, waited: Duration) -> Refusal {
    let obstacle = match obstacle {
        Obstacle::UnderWay { count, .. } => Obstacle::UnderWay { count, waited },
        Obstacle::Disk { .. } => Obstacle::Disk { waited },
    };
    Refusal::NotYet { token: pass.token, obstacle }
}
