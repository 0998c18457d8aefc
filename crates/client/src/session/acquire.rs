//! From wanting something to holding it: written once for elections and all locks.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::core::{Core, Owner};
use super::held::{Held, leave_later};
use crate::backend::{BackendCandidate, Grant, JoinSpec};
use crate::{AcquireError, ElectionName, Loss};

/// Becomes a candidate and waits. If the returned future is dropped before it is done, the candidacy is left.
pub(crate) async fn acquire(
    owner: &Arc<Owner>,
    join: JoinSpec,
    limit: Option<Duration>,
) -> Result<Held, AcquireError> {
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
        Ok(Ok(mut held)) => {
            held.keep_open(Arc::clone(owner));
            // Between the server's grant and now anything can have happened to the session.
            match held.loss() {
                None => Ok(held),
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
    answered: oneshot::Receiver<Result<Held, AcquireError>>,
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
    async fn run(self, mut answer: oneshot::Sender<Result<Held, AcquireError>>) {
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
            Ok(grant) => Ok(Held::new(Arc::clone(&self.core), Arc::clone(&self.candidate), grant)),
            Err(error) => {
                leave_later(&self.core, Arc::clone(&self.candidate), true);
                Err(error)
            }
        };
        // If the asker has gone meanwhile, the guard comes back, is dropped, and so given up.
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
