//! A watch that outlives its connection.
//!
//! When the stream breaks, the watch is opened again on the next member, right after the last
//! revision it has seen: no event is lost, and none is delivered twice.

use std::time::Duration;

use tenure_api::wire::etcdserverpb as pb;
use tokio::time::Instant;
use tonic::Code;

use super::login::is_stale;
use super::need::NeededRight;
use super::watch::Stream;
use super::{Client, ClientError};

/// How long to look for a member that can go on with a broken watch.
const RESUME_FOR_MAX: Duration = Duration::from_secs(60);

/// Pause between two such attempts.
const RESUME_PAUSE: Duration = Duration::from_millis(100);

/// One watch, resumed where it broke off.
#[derive(Debug)]
pub struct Resumed {
    client: Client,
    /// Where to start, should the stream have to be opened again.
    create: pb::WatchCreateRequest,
    stream: Stream,
    /// Only the first confirmation is the caller's business.
    confirmed: bool,
    /// The login was renewed for this watch, which has not been confirmed since.
    renewed: bool,
}

impl Resumed {
    pub(super) async fn open(
        client: Client,
        create: pb::WatchCreateRequest,
    ) -> Result<Resumed, ClientError> {
        let stream = client.watch().open(create.clone()).await?;
        Ok(Resumed { client, create, stream, confirmed: false, renewed: false })
    }

    /// The next answer: confirmation, events, progress, or the end (`canceled`), after which there
    /// is nothing more to ask for.
    ///
    /// # Errors
    /// If the stream broke and no member could go on with it, or the user may not read these keys, or no more.
    pub async fn next(&mut self) -> Result<pb::WatchResponse, ClientError> {
        loop {
            let turn = self.client.turn();
            match self.stream.answers.message().await {
                Ok(Some(answer)) => {
                    if answer.canceled && lost_its_leader(&answer) {
                        self.client.leave(turn);
                        self.reopen().await?;
                        continue;
                    }
                    if answer.canceled && self.renews_login(&answer) {
                        self.reopen().await?;
                        continue;
                    }
                    if let Some(error) = self.refusal(&answer) {
                        return Err(error);
                    }
                    self.renewed &= answer.canceled;
                    self.remember(&answer);
                    if answer.created && std::mem::replace(&mut self.confirmed, true) {
                        continue;
                    }
                    return Ok(answer);
                }
                Ok(None) | Err(_) => {
                    self.client.leave(turn);
                    self.reopen().await?;
                }
            }
        }
    }

    /// The revision from which the watch would be resumed now.
    pub fn next_revision(&self) -> i64 {
        self.create.start_revision
    }

    /// After events, go on after the last of them; after a confirmation of "from now on" or news of
    /// progress, after what the member had seen.
    fn remember(&mut self, answer: &pb::WatchResponse) {
        let last_event = answer.events.last().and_then(|event| event.kv.as_ref());
        let seen = match (last_event, &answer.header) {
            (Some(kv), _) => kv.mod_revision,
            (None, Some(header)) if !answer.created || self.create.start_revision == 0 => {
                header.revision
            }
            _ => return,
        };
        self.create.start_revision = self.create.start_revision.max(seen + 1);
    }

    /// Whether the watch was cancelled for a stale token, and the next stream gets another one.
    fn renews_login(&mut self, answer: &pb::WatchResponse) -> bool {
        let renews = !self.renewed
            && (is_stale(&answer.cancel_reason) || is_vague(answer))
            && self.client.renew_login(&self.stream.stamp);
        self.renewed |= renews;
        renews
    }

    /// Why the user may not watch, if that is why the watch was cancelled. Such a watch stands on a stream that lives.
    fn refusal(&self, answer: &pb::WatchResponse) -> Option<ClientError> {
        let text = answer.cancel_reason.rsplit_once("desc = ")?.1.to_owned();
        let code = match &*text {
            "etcdserver: permission denied" => Code::PermissionDenied,
            text if is_stale(text) => Code::Unauthenticated,
            _ => return None,
        };
        let need = NeededRight::Read(self.create.key.clone(), self.create.range_end.clone());
        answer.canceled.then(|| self.client.denied(ClientError::Refused { code, text }, need))
    }

    async fn reopen(&mut self) -> Result<(), ClientError> {
        let give_up = Instant::now() + RESUME_FOR_MAX;
        loop {
            match self.client.watch().open(self.create.clone()).await {
                Ok(stream) => {
                    self.stream = stream;
                    return Ok(());
                }
                Err(error) if error.is_refused() => return Err(error),
                Err(error) if Instant::now() >= give_up => return Err(error),
                Err(_) => tokio::time::sleep(RESUME_PAUSE).await,
            }
        }
    }
}

/// etcd before 3.5.6 refuses a new watch by these words also for a stale token.
fn is_vague(answer: &pb::WatchResponse) -> bool {
    answer.created && answer.cancel_reason.ends_with("permission denied")
}

/// The member was cut off from the cluster; another one can go on.
fn lost_its_leader(answer: &pb::WatchResponse) -> bool {
    answer.cancel_reason.ends_with("no leader")
}
