//! A client that sends one request to one member and keeps the answer and the time that it took.

use std::{cell::RefCell, rc::Rc, time::Duration};

use tenure_api::Failure;
use tenure_replica::{Answer, Operation, Reply};

use super::SimClient;
use crate::{
    cluster::{World, member::MemberNumber},
    invariants::one_answer::OpenRequest,
};

/// The answer, and how long it took. The member's death counts as `Stopped`.
pub(super) type ProbeResult = Option<(Duration, Result<Reply, Failure>)>;

pub struct ProbeClient {
    to: MemberNumber,
    request: Option<Operation>,
    result: Rc<RefCell<ProbeResult>>,
}

impl ProbeClient {
    pub fn new(to: MemberNumber, request: Operation) -> (ProbeClient, Rc<RefCell<ProbeResult>>) {
        let result = Rc::new(RefCell::new(None));
        (ProbeClient { to, request: Some(request), result: result.clone() }, result)
    }
}

impl SimClient for ProbeClient {
    fn turn(&mut self, me: usize, world: &mut World) {
        if let Some(request) = self.request.take()
            && world.send_request(me, self.to, request).is_none()
        {
            *self.result.borrow_mut() = Some((Duration::ZERO, Err(Failure::Stopped)));
        }
    }

    fn answered(&mut self, _me: usize, world: &mut World, open: &OpenRequest, answer: &Answer) {
        let took = world.now().since(open.sent);
        *self.result.borrow_mut() = Some((took, answer.result.clone()));
    }

    fn lost(&mut self, _me: usize, world: &mut World, open: &OpenRequest) {
        let took = world.now().since(open.sent);
        *self.result.borrow_mut() = Some((took, Err(Failure::Stopped)));
    }
}
