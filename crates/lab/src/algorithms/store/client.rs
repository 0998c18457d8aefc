//! A client of the store.

use std::time::Duration;

use super::{StoreMessage, StoreRequest};
use crate::{
    engine::ms,
    stage::{Context, ProcessId},
};

/// After this time a request, or its answer, is taken for lost.
const ANSWER: Duration = ms(1000);

/// One request at a time: a new one replaces the one before, whose answer is ignored then.
#[derive(Debug, Default)]
pub(crate) struct StoreClient {
    number: u64,
    purpose: &'static str,
    insists: bool,
}

impl StoreClient {
    /// Sends a request. If no answer comes, the alarm `answer` is due.
    pub(crate) fn request(
        &mut self,
        to: ProcessId,
        purpose: &'static str,
        what: StoreRequest,
        context: &mut Context<'_, StoreMessage>,
    ) {
        self.request_once(to, purpose, what, context);
        self.insists = true;
        context.alarm("answer", ANSWER);
    }

    /// Sends a request, without an alarm.
    pub(crate) fn request_once(
        &mut self,
        to: ProcessId,
        purpose: &'static str,
        what: StoreRequest,
        context: &mut Context<'_, StoreMessage>,
    ) {
        self.number += 1;
        self.purpose = purpose;
        self.insists = false;
        context.send(to, StoreMessage::Request { number: self.number, purpose, what });
    }

    /// Whether this answer is waited for.
    pub(crate) fn accepts(&mut self, number: u64, context: &mut Context<'_, StoreMessage>) -> bool {
        let waited_for = number == self.number && !self.purpose.is_empty();
        if waited_for {
            self.purpose = "";
            if self.insists {
                context.cancel("answer");
            }
        }
        waited_for
    }

    /// The purpose of the request that waits for its answer.
    pub(crate) fn waits_for(&self) -> &'static str {
        self.purpose
    }
}
