//! One request from the gate to its end at the upstream.
//!
//! The exchange is a task of its own. A client that hangs up does not end it: the upstream does not
//! forget what it was told, so neither may the gate. The passage is held until
//!
//! - the whole answer has come and the whole request is sent, or
//! - the connection to the upstream ended, by either side, and then for `--settle` longer, because an
//!   upstream that lost its connection may still be at work.
//!
//! What only reads has no effect to wait for. Its passage ends when its answer begins, so that an old
//! holder's endless stream of events does not keep the new one out.
//!
//! All of it is bounded: the upstream may keep silent for `--upstream-timeout`, a client may stop
//! sending or reading for `--client-timeout`, and the rest of an answer that nobody reads any more is
//! read for one `--upstream-timeout` in all.

use std::sync::Arc;

use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tenure::fence::Passage;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

use super::answer::Failure;
use super::metrics::InFlight;
use super::pool::Connection;
use super::reply::{Pipe, Reply};
use super::upload::{Progress, Upload};
use super::{Alive, BoxError, Worker, head};

/// How many frames of an answer may wait for a client to read them.
const FRAMES_WAITING_MAX: usize = 4;

/// A request like this one, which has no body.
fn head_of(request: &Request<Upload>) -> Request<Upload> {
    let mut again = Request::new(Upload::default());
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.headers_mut() = request.headers().clone();
    again
}

/// Being inside the gate, and counted as such.
#[derive(Debug)]
pub(super) struct Inside {
    _passage: Passage,
    _counted: InFlight,
}

impl Inside {
    pub(super) fn new(passage: Passage, counted: InFlight) -> Inside {
        Inside { _passage: passage, _counted: counted }
    }
}

/// What is left of an exchange when its task is done.
enum End {
    /// The upstream has answered, and has everything.
    Whole(Connection),
    /// The connection ended before, and is closed.
    Unknown,
}

/// Sends a request on, and answers when the upstream's answer begins.
pub(super) async fn exchange(
    worker: &Arc<Worker>,
    parts: Parts,
    body: Incoming,
    inside: Option<Inside>,
    alive: Alive,
) -> Result<Response<Reply>, Failure> {
    let (answer, answered) = oneshot::channel();
    let (upload, progress) = Upload::of(body, worker.proxy.waits.client);
    let exchange = Exchange {
        worker: Arc::clone(worker),
        progress,
        only_reads: parts.method.is_safe(),
        inside,
        _alive: alive,
    };
    tokio::spawn(exchange.run(Request::from_parts(parts, upload), answer));
    // The task answers unless it panicked.
    answered.await.unwrap_or(Err(Failure::Silent))
}

struct Exchange {
    worker: Arc<Worker>,
    progress: Arc<Progress>,
    only_reads: bool,
    inside: Option<Inside>,
    _alive: Alive,
}

type Answer = oneshot::Sender<Result<Response<Reply>, Failure>>;

impl Exchange {
    async fn run(mut self, request: Request<Upload>, answer: Answer) {
        let end = match self.send(request).await {
            Ok((response, connection)) => self.hand_over(response, connection, answer).await,
            Err(failure) => {
                let unknown = failure.outcome_unknown();
                if !unknown {
                    self.inside = None;
                }
                // Nobody may be listening any more.
                let _ = answer.send(Err(failure));
                if !unknown {
                    return;
                }
                End::Unknown
            }
        };
        match end {
            End::Whole(connection) => self.worker.pool.give_back(connection),
            End::Unknown => self.settle().await,
        }
    }

