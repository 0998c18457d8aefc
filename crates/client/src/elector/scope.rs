//! What the work sees of the leadership it works under.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::backend::Drain;
use crate::fence::HolderKey;
use crate::{
    Doubt, ElectionName, FencingToken, Held, Leadership, Loss, ProclaimError, SessionState,
};

/// Why the work has to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// Leadership is not confirmed in time. It is still ours, until the deadline.
    Doubt,
    /// Leadership is lost.
    Lost(Loss),
    /// A successor was chosen.
    Drain(Drain),
    /// The elector is to stop.
    Stopped,
    /// This process said that it is not fit to lead.
    Unhealthy,
}

/// The leadership that work is done under. Clones are the same one, and outlive it harmlessly.
#[derive(Clone, Debug)]
pub struct Scope {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: ElectionName,
    /// Absent when the tenure is over.
    leadership: Mutex<Option<Leadership>>,
    /// Of the last leadership, also when it is over.
    token: watch::Sender<FencingToken>,
    cancelled: watch::Sender<Option<Cancelled>>,
}

impl Scope {
    pub(super) fn new(leadership: Leadership) -> Scope {
        let token = watch::Sender::new(leadership.token());
        let cancelled = watch::Sender::new(None);
        let name = leadership.name().clone();
        let leadership = Mutex::new(Some(leadership));
        Scope { inner: Arc::new(Inner { name, leadership, token, cancelled }) }
    }

    /// The fencing token, to be sent with everything that is written.
    pub fn token(&self) -> FencingToken {
        *self.inner.token.borrow()
    }

    /// The leader's key, to guard writes in the same store with. `None` if the tenure is over.
    pub fn holder_key(&self) -> Option<HolderKey> {
        self.leadership().as_ref().map(|leadership| leadership.holder_key())
    }

    /// Whether something that takes so long may be begun now, and under which token.
    ///
    /// # Errors
    /// The [`Doubt`], if not.
    pub fn may_act(&self, takes: Duration) -> Result<FencingToken, Doubt> {
        self.leadership().as_ref().ok_or(Doubt::Lost)?.may_act(takes)
    }

    /// What may be believed now.
    pub fn state(&self) -> SessionState {
        let leadership = self.leadership();
        leadership
            .as_ref()
            .map_or(SessionState::Lost(Loss::Resigned), |leadership| leadership.state())
    }

    /// Whether the work has to end.
    pub fn is_cancelled(&self) -> bool {
        self.inner.cancelled.borrow().is_some()
    }

    /// Waits until the work has to end.
    pub async fn cancelled(&self) -> Cancelled {
        let mut cancelled = self.inner.cancelled.subscribe();
        let why = cancelled.wait_for(Option::is_some).await;
        // The sender lives as long as `self`.
        why.ok().and_then(|why| why.clone()).unwrap_or(Cancelled::Stopped)
    }

    /// Does something until it is done, or until the work has to end.
    ///
    /// # Errors
    /// Why it has to.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Cancelled> {
        tokio::select! {
            biased;
            why = self.cancelled() => Err(why),
            done = work => Ok(done),
        }
    }

    /// Proclaims another value.
    ///
    /// # Errors
    /// See [`ProclaimError`].
    pub async fn proclaim(&self, value: impl Into<Vec<u8>>) -> Result<(), ProclaimError> {
        let asked = match &*self.leadership() {
            Some(leadership) => Held::proclaim(leadership, value.into()),
            None => {
                let name = self.inner.name.clone();
                return Err(ProclaimError::Lost { name, loss: Loss::Resigned });
            }
        };
        asked.await
    }

    /// The first reason counts, except that a loss is worse than a doubt.
    pub(super) fn cancel(&self, why: Cancelled) {
        self.inner.cancelled.send_if_modified(|cancelled| {
            let worse = matches!((&*cancelled, &why), (Some(Cancelled::Doubt), Cancelled::Lost(_)));
            let first = cancelled.is_none();
            if first || worse {
                *cancelled = Some(why);
            }
            first
        });
    }

    /// Goes on under another leadership, and answers the one before. If the tenure is over, answers the new one.
    pub(super) fn replace(&self, leadership: Leadership) -> Leadership {
        match &mut *self.leadership() {
            Some(held) => {
                self.inner.token.send_replace(leadership.token());
                std::mem::replace(held, leadership)
            }
            None => leadership,
        }
    }

    /// The tenure is over: no work may act any more.
    pub(super) fn take(&self) -> Option<Leadership> {
        self.leadership().take()
    }

    pub(crate) fn leadership(&self) -> MutexGuard<'_, Option<Leadership>> {
        self.inner.leadership.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
