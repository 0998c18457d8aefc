//! What is known of the run under way on this thread, or of the last one: for whoever reports that it
//! failed, as the run itself is gone by then.

use std::cell::{Cell, RefCell};

use tenure_replica::Moment;

use crate::faults::{Script, Step};

thread_local! {
    static BLOWS: RefCell<Script> = RefCell::default();
    static MOMENT: Cell<Moment> = const { Cell::new(Moment::ZERO) };
}

/// The blows that fell.
pub fn blows_so_far() -> Script {
    BLOWS.with(|blows| blows.borrow().clone())
}

/// How far it came.
pub fn moment_so_far() -> Moment {
    MOMENT.get()
}

pub(super) fn forget_blows() {
    BLOWS.with(|blows| blows.borrow_mut().steps.clear());
}

pub(super) fn note_blow(step: Step) {
    BLOWS.with(|blows| blows.borrow_mut().steps.push(step));
}

pub(super) fn note_moment(now: Moment) {
    MOMENT.set(now);
}
