//! One place in line: entering, waiting, holding, leaving.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::select_all;
use pb::session_request::Does;
use tenure_api::wire::tenure::v1 as pb;
use tokio::sync::{oneshot, watch};

use super::exchange::{Spot, leave_line};
use super::link::{Shared, unanswered};
use super::words;
use crate::backend::{Boxed, Drain, Grant, HeldName, Join, Place};
use crate::{AcquireError, EngineError, FencingToken, Loss, ProclaimError};

/// A place over `tenure.v1`.
#[derive(Debug)]
pub(super) struct NativePlace {
    shared: Arc<Shared>,
    join: Join,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// One for each name, from entering on.
    spots: Vec<watch::Receiver<Spot>>,
    /// The requests to leave that are not confirmed, from forsaking on.
    leaving: Option<Vec<Leaving>>,
}

/// One request to leave.
#[derive(Debug)]
struct Leaving {
    /// Which of the names it is about.
    at: usize,
    stopped: bool,
    answer: oneshot::Receiver<pb::Answer>,
}

impl NativePlace {
    pub(super) fn new(shared: Arc<Shared>, join: Join) -> NativePlace {
        NativePlace { shared, join, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spots(&self) -> Vec<watch::Receiver<Spot>> {
        self.state().spots.clone()
    }

    /// What is held, if everything is.
    fn grant(&self) -> Option<Grant> {
        let held = |(name, spot): (&crate::LineName, &watch::Receiver<Spot>)| {
            let spot = spot.borrow();
            let token = spot.token.and_then(FencingToken::from_revision)?;
            let slot =
                matches!(self.join.mode, crate::backend::Mode::Permit { .. }).then_some(spot.slot);
            let holds = spot.held && spot.gone.is_none();
            holds.then(|| HeldName { name: name.clone(), token, slot })
        };
        let spots = self.spots();
        let held: Option<Vec<_>> = self.join.names.iter().zip(&spots).map(held).collect();
        held.filter(|held| !held.is_empty()).map(|held| Grant { held })
    }

    fn loss(&self) -> Option<Loss> {
        self.spots().iter().find_map(|spot| spot.borrow().gone)
    }

    /// Waits until something happens to one of the spots.
    async fn change(spots: &mut [watch::Receiver<Spot>]) -> Result<(), Loss> {
        let changes = spots.iter_mut().map(|spot| Box::pin(spot.changed()));
        // No more is told of a place that this session has taken anew, or after its end.
        select_all(changes).await.0.map_err(|_| Loss::Resigned)
    }

    fn over(&self, loss: Loss) -> AcquireError {
        AcquireError::out_of_line(self.join.first_name(), loss)
    }
}

impl Place for NativePlace {
    fn enter(&self) -> Boxed<'_, Result<Option<Grant>, AcquireError>> {
        Box::pin(async move {
            let answer = {
                let mut state = self.state();
                if state.leaving.is_some() {
                    return Err(self.over(Loss::Resigned));
                }
                let mut talk = self.shared.talk();
                state.spots =
                    self.join.names.iter().map(|name| talk.exchange.begin(name)).collect();
                let (_, answer) = talk.exchange.request(Does::Join(words::join(&self.join)));
                talk.flush();
                answer
            };
            let Ok(answer) = answer.await else { return Err(self.over(Loss::NotFound)) };
            match answer.refusal {
                Some(refusal) => Err(words::refused(&self.join.first_name(), refusal)),
                None => match self.loss() {
                    Some(loss) => Err(self.over(loss)),
                    None => Ok(self.grant()),
                },
            }
        })
    }

    fn turn(&self) -> Boxed<'_, Result<Grant, AcquireError>> {
        Box::pin(async move {
            let mut spots = self.spots();
            loop {
                // Marks as seen before looking, so that nothing is missed in between.
                spots.iter_mut().for_each(|spot| drop(spot.borrow_and_update()));
                if let Some(loss) = self.loss() {
                    return Err(self.over(loss));
                }
                if let Some(grant) = self.grant() {
                    return Ok(grant);
                }
                Self::change(&mut spots).await.map_err(|loss| self.over(loss))?;
            }
        })
    }

    fn gone_already(&self) -> Option<Loss> {
        self.loss()
    }

