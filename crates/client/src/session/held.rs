//! The guard of everything that is held: of a lock, and, inside [`Leadership`](crate::Leadership), of an election.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tenure_api::LeaseId;
use tokio::sync::watch;

use super::core::{Core, Owner, SessionState};
use crate::backend::{BackendCandidate, Drain, Grant};
use crate::chance::Backoff;
use crate::clock::Moment;
use crate::fence::{GuardedError, HolderKey, keys_of};
use crate::grpc::Client;
use crate::host::Host;
use crate::{Doubt, ElectionName, FencingToken, Loss, ProclaimError, ReleaseError};

/// Pauses between attempts to leave.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// The part of the time to live for which leaving is tried after the session was lost.
const AFTERLIFE_PER_TTL: u32 = 4;

/// Something that is held, for as long as it lasts: a lock, some of its permits, several names at once, or, as
/// [`Leadership`](crate::Leadership), an election.
///
/// It can be lost during the work: the process was paused, the network cut. Three ways to know that it is not: ask before
/// acting ([`Held::may_act`]), be told ([`Held::lost`]), and send the [`Held::token`] along with what is written, so that
/// the store can refuse it. Only the last one holds whatever happens to this process in between.
///
/// Dropping it releases it in the background. Releasing uses it up:
///
/// ```compile_fail,E0382
/// # async fn run(held: tenure::Held) {
/// held.release().await;
/// held.token();
/// # }
/// ```
#[derive(Debug)]
#[must_use = "what is dropped is released"]
pub struct Held {
    core: Arc<Core>,
    /// Keeps the session open; absent on the way from the keeper to the caller.
    owner: Option<Arc<Owner>>,
    /// Absent once it has been given up.
    candidate: Option<Arc<dyn BackendCandidate>>,
    grant: Grant,
    lost: watch::Receiver<Option<Loss>>,
    /// For guarded writes; absent until the first one.
    keys: OnceLock<Client>,
}

impl Held {
    pub(super) fn new(core: Arc<Core>, candidate: Arc<dyn BackendCandidate>, grant: Grant) -> Held {
        let (tell, lost) = watch::channel(None);
        core.host.spawn({
            let (core, candidate) = (Arc::clone(&core), Arc::clone(&candidate));
            Box::pin(async move {
                let loss = tokio::select! {
                    // The session's end explains more than the key's.
                    biased;
                    loss = core.lost() => loss,
                    loss = candidate.gone() => loss,
                    // Given up: the last receiver is gone.
                    () = tell.closed() => return,
                };
                tell.send_replace(Some(loss));
            })
        });
        Held { core, owner: None, candidate: Some(candidate), grant, lost, keys: OnceLock::new() }
    }

    /// From now on the session lives as long as this.
    pub(super) fn keep_open(&mut self, owner: Arc<Owner>) {
        self.owner = Some(owner);
    }

    /// What is held: the name of the election or lock; of several, the first.
    pub fn name(&self) -> &ElectionName {
        &self.grant.held[0].name
    }

    /// The fencing token, to be sent with everything that is written; of several, the first.
    pub fn token(&self) -> FencingToken {
        self.grant.held[0].token
    }

    /// All that is held, with the token of each.
    pub fn tokens(&self) -> impl Iterator<Item = (&ElectionName, FencingToken)> {
        self.grant.held.iter().map(|held| (&held.name, held.token))
    }

    /// Of a semaphore, which permit it is, if the engine numbers them.
    pub fn slot(&self) -> Option<u32> {
        self.grant.held[0].slot
    }

    /// The holder's key, to guard writes in the same store with; of several, that of the first name. What is held
    /// together with others has another key on some engines: what is guarded with this one is refused there
    /// ([`HolderKey::exclusive`]).
    pub fn holder_key(&self) -> HolderKey {
        HolderKey::exclusive(self.core.id(), self.name(), self.token())
    }

    /// A client of the engine's keys, always the same one.
    pub(crate) fn keys(&self) -> Result<Client, GuardedError> {
        match self.keys.get() {
            Some(client) => Ok(client.clone()),
            None => {
                let client = keys_of(self.core.engine())?;
                Ok(self.keys.get_or_init(|| client).clone())
            }
        }
    }

    /// Whether something that takes so long may be begun now, and under which token.
    ///
    /// # Errors
    /// The [`Doubt`], if not.
    pub fn may_act(&self, takes: Duration) -> Result<FencingToken, Doubt> {
        // Not only what was passed on: a renewal that was acknowledged after the loss must not hide it.
        if self.lost.borrow().is_some() || self.candidate().gone_already().is_some() {
            return Err(Doubt::Lost);
        }
        self.core.may_act(takes).map(|()| self.token())
    }

    /// What may be believed now.
    pub fn state(&self) -> SessionState {
        match self.loss() {
            Some(loss) => SessionState::Lost(loss),
            None => self.core.refresh(),
        }
    }

    /// The last moment at which this process may act as the holder, as far as is known now.
    pub fn deadline(&self) -> Moment {
        self.core.deadline()
    }

    /// Waits until that is another moment than `known`: later after every renewal, earlier when the connection of a
    /// session with fast release breaks.
    pub async fn deadline_moved(&self, known: Moment) -> Moment {
        self.core.deadline_moved(known).await
    }

    /// How long that is from now.
    pub fn remaining(&self) -> Duration {
        self.core.remaining()
    }

    /// Waits until it is lost, and says why.
    pub async fn lost(&self) -> Loss {
        lost(&self.core, self.lost.clone()).await
    }

