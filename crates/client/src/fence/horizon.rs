//! Whether a token can have been given at all.
//!
//! A token is a revision of the cluster, so none is above the cluster's present revision. Without this
//! check one garbled header would raise a gate to 9223372036854775807, and no token would ever be admitted again.
//!
//! The highest revision that was ever answered is remembered, and the cluster is asked only about
//! tokens above it: once for each new holder, as a rule. One question is under way at a time, and
//! every call that came before it was sent shares its answer, so that a flood of garbage becomes no flood of questions.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use tenure_api::wire::etcdserverpb as pb;
use tokio::sync::Mutex;

use super::FencingToken;
use crate::grpc::{Client, ClientError};

/// Knows how far the cluster has come.
#[derive(Debug)]
pub struct Horizon {
    client: Client,
    /// The highest revision that the cluster has answered.
    known: AtomicI64,
    last: Mutex<Option<Question>>,
    /// The last question about the holders of an election.
    last_holders: Mutex<Option<HoldersQuestion>>,
}

/// A question about the holders of an election, and their tokens.
#[derive(Debug)]
struct HoldersQuestion {
    sent: Instant,
    election: String,
    held: Result<Vec<i64>, String>,
}

/// The last question that was put to the cluster.
#[derive(Debug)]
struct Question {
    sent: Instant,
    failure: Option<String>,
}

/// Why a token cannot be believed. Neither raises a gate.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TokenDoubt {
    /// The cluster has not come so far: the token is garbled, or of another cluster.
    #[error("token {token} was never given: the cluster is at revision {revision}")]
    NeverGiven {
        /// The token shown.
        token: FencingToken,
        /// The cluster's revision, read after the token was shown.
        revision: i64,
    },
    /// It is not the token of a holder of the election that counts.
    #[error("token {token} is not held in {election}")]
    NotHeld {
        /// The token shown.
        token: FencingToken,
        /// The election or lock.
        election: String,
    },
    /// The cluster could not be asked. The token may be good.
    #[error("token {token} cannot be checked: {cause}")]
    Unknown {
        /// The token shown.
        token: FencingToken,
        /// What came of asking.
        cause: String,
    },
}

impl Horizon {
    /// Asks this cluster.
    pub fn new(client: Client) -> Horizon {
        let (last, last_holders) = (Mutex::default(), Mutex::default());
        Horizon { client, known: AtomicI64::new(0), last, last_holders }
    }

    /// The highest revision that the cluster has answered so far; 0 if it was never asked.
    pub fn known(&self) -> i64 {
        self.known.load(Ordering::Relaxed)
    }

    /// Whether the cluster can have given this token.
    ///
    /// The cluster is read linearizably, and after the token was shown: a real holder of a token got it from a revision
    /// that such a read must see.
    ///
    /// # Errors
    /// See [`TokenDoubt`].
    pub async fn vouch(&self, token: FencingToken) -> Result<(), TokenDoubt> {
        if token.get() <= self.known() {
            return Ok(());
        }
        let shown = Instant::now();
        let mut last = self.last.lock().await;
        // An answer to a question that was sent before this token was shown says nothing against it.
        let question = match last.take() {
            Some(question) if question.sent > shown => question,
            _ => self.ask().await,
        };
        let failure = question.failure.clone();
        *last = Some(question);
        drop(last);
        let revision = self.known();
        match failure {
            _ if token.get() <= revision => Ok(()),
            Some(cause) => Err(TokenDoubt::Unknown { token, cause }),
            None => Err(TokenDoubt::NeverGiven { token, revision }),
        }
    }

    /// Whether this is the token of a holder of that election or lock, now. A revision that the cluster has given to any other
    /// key is none.
    ///
    /// # Errors
    /// See [`TokenDoubt`]. A real etcd cannot be asked.
    pub async fn vouch_for_holder(
        &self,
        election: &str,
        token: FencingToken,
    ) -> Result<(), TokenDoubt> {
        let shown = Instant::now();
        let mut last = self.last_holders.lock().await;
        // As in `vouch`: one question at a time, and an answer counts for what was shown before it was sent.
        let question = match last.take() {
            Some(question) if question.sent > shown && question.election == election => question,
            _ => self.ask_for_holders(election).await,
        };
        let held = question.held.clone();
        *last = Some(question);
        drop(last);
        match held {
            Ok(held) if held.contains(&token.get()) => Ok(()),
            Ok(_) => Err(TokenDoubt::NotHeld { token, election: election.to_owned() }),
            Err(cause) => Err(TokenDoubt::Unknown { token, cause }),
        }
    }

    async fn ask_for_holders(&self, election: &str) -> HoldersQuestion {
        let sent = Instant::now();
        let asked = self.client.elections().candidates(election.to_owned()).await;
        let held = asked.map(|found| {
            let holders = found.candidates.into_iter().filter(|candidate| candidate.holds);
            holders.map(|holder| holder.token).collect()
        });
        let held = held.map_err(|error| error.to_string());
        HoldersQuestion { sent, election: election.to_owned(), held }
    }

    /// Asks the cluster for its revision, to have it at hand.
    ///
    /// # Errors
    /// If the cluster cannot be asked.
    pub async fn look(&self) -> Result<i64, ClientError> {
        // The key does not matter, and need not exist.
        let request = pb::RangeRequest { key: "\0".into(), count_only: true, ..Default::default() };
        let answer = self.client.kv().range(request).await?;
        let revision = answer.header.map_or(0, |header| header.revision);
        Ok(self.known.fetch_max(revision, Ordering::Relaxed).max(revision))
    }

    async fn ask(&self) -> Question {
        let sent = Instant::now();
        let failure = self.look().await.err().map(|error| error.to_string());
        Question { sent, failure }
    }
}
