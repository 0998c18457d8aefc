//! Observing an election over `tenure.v1`: resumed after the last revision that was told.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use pb::observe_response::Event;
use tenure_api::Revision;
use tenure_api::wire::tenure::v1 as pb;

use super::convert;
use super::wire::{Heard, Wire};
use crate::backend::{Boxed, Observation, Sight};
use crate::chance::Backoff;
use crate::host::Host;
use crate::{ElectionName, EngineError};

const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// An observed election.
pub(super) struct Seen {
    members: Arc<dyn Wire>,
    host: Arc<dyn Host>,
    name: ElectionName,
    told: Heard<pb::ObserveResponse>,
    /// The last revision that was told.
    after: i64,
    backoff: Backoff,
}

impl Seen {
    pub(super) async fn open(
        members: Arc<dyn Wire>,
        host: Arc<dyn Host>,
        name: ElectionName,
    ) -> Result<Seen, EngineError> {
        let told = members.observe(request(&name, 0)).await?;
        let backoff = Backoff::new(host.chance(), PAUSE_FIRST, PAUSE_MAX);
        Ok(Seen { members, host, name, told, after: 0, backoff })
    }

    async fn reopen(&mut self) -> Result<(), EngineError> {
        loop {
            self.host.pause(self.backoff.pause()).await;
            match self.members.observe(request(&self.name, self.after)).await {
                Ok(told) => {
                    self.told = told;
                    return Ok(());
                }
                Err(error) if error.is_refused() => return Err(error.into()),
                Err(_) => {}
            }
        }
    }
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seen").field("name", &self.name).field("after", &self.after).finish()
    }
}

impl Observation for Seen {
    fn next(&mut self) -> Boxed<'_, Result<(Revision, Sight), EngineError>> {
        Box::pin(async move {
            loop {
                let turn = self.members.turn();
                let Some(Ok(told)) = self.told.next().await else {
                    self.members.leave(turn);
                    self.reopen().await?;
                    continue;
                };
                self.backoff.reset();
                self.after = self.after.max(told.revision);
                if let Some(sight) = told.event.and_then(sight) {
                    return Ok((Revision(told.revision), sight));
                }
            }
        })
    }
}

fn request(name: &ElectionName, after_revision: i64) -> pb::ObserveRequest {
    pb::ObserveRequest { name: name.to_string(), after_revision }
}

fn sight(event: Event) -> Option<Sight> {
    match event {
        Event::Began(tenure) => convert::tenure(tenure).map(Sight::Leads),
        Event::Proclaimed(tenure) => convert::tenure(tenure).map(Sight::Proclaims),
        // The event that follows names the new leader, or says that there is none.
        Event::Ended(_) => None,
        Event::NoLeader(_) => Some(Sight::NoLeader),
        Event::Forgotten(_) => Some(Sight::Gap),
    }
}
