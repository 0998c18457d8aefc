//! One candidacy: entering, waiting, holding, leaving.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::select_all;
use pb::session_request::Request as SessionCall;
use tenure_api::wire::tenure::v1 as pb;
use tokio::sync::{oneshot, watch};

use super::convert;
use super::exchange::{CandidacyState, leave_election};
use super::link::{Shared, unanswered};
use crate::backend::{BackendCandidate, Boxed, Drain, Grant, HeldName, JoinSpec};
use crate::{AcquireError, EngineError, FencingToken, Loss, ProclaimError};

/// A candidacy over `tenure.v1`.
#[derive(Debug)]
pub(super) struct NativeCandidate {
    shared: Arc<Shared>,
    join: JoinSpec,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// One for each name, from entering on.
    candidacies: Vec<watch::Receiver<CandidacyState>>,
    /// The requests to leave that are not confirmed, from forsaking on.
    leaving: Option<Vec<Leaving>>,
}

/// One request to leave.
#[derive(Debug)]
struct Leaving {
    /// Which of the names it is about.
    at: usize,
    stopped: bool,
    answer: oneshot::Receiver<pb::RequestResult>,
}

impl NativeCandidate {
    pub(super) fn new(shared: Arc<Shared>, join: JoinSpec) -> NativeCandidate {
        NativeCandidate { shared, join, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn candidacies(&self) -> Vec<watch::Receiver<CandidacyState>> {
        self.state().candidacies.clone()
    }

    /// What is held, if everything is.
    fn grant(&self) -> Option<Grant> {
        let held = |(name, candidacy): (&crate::ElectionName, &watch::Receiver<CandidacyState>)| {
            let candidacy = candidacy.borrow();
            let token = candidacy.token.and_then(FencingToken::from_revision)?;
            let slot =
                matches!(self.join.mode, crate::backend::Mode::Permit(_)).then_some(candidacy.slot);
            let holds = candidacy.held && candidacy.gone.is_none();
            holds.then(|| HeldName { name: name.clone(), token, slot })
        };
        let candidacies = self.candidacies();
        let held: Option<Vec<_>> = self.join.names.iter().zip(&candidacies).map(held).collect();
        held.filter(|held| !held.is_empty()).map(|held| Grant { held })
    }

    fn loss(&self) -> Option<Loss> {
        self.candidacies().iter().find_map(|candidacy| candidacy.borrow().gone)
    }

    /// Waits until something happens to one of the candidacies.
    async fn change(candidacies: &mut [watch::Receiver<CandidacyState>]) -> Result<(), Loss> {
        let changes = candidacies.iter_mut().map(|candidacy| Box::pin(candidacy.changed()));
        // No more is told of a candidacy that this session has begun anew, or after its end.
        select_all(changes).await.0.map_err(|_| Loss::Resigned)
    }

    fn over(&self, loss: Loss) -> AcquireError {
        AcquireError::out_of_election(self.join.first_name(), loss)
    }
}

impl BackendCandidate for NativeCandidate {
    fn enter(&self) -> Boxed<'_, Result<Option<Grant>, AcquireError>> {
        Box::pin(async move {
            let answer = {
                let mut state = self.state();
                if state.leaving.is_some() {
                    return Err(self.over(Loss::Resigned));
                }
                let mut talk = self.shared.talk();
                state.candidacies =
                    self.join.names.iter().map(|name| talk.exchange.begin(name)).collect();
                let (_, answer) = talk.exchange.request(SessionCall::Join((&self.join).into()));
                talk.flush();
                answer
            };
            let Ok(answer) = answer.await else { return Err(self.over(Loss::NotFound)) };
            match answer.refusal {
                Some(refusal) => Err(convert::refused(&self.join.first_name(), refusal)),
                None => match self.loss() {
                    Some(loss) => Err(self.over(loss)),
                    None => Ok(self.grant()),
                },
            }
        })
    }

    fn turn(&self) -> Boxed<'_, Result<Grant, AcquireError>> {
        Box::pin(async move {
            let mut candidacies = self.candidacies();
            loop {
                // Marks as seen before looking, so that nothing is missed in between.
                candidacies.iter_mut().for_each(|candidacy| drop(candidacy.borrow_and_update()));
                if let Some(loss) = self.loss() {
                    return Err(self.over(loss));
                }
                if let Some(grant) = self.grant() {
                    return Ok(grant);
                }
                Self::change(&mut candidacies).await.map_err(|loss| self.over(loss))?;
            }
        })
    }

    fn gone_already(&self) -> Option<Loss> {
        self.loss()
    }

    fn gone(&self) -> Boxed<'_, Loss> {
        Box::pin(async move {
            let mut candidacies = self.candidacies();
            loop {
                candidacies.iter_mut().for_each(|candidacy| drop(candidacy.borrow_and_update()));
                if let Some(loss) = self.loss() {
                    return loss;
                }
                if let Err(loss) = Self::change(&mut candidacies).await {
                    return loss;
                }
            }
        })
    }

    fn drain(&self) -> Boxed<'_, Drain> {
        Box::pin(async move {
            let mut candidacies = self.candidacies();
            loop {
                candidacies.iter_mut().for_each(|candidacy| drop(candidacy.borrow_and_update()));
                if let Some(drain) =
                    candidacies.iter().find_map(|candidacy| candidacy.borrow().drain.clone())
                {
                    return drain;
                }
                if Self::change(&mut candidacies).await.is_err() {
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
            let answer = self.shared.ask(SessionCall::Proclaim(proclaim)).await;
            match answer.map(|answer| answer.refusal) {
                Ok(None) => Ok(()),
                Ok(Some(refusal)) if convert::is_not_ours(&refusal) => {
                    let loss = self.loss().unwrap_or(Loss::KeyDeleted);
                    Err(ProclaimError::Lost { name, loss })
                }
                Ok(Some(refusal)) => {
                    Err(ProclaimError::Refused { name, source: convert::engine(refusal) })
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
        if !state.candidacies.is_empty() {
            for (at, (name, candidacy)) in
                self.join.names.iter().zip(&state.candidacies).enumerate()
            {
                // What was held is named by its token, also if it is gone: that its work has stopped is
                // worth knowing then. A candidate that only waited leaves whatever candidacy it has.
                let token = {
                    let candidacy = candidacy.borrow();
                    candidacy.token.filter(|_| candidacy.held).unwrap_or_default()
                };
                let (_, answer) =
                    talk.exchange.request(leave_election(name.as_str(), token, stopped));
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
                    Ok(Some(refusal)) if convert::is_not_ours(&refusal) => continue,
                    Ok(Some(refusal)) => convert::engine(refusal),
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

impl NativeCandidate {
    /// Asks once more to leave, whichever caller wants the answer; by token, because this session may be a candidate
    /// for the same name again by now. `None` if there was never a candidacy to leave.
    fn ask_again(&self, refused: &Leaving) -> Option<Leaving> {
        let (at, stopped) = (refused.at, refused.stopped);
        let token = self.candidacies().get(at)?.borrow().token?;
        let name = self.join.names[at].as_str();
        let answer = self.shared.ask(leave_election(name, token, stopped));
        Some(Leaving { at, stopped, answer })
    }
}

impl Drop for NativeCandidate {
    fn drop(&mut self) {
        self.forsake(false);
    }
}

#[cfg(test)]
mod tests;
