//! From wanting something to having given it up: written once for elections and all locks.

use std::sync::Arc;
use std::time::Duration;

use tenure_api::LeaseId;
use tokio::sync::{oneshot, watch};

use super::core::{Core, Owner, SessionState};
use crate::backend::{BackendCandidate, Drain, Grant, JoinSpec};
use crate::chance::Backoff;
use crate::fence::HolderKey;
use crate::{AcquireError, Doubt, ElectionName, FencingToken, Loss, ProclaimError, ReleaseError};

/// Pauses between attempts to leave.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// The part of the time to live for which leaving is tried after the session was lost.
const AFTERLIFE_PER_TTL: u32 = 4;

/// Something that is held. Dropping it gives it up in the background.
#[derive(Debug)]
pub(crate) struct Hold {
    core: Arc<Core>,
    /// Keeps the session open; absent on the way from the keeper to the caller.
    owner: Option<Arc<Owner>>,
    /// Absent once it has been given up.
    candidate: Option<Arc<dyn BackendCandidate>>,
    grant: Grant,
    lost: watch::Receiver<Option<Loss>>,
}

/// Becomes a candidate and waits. If the returned future is dropped before it is done, the candidacy is left.
pub(crate) async fn acquire(
    owner: &Arc<Owner>,
    join: JoinSpec,
    limit: Option<Duration>,
) -> Result<Hold, AcquireError> {
    let core = owner.core();
    let name = join.first_name();
    let over = |loss| AcquireError::SessionOver { name: name.clone(), loss };
    if let Some(loss) = core.loss() {
        return Err(over(loss));
    }
    let try_only = join.try_only;
    let candidate = core.session.candidate(join)?;
    let (answer, answered) = oneshot::channel();
    let mut asker = Asker { answered, candidate: Some(Arc::clone(&candidate)) };
    let waiting =
        Waiting { core: Arc::clone(core), candidate, name: name.clone(), try_only, limit };
    core.host.spawn(Box::pin(waiting.run(answer)));
    let answer = (&mut asker.answered).await;
    asker.candidate = None;
    match answer {
        Ok(Ok(mut hold)) => {
            hold.owner = Some(Arc::clone(owner));
            // Between the server's grant and now anything can have happened to the session.
            match hold.loss() {
                None => Ok(hold),
                Some(loss) => Err(AcquireError::out_of_election(name, loss)),
            }
        }
        Ok(Err(error)) => Err(error),
        Err(_) => Err(over(core.loss().unwrap_or(Loss::KeeperGone))),
    }
}

/// The caller's half of a pending acquire; dropping it releases the name: the session may become a candidate for it
/// again at once, though the waiting half has not heard of it yet.
struct Asker {
    answered: oneshot::Receiver<Result<Hold, AcquireError>>,
    /// Absent once the answer is there.
    candidate: Option<Arc<dyn BackendCandidate>>,
}

impl Drop for Asker {
    fn drop(&mut self) {
        if let Some(candidate) = &self.candidate {
            // In this order: the waiting half must not be found waiting for a candidacy that is given up.
            self.answered.close();
            candidate.forsake(true);
        }
    }
}

/// The keeper's half of a pending acquire.
struct Waiting {
    core: Arc<Core>,
    candidate: Arc<dyn BackendCandidate>,
    name: ElectionName,
    try_only: bool,
    limit: Option<Duration>,
}

impl Waiting {
    async fn run(self, mut answer: oneshot::Sender<Result<Hold, AcquireError>>) {
        let outcome = tokio::select! {
            // A turn that comes together with the session's end is none; one that comes in the last
            // moment of the time that we had is.
            biased;
            loss = self.core.lost() => {
                Err(AcquireError::SessionOver { name: self.name.clone(), loss })
            }
            // The caller is gone: what follows is not reported.
            () = answer.closed() => Err(AcquireError::Taken { name: self.name.clone() }),
            outcome = self.turn() => outcome,
            error = self.time_out() => Err(error),
        };
        let outcome = match outcome {
            Ok(grant) => Ok(Hold::new(Arc::clone(&self.core), Arc::clone(&self.candidate), grant)),
            Err(error) => {
                leave_later(&self.core, Arc::clone(&self.candidate), true);
                Err(error)
            }
        };
        // If the asker has gone meanwhile, the hold comes back, is dropped, and so given up.
        let _ = answer.send(outcome);
    }

