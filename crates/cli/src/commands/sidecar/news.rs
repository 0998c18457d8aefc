//! Keeps asking for the leader.
//!
//! A watch that says nothing may mean that nothing happened, or that the member is gone. So
//! the watch only tells *when* to look, and an interval does too; *what* is known comes from one question
//! at a time: the candidates, by a linearizable read. Its answer is not older than its sending,
//! whichever member gave it, and a member that is cut off from the majority gives none. As there is
//! one question at a time, answers cannot overtake each other.

use std::sync::Arc;
use std::time::Duration;

use tenure::api::wire::tenure::v1 as pb;
use tenure::clock::{Boottime, Clock};
use tenure::grpc::{Client, ClientError, Code};
use tenure::{ElectionName, Engine, FencingToken, Observer};
use tokio::time::sleep;

use super::belief::{Leader, News};
use super::metrics::Counts;
use super::status_cache::StatusCache;

/// How often to ask, as a part of the lease: an answer that fails leaves time for others.
const ASKS_PER_TTL: u32 = 5;
const ASK_INTERVAL_MAX: Duration = Duration::from_secs(3);
/// The pause after a question without an answer.
const PAUSE: Duration = Duration::from_millis(200);
/// The pause before a watch that was refused is tried again.
const REFUSED_PAUSE: Duration = Duration::from_secs(2);

/// The server is not tenure: a real etcd, most likely. Waiting does not change that.
#[derive(Debug)]
pub(super) struct Foreign;

impl std::fmt::Display for Foreign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "the server does not speak tenure.v1, a real etcd most likely: \
             tenure sidecar needs tenure's own servers, choose them with --endpoints",
        )
    }
}

impl std::error::Error for Foreign {}

/// Follows an election.
#[derive(Debug)]
pub(super) struct Reporter {
    pub(super) client: Client,
    pub(super) engine: Engine,
    pub(super) name: ElectionName,
    pub(super) status: Arc<StatusCache>,
    pub(super) counts: Arc<Counts>,
}

impl Reporter {
    /// Stores news, for ever; unless the server never can give any.
    pub(super) async fn run(self) -> Foreign {
        tokio::select! {
            never = self.watch() => match never {},
            foreign = self.ask_again() => foreign,
        }
    }

    /// Asks whenever something was seen.
    async fn watch(&self) -> std::convert::Infallible {
        loop {
            let seen = Observer::open(&self.engine, self.name.clone());
            let mut seen = seen.expect("it is a name already");
            while seen.next().await.is_ok() {
                self.status.ask.notify_one();
            }
            sleep(REFUSED_PAUSE).await;
        }
    }

    async fn ask_again(&self) -> Foreign {
        let interval = (self.status.ttl / ASKS_PER_TTL).min(ASK_INTERVAL_MAX);
        let mut silent = false;
        let mut answered = false;
        loop {
            let pause = match self.ask().await {
                // Not if there were answers before: then it is something in between that speaks.
                Err(error) if !answered && error.code() == Some(Code::Unimplemented) => {
                    return Foreign;
                }
                Ok(news) => {
                    answered = true;
                    if std::mem::take(&mut silent) {
                        eprintln!("a server answers again");
                    }
                    self.status.hear(news);
                    interval
                }
                Err(error) => {
                    self.counts.ask_failed();
                    if !std::mem::replace(&mut silent, true) {
                        eprintln!("cannot ask who leads {}: {error}; asking again", self.name);
                    }
                    PAUSE.min(interval)
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                // Not while no member answers: asking faster would not help.
                () = self.status.ask.notified(), if !silent => {}
            }
        }
    }

    async fn ask(&self) -> Result<News, ClientError> {
        let as_of = Boottime.now();
        let line = self.client.elections().candidates(self.name.to_string()).await?;
        let delayed = line.delay_ms.is_some();
        let leader = line.candidates.into_iter().find(|candidate| candidate.holds);
        Ok(News { leader: leader.and_then(described), as_of, delayed })
    }
}

fn described(candidate: pb::Candidate) -> Option<Leader> {
    let value = String::from_utf8_lossy(&candidate.value).into_owned();
    // A stock client has no identity; its value is what it calls itself.
    let name = if candidate.identity.is_empty() { value.clone() } else { candidate.identity };
    Some(Leader {
        name,
        value,
        token: FencingToken::from_revision(candidate.token)?,
        session: candidate.session,
        since_unix_ms: Some(candidate.leads_since_unix_ms).filter(|ms| *ms > 0),
    })
}