    /// Waits until the holder is asked to stop for a chosen successor: end the work, then give it up.
    /// Never, on engines that cannot hand over.
    pub async fn drain(&self) -> Drain {
        self.candidate().drain().await
    }

    /// Gives it up; to be called when the work has ended. Tried again until the server has confirmed it. If this future is
    /// dropped, that goes on in the background.
    ///
    /// # Errors
    /// If the session is over before that; the hold ends with it.
    pub async fn release(mut self) -> Result<(), ReleaseError> {
        let Some(candidate) = self.candidate.take() else { return Ok(()) };
        candidate.forsake(true);
        let left = self.core.host.start(leave(Arc::clone(&self.core), candidate));
        let over = |loss| ReleaseError::SessionOver { name: self.name().clone(), loss };
        match left.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(loss)) => Err(over(loss)),
            Err(_) => Err(over(self.core.loss().unwrap_or(Loss::KeeperGone))),
        }
    }

    /// Proclaims another value, without borrowing this meanwhile.
    pub(crate) fn proclaim(
        &self,
        value: Vec<u8>,
    ) -> impl Future<Output = Result<(), ProclaimError>> + Send + use<> {
        let (name, known) = (self.name().clone(), self.loss());
        let (core, candidate) = (Arc::clone(&self.core), Arc::clone(self.candidate()));
        async move {
            let lost = |loss| Err(ProclaimError::Lost { name, loss });
            if let Some(loss) = known {
                return lost(loss);
            }
            let asked = core.host.start(async move { candidate.proclaim(value).await });
            tokio::select! {
                // What became of it is known, whatever has happened since.
                biased;
                answer = asked => match answer {
                    Ok(answer) => answer,
                    Err(_) => lost(core.loss().unwrap_or(Loss::KeeperGone)),
                },
                loss = core.lost() => lost(loss),
            }
        }
    }

    /// The same to look at, for code that does not hold it.
    pub(crate) fn watched(&self) -> Watched {
        let (core, candidate) = (Arc::clone(&self.core), Arc::clone(self.candidate()));
        Watched { core, candidate, lost: self.lost.clone() }
    }

    /// Why it is lost, if it is.
    pub(super) fn loss(&self) -> Option<Loss> {
        let told = *self.lost.borrow();
        told.or_else(|| self.core.loss()).or_else(|| self.candidate().gone_already())
    }

    fn candidate(&self) -> &Arc<dyn BackendCandidate> {
        self.candidate.as_ref().expect("only release takes it, and consumes this")
    }
}

/// A view of something held that does not keep it from ending.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    core: Arc<Core>,
    candidate: Arc<dyn BackendCandidate>,
    lost: watch::Receiver<Option<Loss>>,
}

impl Watched {
    pub(crate) async fn lost(&self) -> Loss {
        lost(&self.core, self.lost.clone()).await
    }

    /// Waits until the session's state is another one than `known`.
    pub(crate) async fn changed(&self, known: SessionState) -> SessionState {
        self.core.changed(known).await
    }

    pub(crate) async fn drain(&self) -> Drain {
        self.candidate.drain().await
    }

    pub(crate) fn session(&self) -> LeaseId {
        self.core.id()
    }

    /// What the session is kept on.
    pub(crate) fn host(&self) -> Arc<dyn Host> {
        Arc::clone(&self.core.host)
    }

    /// Waits for so long, where the session is kept.
    pub(crate) async fn pause(&self, time: Duration) {
        self.core.host.pause(time).await;
    }
}

async fn lost(core: &Core, mut told: watch::Receiver<Option<Loss>>) -> Loss {
    tokio::select! {
        // Why it was lost first, also if the session has been lost since.
        biased;
        loss = async {
            let told = told.wait_for(Option::is_some).await.ok().and_then(|told| *told);
            match told {
                Some(loss) => loss,
                // The task that would tell is gone, and with it the thread or the guard.
                None => core.lost().await,
            }
        } => loss,
        loss = core.lost() => loss,
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(candidate) = self.candidate.take() {
            // Dropped, not released: the caller has not said that the work has ended.
            leave_later(&self.core, candidate, false);
        }
    }
}

/// Leaves in the background. The session may become a candidate again at once.
pub(super) fn leave_later(core: &Arc<Core>, candidate: Arc<dyn BackendCandidate>, stopped: bool) {
    candidate.forsake(stopped);
    drop(core.host.start(leave(Arc::clone(core), candidate)));
}

/// Leaves, however often that has to be tried, for as long as there is a session.
async fn leave(core: Arc<Core>, candidate: Arc<dyn BackendCandidate>) -> Result<(), Loss> {
    let leaving = async {
        let mut backoff = Backoff::new(core.host.chance(), PAUSE_FIRST, PAUSE_MAX);
        while let Err(error) = candidate.leave().await {
            tracing::debug!(?candidate, %error, "leaving failed");
            core.host.pause(backoff.pause()).await;
        }
    };
    // When the session is over for us, what it still has at the server ends with it there; but it does
    // no harm to try for another moment, unless the server has said that nothing is left.
    let over = async {
        let loss = core.lost().await;
        if !loss.leaves_nothing() {
            core.host.pause(core.ttl() / AFTERLIFE_PER_TTL).await;
        }
        loss
    };
    tokio::select! {
        // What the server has confirmed is left, whatever has happened since.
        biased;
        () = leaving => Ok(()),
        loss = over => Err(loss),
    }
}