    async fn turn(&self) -> Result<Grant, AcquireError> {
        match self.candidate.enter().await? {
            Some(grant) => Ok(grant),
            None if self.try_only => Err(AcquireError::Taken { name: self.name.clone() }),
            None => self.candidate.turn().await,
        }
    }

    async fn time_out(&self) -> AcquireError {
        let Some(after) = self.limit else { return std::future::pending().await };
        self.core.host.pause(after).await;
        AcquireError::TimedOut { name: self.name.clone(), after }
    }
}

impl Hold {
    fn new(core: Arc<Core>, candidate: Arc<dyn BackendCandidate>, grant: Grant) -> Hold {
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
        Hold { core, owner: None, candidate: Some(candidate), grant, lost }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn grant(&self) -> &Grant {
        &self.grant
    }

    /// The first, or only, name.
    pub(crate) fn name(&self) -> &ElectionName {
        &self.grant.held[0].name
    }

    pub(crate) fn token(&self) -> FencingToken {
        self.grant.held[0].token
    }

    /// The key of the first, or only, name.
    pub(crate) fn holder_key(&self) -> HolderKey {
        HolderKey::exclusive(self.core.id(), self.name(), self.token())
    }

    /// The same to look at, for code that does not hold it.
    pub(crate) fn watched(&self) -> Watched {
        let (core, candidate) = (Arc::clone(&self.core), Arc::clone(self.candidate()));
        Watched { core, candidate, lost: self.lost.clone() }
    }

    /// Why it is lost, if it is.
    pub(crate) fn loss(&self) -> Option<Loss> {
        let told = *self.lost.borrow();
        told.or_else(|| self.core.loss()).or_else(|| self.candidate().gone_already())
    }

    /// Waits until it is lost.
    pub(crate) async fn lost(&self) -> Loss {
        lost(&self.core, self.lost.clone()).await
    }

    pub(crate) fn may_act(&self, takes: Duration) -> Result<FencingToken, Doubt> {
        // Not only what was passed on: a renewal that was acknowledged after the loss must not hide it.
        if self.lost.borrow().is_some() || self.candidate().gone_already().is_some() {
            return Err(Doubt::Lost);
        }
        self.core.may_act(takes).map(|()| self.token())
    }

    pub(crate) async fn proclaim(&self, value: Vec<u8>) -> Result<(), ProclaimError> {
        self.ask_to_proclaim(value).await
    }

    /// Proclaims, without holding on to the hold meanwhile.
    pub(crate) fn ask_to_proclaim(
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

    /// Waits until it is asked to stop, because a successor was chosen.
    pub(crate) async fn drain(&self) -> Drain {
        self.candidate().drain().await
    }

    /// Gives it up, and waits until the server has confirmed it or the session is over.
    pub(crate) async fn release(mut self) -> Result<(), ReleaseError> {
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

    fn candidate(&self) -> &Arc<dyn BackendCandidate> {
        self.candidate.as_ref().expect("only release takes it, and consumes the hold")
    }
}

/// A view of a hold that does not keep it from ending.
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

    /// Waits for so long, where the session is kept.
    pub(crate) async fn pause(&self, time: Duration) {
        self.core.host.pause(time).await;
    }
}

async fn lost(core: &Core, mut told: watch::Receiver<Option<Loss>>) -> Loss {
    tokio::select! {
        // Why the hold was lost first, also if the session has been lost since.
        biased;
        loss = async {
            let told = told.wait_for(Option::is_some).await.ok().and_then(|told| *told);
            match told {
                Some(loss) => loss,
                // The task that would tell is gone, and with it the thread or the hold.
                None => core.lost().await,
            }
        } => loss,
        loss = core.lost() => loss,
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(candidate) = self.candidate.take() {
            // Dropped, not released: the caller has not said that the work has ended.
            leave_later(&self.core, candidate, false);
        }
    }
}

/// Leaves in the background. The session may become a candidate again at once.
fn leave_later(core: &Arc<Core>, candidate: Arc<dyn BackendCandidate>, stopped: bool) {
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