    fn gone(&self) -> Boxed<'_, Loss> {
        Box::pin(async move {
            let mut spots = self.spots();
            loop {
                spots.iter_mut().for_each(|spot| drop(spot.borrow_and_update()));
                if let Some(loss) = self.loss() {
                    return loss;
                }
                if let Err(loss) = Self::change(&mut spots).await {
                    return loss;
                }
            }
        })
    }

    fn drain(&self) -> Boxed<'_, Drain> {
        Box::pin(async move {
            let mut spots = self.spots();
            loop {
                spots.iter_mut().for_each(|spot| drop(spot.borrow_and_update()));
                if let Some(drain) = spots.iter().find_map(|spot| spot.borrow().drain.clone()) {
                    return drain;
                }
                if Self::change(&mut spots).await.is_err() {
                    return std::future::pending().await;
                }
            }
        })
    }

    fn proclaim(&self, value: Vec<u8>) -> Boxed<'_, Result<(), ProclaimError>> {
        Box::pin(async move {
            let name = self.join.first_name();
            let Some(grant) = self.grant() else {
                let loss = self.loss().unwrap_or(Loss::Resigned);
                return Err(ProclaimError::Lost { name, loss });
            };
            let token = grant.held[0].token.get();
            let proclaim = pb::Proclaim { name: name.to_string(), token, value: value.into() };
            let answer = self.shared.ask(Does::Proclaim(proclaim)).await;
            match answer.map(|answer| answer.refusal) {
                Ok(None) => Ok(()),
                Ok(Some(refusal)) if words::is_not_ours(&refusal) => {
                    let loss = self.loss().unwrap_or(Loss::KeyDeleted);
                    Err(ProclaimError::Lost { name, loss })
                }
                Ok(Some(refusal)) => {
                    Err(ProclaimError::Refused { name, source: words::engine(refusal) })
                }
                Err(_) => Err(ProclaimError::Unknown { name, source: unanswered() }),
            }
        })
    }

    /// The requests to leave get their numbers here, before the session can join again.
    fn forsake(&self, stopped: bool) {
        let mut state = self.state();
        if state.leaving.is_some() {
            return;
        }
        let mut talk = self.shared.talk();
        let mut leaving = Vec::new();
        if !state.spots.is_empty() {
            for (at, (name, spot)) in self.join.names.iter().zip(&state.spots).enumerate() {
                // What was held is named by its token, also if it is gone: that its work has stopped is
                // worth knowing then. Who only waited leaves whatever place it has.
                let token = {
                    let spot = spot.borrow();
                    spot.token.filter(|_| spot.held).unwrap_or_default()
                };
                let (_, answer) = talk.exchange.request(leave_line(name.as_str(), token, stopped));
                leaving.push(Leaving { at, stopped, answer });
            }
            talk.flush();
        }
        talk.exchange.free(&self.join.names);
        state.leaving = Some(leaving);
    }

    fn leave(&self) -> Boxed<'_, Result<(), EngineError>> {
        self.forsake(false);
        Box::pin(async move {
            let mut leaving = self.state().leaving.replace(vec![]).unwrap_or_default();
            let mut failed = None;
            for one in &mut leaving {
                let error = match (&mut one.answer).await.map(|answer| answer.refusal) {
                    Ok(None) => continue,
                    // It was gone already: refused with the join, or lost.
                    Ok(Some(refusal)) if words::is_not_ours(&refusal) => continue,
                    Ok(Some(refusal)) => words::engine(refusal),
                    Err(_) => unanswered(),
                };
                if let Some(answer) = self.ask_again(one) {
                    failed = Some(error);
                    self.state().leaving.get_or_insert_default().push(answer);
                }
            }
            failed.map_or(Ok(()), Err)
        })
    }
}

impl NativePlace {
    /// Asks once more to leave, whoever asks for the answer; by token, because this session may stand in
    /// the same line again by now. None if there was never a place to leave.
    fn ask_again(&self, refused: &Leaving) -> Option<Leaving> {
        let (at, stopped) = (refused.at, refused.stopped);
        let token = self.spots().get(at)?.borrow().token?;
        let name = self.join.names[at].as_str();
        let answer = self.shared.ask(leave_line(name, token, stopped));
        Some(Leaving { at, stopped, answer })
    }
}

impl Drop for NativePlace {
    fn drop(&mut self) {
        self.forsake(false);
    }
}

#[cfg(test)]
mod tests;
