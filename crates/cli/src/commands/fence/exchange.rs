//! One request from the gate to its end at the upstream.
//!
//! The exchange is a task of its own. A client that hangs up does not end it: the upstream does not
//! forget what it was told, so neither may the gate. The passage is held until
//!
//! - the whole answer has come and the whole request is sent, or
//! - the connection to the upstream ended, by either side, and then for `--settle` longer ([`Inside`]),
//!   because an upstream that lost its connection may still be at work.
//!
//! What only reads has no effect to wait for. Its passage ends when its answer begins, so that an old
//! holder's endless stream of events does not keep the new one out.
//!
//! All of it is bounded: the upstream may keep silent for `--upstream-timeout`, a client may stop
//! sending or reading for `--client-timeout`, and the rest of an answer that nobody reads any more is
//! read for one `--upstream-timeout` in all. What makes progress may take as long as it likes, until a
//! newer holder waits for it: then it has one more `--upstream-timeout` in all.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

use super::answer::Failure;
use super::inside::Inside;
use super::pool::Connection;
use super::reply::{Pipe, Reply};
use super::upload::{Progress, Upload};
use super::{BoxError, Stay, Worker, head};

/// How many frames of an answer may wait for a client to read them.
const FRAMES_WAITING_MAX: usize = 4;
/// How often it is looked whether a newer holder waits.
const LOOK_AGAIN_MIN: Duration = Duration::from_millis(10);
const LOOK_AGAIN_MAX: Duration = Duration::from_secs(1);

/// A request like this one, which has no body.
fn head_of(request: &Request<Upload>) -> Request<Upload> {
    let mut again = Request::new(Upload::default());
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.headers_mut() = request.headers().clone();
    again
}

/// What is left of an exchange when its task is done.
enum End {
    /// The upstream has answered, and has everything.
    Whole(Connection),
    /// So it has, but its connection is closed.
    Closed,
    /// The connection ended before, and is closed with a reset.
    Unknown,
}

/// Sends a request on, and answers when the upstream's answer begins.
pub(super) async fn exchange(
    worker: &Arc<Worker>,
    parts: Parts,
    body: Incoming,
    inside: Option<Inside>,
    stay: Stay,
) -> Result<Response<Reply>, Failure> {
    let (answer, answered) = oneshot::channel();
    let (upload, progress) = Upload::of(body, worker.proxy.waits.client);
    let exchange = Exchange {
        worker: Arc::clone(worker),
        progress,
        only_reads: parts.method.is_safe(),
        inside: Mutex::new(inside),
        _stay: stay,
    };
    tokio::spawn(exchange.run(Request::from_parts(parts, upload), answer));
    // The task answers unless it panicked.
    answered.await.unwrap_or(Err(Failure::Silent))
}

struct Exchange {
    worker: Arc<Worker>,
    progress: Arc<Progress>,
    only_reads: bool,
    /// Until the upstream has ended its part. Dropped, it settles.
    inside: Mutex<Option<Inside>>,
    _stay: Stay,
}

type Answer = oneshot::Sender<Result<Response<Reply>, Failure>>;

impl Exchange {
    async fn run(self, request: Request<Upload>, answer: Answer) {
        let mut answer = Some(answer);
        let end = tokio::select! {
            biased;
            end = self.carry(request, &mut answer) => end,
            // What was on its way is dropped, and with it the connection.
            () = self.overstayed() => End::Unknown,
        };
        match end {
            End::Whole(connection) => {
                self.leave();
                self.worker.pool.give_back(connection);
            }
            End::Closed => self.leave(),
            End::Unknown => {}
        }
        if let Some(answer) = answer {
            // Nobody may be listening any more.
            let _ = answer.send(Err(Failure::Overtaken));
        }
    }

    /// The whole way there and back.
    async fn carry(&self, request: Request<Upload>, answer: &mut Option<Answer>) -> End {
        let failure = match self.send(request).await {
            Ok((response, connection)) => {
                return self.hand_over(response, connection, answer).await;
            }
            Err(failure) => failure,
        };
        let end = if failure.outcome_unknown() { End::Unknown } else { End::Closed };
        if let End::Closed = end {
            self.leave();
        }
        if let Some(answer) = answer.take() {
            let _ = answer.send(Err(failure));
        }
        end
    }

    /// Ends when a newer holder has waited for one `--upstream-timeout`. Whoever makes progress without
    /// an end would keep it out for ever.
    ///
    /// Looks now and then, instead of being told: every end of every passage would wake everybody here.
    async fn overstayed(&self) {
        let allowed = self.worker.proxy.waits.upstream;
        let look_again = (allowed / 4).clamp(LOOK_AGAIN_MIN, LOOK_AGAIN_MAX);
        loop {
            tokio::time::sleep(look_again).await;
            if self.inside().as_ref().is_some_and(Inside::is_overtaken) {
                break;
            }
        }
        tokio::time::sleep(allowed).await;
        // A read may have left in the meantime, and keeps nobody out.
        if self.inside().is_none() {
            std::future::pending().await
        }
    }

    fn inside(&self) -> std::sync::MutexGuard<'_, Option<Inside>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self) {
        if let Some(inside) = self.inside().take() {
            inside.leave();
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
                Ok(response) if !head::is_plainly_coded(response.headers()) => {
                    return Err(Failure::Broken("its coding is not known here".to_owned()));
                }
                Ok(response) => return Ok((response, connection)),
                Err(error) => error,
            };
            // What comes back was not sent. Of the rest, a write may have arrived, and is not sent twice.
            match error.take_message().or(again) {
                Some(unsent) if connection.reused => request = unsent,
                _ if self.progress.garbled() => return Err(Failure::Garbled),
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
        &self,
        response: Response<Incoming>,
        connection: Connection,
        answer: &mut Option<Answer>,
    ) -> End {
        if self.only_reads {
            self.leave();
        }
        let (mut parts, mut body) = response.into_parts();
        head::toward_client(&mut parts);
        let answer = answer.take().expect("there is one answer to give, and this is it");
        if body.is_end_stream() {
            let _ = answer.send(Ok(Response::from_parts(parts, Reply::Said(None))));
            return self.end(connection).await;
        }
        let (pipe, reply) = Pipe::new(FRAMES_WAITING_MAX);
        let listens = answer.send(Ok(Response::from_parts(parts, reply))).is_ok();
        match self.pump(&mut body, pipe, listens).await {
            Ok(()) => self.end(connection).await,
            Err(_) => {
                self.worker.proxy.failed(&Failure::Cut);
                End::Unknown
            }
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
            let frame = match all_by {
                Some(by) => timeout_at(by, body.frame()).await.ok(),
                None => self.unless_silent(body.frame()).await,
            };
            let frame = match frame {
                None => return Err("the upstream paused for too long".into()),
                Some(Some(frame)) => frame?,
                Some(None) if listens => {
                    client.end();
                    return Ok(());
                }
                Some(None) => return Ok(()),
            };
            if listens {
                listens = timeout(waits.client, client.send(frame)).await.unwrap_or(false);
            }
        }
    }

    /// The answer is complete. If the request is, too, the connection is ready for the next one.
    async fn end(&self, mut connection: Connection) -> End {
        match self.unless_silent(connection.sender.ready()).await {
            Some(Ok(())) => End::Whole(connection),
            // The upstream said that it closes behind its answer. That was all, if it has the whole
            // request; otherwise it may be at work on a part of it.
            Some(Err(_)) if self.progress.is_whole() => {
                connection.is_done();
                End::Closed
            }
            _ => End::Unknown,
        }
    }
}