    /// Sends the request and waits for the answer to begin.
    async fn send(
        &self,
        mut request: Request<Upload>,
    ) -> Result<(Response<Incoming>, Connection), Failure> {
        loop {
            let mut connection = self.worker.pool.take().await?;
            // What only reads, and has no body, can be asked again.
            let again = (self.only_reads && connection.reused && request.body().is_end_stream())
                .then(|| head_of(&request));
            let sending = connection.sender.try_send_request(request);
            let Some(sent) = self.unless_silent(sending).await else {
                return Err(Failure::Silent);
            };
            let mut error = match sent {
                // Nobody asked for another protocol.
                Ok(response) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                    return Err(Failure::Broken("it wants to leave HTTP unasked".to_owned()));
                }
                Ok(response) => return Ok((response, connection)),
                Err(error) => error,
            };
            // What comes back was not sent. Of the rest, a write may have arrived, and is not sent twice.
            match error.take_message().or(again) {
                Some(unsent) if connection.reused => request = unsent,
                _ if self.progress.failed() => return Err(Failure::ClientStopped),
                _ => return Err(Failure::Broken(error.into_error().to_string())),
            }
        }
    }

    /// Waits, but not for an upstream that neither takes nor answers anything. While the client is the
    /// one to move, its own limit counts.
    async fn unless_silent<T>(&self, sending: impl Future<Output = T>) -> Option<T> {
        let mut sending = std::pin::pin!(sending);
        let mut frames = self.progress.frames();
        loop {
            if let Ok(sent) = timeout(self.worker.proxy.waits.upstream, &mut sending).await {
                return Some(sent);
            }
            let moved = std::mem::replace(&mut frames, self.progress.frames());
            if moved == frames && !self.progress.waits_for_client() {
                return None;
            }
        }
    }

    /// Hands the answer over to whoever asked, and sees it to its end.
    async fn hand_over(
        &mut self,
        response: Response<Incoming>,
        connection: Connection,
        answer: Answer,
    ) -> End {
        if self.only_reads {
            self.inside = None;
        }
        let (mut parts, mut body) = response.into_parts();
        head::toward_client(&mut parts);
        if body.is_end_stream() {
            let _ = answer.send(Ok(Response::from_parts(parts, Reply::Said(None))));
            return self.end(connection).await;
        }
        let (pipe, reply) = Pipe::new(FRAMES_WAITING_MAX);
        let listens = answer.send(Ok(Response::from_parts(parts, reply))).is_ok();
        match self.pump(&mut body, pipe, listens).await {
            Ok(()) => self.end(connection).await,
            Err(_) => End::Unknown,
        }
    }

    /// Carries the answer's body over, as long as somebody listens; reads it to its end all the same.
    async fn pump(
        &self,
        body: &mut Incoming,
        client: Pipe,
        mut listens: bool,
    ) -> Result<(), BoxError> {
        let waits = self.worker.proxy.waits;
        let mut all_by = None;
        loop {
            if !listens && all_by.is_none() {
                all_by = Some(Instant::now() + waits.upstream);
            }
            let by = all_by.unwrap_or_else(|| Instant::now() + waits.upstream);
            let frame = match timeout_at(by, body.frame()).await {
                Err(_) => return Err("the upstream paused for too long".into()),
                Ok(Some(frame)) => frame?,
                Ok(None) if listens => {
                    client.end();
                    return Ok(());
                }
                Ok(None) => return Ok(()),
            };
            if listens {
                listens = timeout(waits.client, client.send(frame)).await.unwrap_or(false);
            }
        }
    }

    /// The answer is complete. If the request is, too, the connection is ready for the next one.
    async fn end(&mut self, mut connection: Connection) -> End {
        let ready = timeout(self.worker.proxy.waits.upstream, connection.sender.ready()).await;
        match ready {
            Ok(Ok(())) => {
                self.inside = None;
                End::Whole(connection)
            }
            // The upstream said that it closes behind its answer, which is complete: so is the exchange.
            Ok(Err(_)) if !self.progress.failed() => {
                self.inside = None;
                drop(connection);
                End::Unknown
            }
            _ => End::Unknown,
        }
    }

    /// Stays inside for as long as the upstream may go on with what it did not finish.
    async fn settle(&mut self) {
        if self.inside.is_none() {
            return;
        }
        self.worker.proxy.metrics.unfinished();
        tokio::time::sleep(self.worker.proxy.waits.settle).await;
        self.inside = None;
    }
}
