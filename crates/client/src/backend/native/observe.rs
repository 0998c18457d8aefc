//! Observing an election over `tenure.v1`: resumed after the last revision that was told.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use pb::observe_response::Event;
use tenure_api::Revision;
use tenure_api::wire::tenure::v1 as pb;

use super::convert;
use super::link::broken;
use super::wire::{Heard, Wire};
use crate::backend::{Boxed, Observation, Sight};
use crate::chance::Backoff;
use crate::grpc::ClientError;
use crate::host::Host;
use crate::{ElectionName, EngineError};

const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The events of an election as members stream them, each once, across streams that break.
pub struct ElectionEvents {
    members: Arc<dyn Wire>,
    name: String,
    /// Absent before the first stream, and after one has broken.
    stream: Option<Heard<pb::ObserveResponse>>,
    /// The last revision that was told.
    after: i64,
    /// The token of the tenure whose end was told last.
    ended: Option<i64>,
}

impl ElectionEvents {
    /// Those after this revision; of 0, from now on.
    pub fn after(members: Arc<dyn Wire>, name: String, revision: i64) -> ElectionEvents {
        ElectionEvents { members, name, stream: None, after: revision, ended: None }
    }

    /// The next event.
    ///
    /// # Errors
    /// A refusal is final. After any other error the stream is gone, and the next call goes on where it broke, on another
    /// member; it is for the caller to pause before.
    pub async fn next(&mut self) -> Result<pb::ObserveResponse, ClientError> {
        loop {
            let turn = self.members.turn();
            let response = match self.stream().await?.next().await {
                Some(Ok(response)) => response,
                ended => {
                    self.stream = None;
                    self.members.leave(turn);
                    return Err(match ended {
                        Some(Err(error)) => error,
                        _ => broken("the stream has ended"),
                    });
                }
            };
            self.after = self.after.max(response.revision);
            if !self.is_repeated(&response) {
                return Ok(response);
            }
        }
    }

    /// The stream, opened if there is none.
    async fn stream(&mut self) -> Result<&mut Heard<pb::ObserveResponse>, ClientError> {
        let stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let (name, after_revision) = (self.name.clone(), self.after);
                self.members.observe(pb::ObserveRequest { name, after_revision }).await?
            }
        };
        Ok(self.stream.insert(stream))
    }

    /// Whether it is the end that was told last: a stream that broke right after it begins with it again, lest what
    /// followed be missed.
    fn is_repeated(&mut self, response: &pb::ObserveResponse) -> bool {
        let Some(Event::Ended(tenure)) = &response.event else { return false };
        self.ended.replace(tenure.token) == Some(tenure.token)
    }
}

impl fmt::Debug for ElectionEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, after) = (&self.name, self.after);
        f.debug_struct("ElectionEvents").field("name", name).field("after", &after).finish()
    }
}

/// An observed election.
#[derive(Debug)]
pub(super) struct Seen {
    events: ElectionEvents,
    host: Arc<dyn Host>,
    backoff: Backoff,
}

impl Seen {
    pub(super) async fn open(
        members: Arc<dyn Wire>,
        host: Arc<dyn Host>,
        name: ElectionName,
    ) -> Result<Seen, EngineError> {
        let mut events = ElectionEvents::after(members, name.to_string(), 0);
        events.stream().await?;
        let backoff = Backoff::new(host.chance(), PAUSE_FIRST, PAUSE_MAX);
        Ok(Seen { events, host, backoff })
    }
}

impl Observation for Seen {
    fn next(&mut self) -> Boxed<'_, Result<(Revision, Sight), EngineError>> {
        Box::pin(async move {
            loop {
                match self.events.next().await {
                    Ok(told) => {
                        self.backoff.reset();
                        if let Some(sight) = told.event.and_then(sight) {
                            return Ok((Revision(told.revision), sight));
                        }
                    }
                    Err(error) if error.is_refused() => return Err(error.into()),
                    Err(_) => self.host.pause(self.backoff.pause()).await,
                }
            }
        })
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::{Client, Endpoint, Options};

    fn ended(token: i64) -> pb::ObserveResponse {
        let event = Some(Event::Ended(pb::Tenure { token, ..Default::default() }));
        pb::ObserveResponse { event, ..Default::default() }
    }

    #[tokio::test]
    async fn election_events_tell_an_end_once_that_comes_again() {
        let endpoints = Endpoint::list("a:1").unwrap();
        let client = Arc::new(Client::new(endpoints, Options::default()));
        let mut events = ElectionEvents::after(client, "jobs".into(), 0);
        let no_leader = Some(Event::NoLeader(pb::NoLeader { frozen: false }));
        let no_leader = pb::ObserveResponse { event: no_leader, ..Default::default() };
        let told = [ended(5), ended(5), no_leader.clone(), no_leader, ended(7)];
        let repeated = told.map(|response| events.is_repeated(&response));
        assert_eq!(repeated, [false, true, false, false, false]);
    }
}
