//! How far the current or last run on this thread has come. A failure report reads it when the run itself is gone.

use std::cell::{Cell, RefCell};

use tenure_replica::Moment;

use crate::faults::{FaultScript, ScriptStep};

thread_local! {
    static FAULTS: RefCell<FaultScript> = RefCell::default();
    static MOMENT: Cell<Moment> = const { Cell::new(Moment::ZERO) };
}

/// The faults that were injected.
pub fn injected_faults() -> FaultScript {
    FAULTS.with(|faults_injected| faults_injected.borrow().clone())
}

/// The moment that the run has reached.
pub fn moment_reached() -> Moment {
    MOMENT.get()
}

pub(super) fn clear_faults() {
    FAULTS.with(|faults_injected| faults_injected.borrow_mut().steps.clear());
}

pub(super) fn record_fault(step: ScriptStep) {
    FAULTS.with(|faults_injected| faults_injected.borrow_mut().steps.push(step));
}

pub(super) fn record_moment(now: Moment) {
    MOMENT.set(now);
}
