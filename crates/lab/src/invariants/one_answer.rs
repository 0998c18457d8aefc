//! Every request gets exactly one answer, in time.

use std::{collections::BTreeMap, time::Duration};

use tenure_api::Revision;
use tenure_replica::{Moment, Request, RequestId};

use super::must;
use crate::{cluster::member::Number, engine::Counts};

pub const NAME: &str = "one_answer";

/// A request that waits for its answer.
#[derive(Clone, Debug)]
pub struct Open {
    pub member: Number,
    pub client: usize,
    pub request: Request,
    pub sent: Moment,
    /// The newest revision that anybody had been told of when it was sent.
    pub floor: Revision,
}

#[derive(Default)]
pub struct OneAnswer {
    open: BTreeMap<RequestId, Open>,
    last: RequestId,
}

impl OneAnswer {
    pub fn ask(&mut self, open: Open) -> RequestId {
        self.last += 1;
        self.open.insert(self.last, open);
        self.last
    }

    /// The request that this answers.
    pub fn answer(&mut self, member: Number, id: RequestId, counts: &mut Counts) -> Open {
        counts.count(NAME);
        let open = self.open.remove(&id);
        must!(open.is_some(), "request {id} was answered twice, or never asked");
        let open = open.expect("just checked");
        must!(open.member == member, "member {member} answered {open:?}, which went elsewhere");
        open
    }

    /// A member's process is gone, and with it the answers.
    pub fn forget(&mut self, member: Number) -> Vec<(RequestId, Open)> {
        self.open.extract_if(.., |_, open| open.member == member).collect()
    }

    pub fn waiting(&self) -> usize {
        self.open.len()
    }

    /// This one was answered now.
    pub fn judge_wait(&self, open: &Open, now: Moment, patience: Duration) {
        let waited = now.since(open.sent);
        must!(waited <= patience, "a request waited for {waited:?}: {open:?}");
    }

    /// Nobody waits any more.
    pub fn judge_rest(&self) {
        let waiting = self.open.first_key_value();
        must!(waiting.is_none(), "a request was never answered: {waiting:?}");
    }
}
