//! A client that asks one thing of one member and remembers when and what it was answered.

use std::{cell::RefCell, rc::Rc, time::Duration};

use tenure_api::Failure;
use tenure_replica::{Answer, Reply, Request};

use super::Client;
use crate::{
    cluster::{World, member::Number},
    invariants::one_answer::Open,
};

/// What came back, and how long it took. The member's death counts as "stopped".
pub(super) type Verdict = Option<(Duration, Result<Reply, Failure>)>;

pub struct Probe {
    to: Number,
    request: Option<Request>,
    verdict: Rc<RefCell<Verdict>>,
}

impl Probe {
    pub fn new(to: Number, request: Request) -> (Probe, Rc<RefCell<Verdict>>) {
        let verdict = Rc::new(RefCell::new(None));
        (Probe { to, request: Some(request), verdict: verdict.clone() }, verdict)
    }
}

impl Client for Probe {
    fn turn(&mut self, me: usize, world: &mut World) {
        if let Some(request) = self.request.take()
            && world.ask(me, self.to, request).is_none()
        {
            *self.verdict.borrow_mut() = Some((Duration::ZERO, Err(Failure::Stopped)));
        }
    }

    fn answered(&mut self, _me: usize, world: &mut World, open: &Open, answer: &Answer) {
        let took = world.now().since(open.sent);
        *self.verdict.borrow_mut() = Some((took, answer.result.clone()));
    }

    fn lost(&mut self, _me: usize, world: &mut World, open: &Open) {
        let took = world.now().since(open.sent);
        *self.verdict.borrow_mut() = Some((took, Err(Failure::Stopped)));
    }
}
