//! Every request gets exactly one answer, in time.

use std::{collections::BTreeMap, time::Duration};

use tenure_api::{Principal, Revision};
use tenure_replica::{Moment, Operation, RequestId};

use super::must;
use crate::{cluster::member::MemberNumber, engine::RunCounts};

pub const NAME: &str = "one_answer";

/// A request that waits for its answer.
#[derive(Clone, Debug)]
pub struct OpenRequest {
    pub member: MemberNumber,
    pub client: usize,
    pub by: Principal,
    pub request: Operation,
    pub sent: Moment,
    /// The newest revision that any client had been told when it was sent.
    pub floor: Revision,
}

#[derive(Default)]
pub struct OneAnswer {
    open: BTreeMap<RequestId, OpenRequest>,
    last: RequestId,
}

impl OneAnswer {
    pub fn open(&mut self, open: OpenRequest) -> RequestId {
        self.last += 1;
        self.open.insert(self.last, open);
        self.last
    }

    /// The request with this answer.
    pub fn answer(
        &mut self,
        member: MemberNumber,
        id: RequestId,
        counts: &mut RunCounts,
    ) -> OpenRequest {
        counts.count(NAME);
        let open = self.open.remove(&id);
        must!(open.is_some(), "request {id} was answered twice, or never asked");
        let open = open.expect("just checked");
        must!(open.member == member, "member {member} answered {open:?}, which went elsewhere");
        open
    }

    /// A member's process has ended, and with it its answers.
    pub fn forget(&mut self, member: MemberNumber) -> Vec<(RequestId, OpenRequest)> {
        self.open.extract_if(.., |_, open| open.member == member).collect()
    }

    pub fn waiting(&self) -> usize {
        self.open.len()
    }

    /// Checks how long an answered request has waited.
    pub fn check_wait(&self, open: &OpenRequest, now: Moment, patience: Duration) {
        let waited = now.since(open.sent);
        must!(waited <= patience, "a request waited for {waited:?}: {open:?}");
    }

    /// Checks that no request waits any more.
    pub fn check_rest(&self) {
        let waiting = self.open.first_key_value();
        must!(waiting.is_none(), "a request was never answered: {waiting:?}");
    }
}
