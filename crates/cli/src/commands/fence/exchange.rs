//! One request and its answer: from the gate to their end at the upstream.
//!
//! A request that holds no passage ends with its client's connection. One that holds a passage does not:
//! the upstream does not forget what it was told, so neither may the gate. Such an exchange goes on as a
//! task when its client hangs up ([`Uncancelled`]), and its passage is held until
//!
//! - the whole answer has come and the whole request is sent, or
//! - the connection to the upstream ended, by either side, and then for `--settle` longer
//!   ([`HeldPassage`]), because an upstream that lost its connection may still be at work.
//!
//! What only reads has no effect to wait for. Its passage ends when its answer begins, so an old holder's
//! endless stream of events does not keep the new one out.
//!
//! Everything is bounded. The upstream may be silent for `--upstream-timeout`; a client may stop sending or
//! reading for `--client-timeout`; the rest of an answer that no client reads any more is read for one
//! `--upstream-timeout` in all. An exchange that makes progress may take as long as it likes until a newer
//! holder waits for it: then it has one more `--upstream-timeout` in all.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use tokio::time::{Instant, timeout, timeout_at};

use super::failure::Failure;
use super::idle_timeout::IdleTimeout;
use super::passage::HeldPassage;
use super::pool::UpstreamConnection;
use super::request_body::{RequestBody, UploadProgress, UpstreamSilence};
use super::response_body::{Pipe, ResponseBody};
use super::{BoxError, ConnectionSlot, Worker, headers};

/// How many frames of an answer may wait for a client to read them.
const FRAMES_WAITING_MAX: usize = 4;
/// How often an exchange checks whether a newer holder waits for it.
const OVERTAKEN_CHECK_MIN: Duration = Duration::from_millis(10);
const OVERTAKEN_CHECK_MAX: Duration = Duration::from_secs(1);

type Answered = Result<Response<ResponseBody>, Failure>;

/// A request that is ready for the upstream.
pub(super) struct Exchange {
    worker: Arc<Worker>,
    upload: UploadProgress,
    only_reads: bool,
}

/// How an exchange ended at the upstream.
enum End {
    /// Both sides have sent everything, and the connection can be used again.
    Complete(UpstreamConnection),
    /// Both sides have sent everything, and the connection is closed.
    Closed,
    /// The connection ended before that.
    Unknown,
}

impl Exchange {
    pub(super) fn new(worker: &Arc<Worker>, upload: UploadProgress, only_reads: bool) -> Exchange {
        Exchange { worker: Arc::clone(worker), upload, only_reads }
    }

    /// Sends a request that holds no passage. Answers when the upstream's answer begins.
    pub(super) async fn pass(self, request: Request<RequestBody>) -> Answered {
        let (response, connection) = self.send(request).await?;
        Ok(self.stream(response, connection))
    }

    /// Sends a request that holds a passage. Answers when the upstream's answer begins.
    pub(super) fn fenced(
        self,
        request: Request<RequestBody>,
        passage: HeldPassage,
        slot: ConnectionSlot,
    ) -> impl Future<Output = Answered> {
        Uncancelled::new(self.run_fenced(request, passage, slot))
    }

    async fn run_fenced(
        self,
        request: Request<RequestBody>,
        passage: HeldPassage,
        slot: ConnectionSlot,
    ) -> Answered {
        let sent = tokio::select! {
            biased;
            sent = self.send(request) => sent,
            // The connection is dropped with the request, and so is reset.
            () = self.overtaken_for_too_long(&passage) => Err(Failure::Overtaken),
        };
        let (response, connection) = match sent {
            Ok(answered) => answered,
            Err(failure) => {
                if !failure.outcome_unknown() {
                    passage.release();
                }
                return Err(failure);
            }
        };
        if self.only_reads {
            passage.release();
            return Ok(self.stream(response, connection));
        }
        let (mut parts, body) = response.into_parts();
        headers::to_client(&mut parts);
        // A short answer has come as a whole by now, and needs no task to hand it over.
        let mut rest = Some(body).filter(|body| !body.is_end_stream());
        let mut first = None;
        if let Some(body) = &mut rest {
            match body.frame().now_or_never() {
                None => {}
                Some(Some(Err(_))) => return Err(Failure::Cut),
                Some(Some(Ok(frame))) => {
                    first = Some(frame);
                    rest = rest.filter(|body| !body.is_end_stream());
                }
                Some(None) => rest = None,
            }
        }
        let is_data = first.as_ref().is_none_or(Frame::is_data);
        if rest.is_none() && is_data && connection.sender.is_ready() {
            passage.release();
            self.worker.pool.put(connection);
            let bytes = first.and_then(|frame| frame.into_data().ok());
            return Ok(Response::from_parts(parts, ResponseBody::Complete(bytes)));
        }
        let (pipe, piped) = ResponseBody::piped(FRAMES_WAITING_MAX);
        tokio::spawn(self.finish(first, rest, connection, pipe, passage, slot));
        Ok(Response::from_parts(parts, piped))
    }

    /// The rest of an exchange that holds a passage, once its answer has begun.
    async fn finish(
        self,
        first: Option<Frame<Bytes>>,
        rest: Option<Incoming>,
        connection: UpstreamConnection,
        pipe: Pipe,
        passage: HeldPassage,
        _slot: ConnectionSlot,
    ) {
        let end = tokio::select! {
            biased;
            end = self.hand_over(first, rest, connection, pipe) => end,
            () = self.overtaken_for_too_long(&passage) => End::Unknown,
        };
        match end {
            End::Complete(connection) => {
                passage.release();
                self.worker.pool.put(connection);
            }
            End::Closed => passage.release(),
            End::Unknown => {}
        }
    }

    /// Hands the answer to the client, and waits for the exchange to end.
    async fn hand_over(
        &self,
        first: Option<Frame<Bytes>>,
        rest: Option<Incoming>,
        connection: UpstreamConnection,
        pipe: Pipe,
    ) -> End {
        match self.pump(first, rest, pipe).await {
            Ok(()) => self.end(connection).await,
            Err(_) => {
                self.worker.proxy.failed(&Failure::Cut);
                End::Unknown
            }
        }
    }

    /// Carries the answer's body to the client, and reads it to its end if the client is gone.
    async fn pump(
        &self,
        first: Option<Frame<Bytes>>,
        rest: Option<Incoming>,
        client: Pipe,
    ) -> Result<(), BoxError> {
        let timeouts = self.worker.proxy.timeouts;
        let mut client = Some(client);
        // When the rest must have come, once no client reads it.
        let mut deadline = None;
        let mut next = first;
        let mut rest = rest;
        loop {
            if let Some(frame) = next.take()
                && let Some(pipe) = &client
                && !timeout(timeouts.client, pipe.send(frame)).await.unwrap_or(false)
            {
                client = None;
                deadline = Some(Instant::now() + timeouts.upstream);
            }
            let Some(body) = &mut rest else { break };
            let frame = match deadline {
                Some(deadline) => timeout_at(deadline, body.frame()).await.ok(),
                None => self.unless_silent(body.frame()).await,
            };
            match frame {
                None => return Err("the upstream paused for too long".into()),
                Some(Some(frame)) => next = Some(frame?),
                Some(None) => break,
            }
        }
        if let Some(pipe) = client {
            pipe.complete();
        }
        Ok(())
    }

    /// The answer is complete. If the request is, too, the connection is ready for the next one.
    async fn end(&self, mut connection: UpstreamConnection) -> End {
        match self.unless_silent(connection.sender.ready()).await {
            Some(Ok(())) => End::Complete(connection),
            // The upstream closes the connection behind its answer. That was all, if it has the whole
            // request; otherwise it may be at work on a part of it.
            Some(Err(_)) if self.upload.is_complete() => {
                connection.exchange_complete();
                End::Closed
            }
            _ => End::Unknown,
        }
    }

    /// An answer that nothing waits for but its client.
    fn stream(
        self,
        response: Response<Incoming>,
        connection: UpstreamConnection,
    ) -> Response<ResponseBody> {
        let (mut parts, body) = response.into_parts();
        headers::to_client(&mut parts);
        let body = ResponseBody::streamed(body, connection, self.worker, self.upload);
        Response::from_parts(parts, body)
    }

    /// Sends the request and waits for the answer to begin.
    async fn send(
        &self,
        mut request: Request<RequestBody>,
    ) -> Result<(Response<Incoming>, UpstreamConnection), Failure> {
        loop {
            let mut connection = self.worker.pool.take().await?;
            // What only reads, and has no body, can be asked again.
            let again = (self.only_reads && connection.reused && request.body().is_end_stream())
                .then(|| without_body(&request));
            let sending = connection.sender.try_send_request(request);
            let Some(sent) = self.unless_silent(sending).await else {
                return Err(Failure::Silent);
            };
            let mut error = match sent {
                // The request offered no other protocol.
                Ok(response) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                    return Err(Failure::Broken("it switches protocols unasked".to_owned()));
                }
                Ok(response) if !headers::is_plainly_coded(response.headers()) => {
                    return Err(Failure::Broken("its transfer coding is not supported".to_owned()));
                }
                Ok(response) => return Ok((response, connection)),
                Err(error) => error,
            };
            // hyper hands back what it has not sent. Of the rest, a write may have arrived, and is not
            // sent twice.
            match error.take_message().or(again) {
                Some(unsent) if connection.reused => request = unsent,
                _ if self.upload.malformed() => return Err(Failure::Malformed),
                _ if self.upload.client_stopped() => return Err(Failure::ClientStopped),
                _ => return Err(Failure::Broken(error.into_error().to_string())),
            }
        }
    }

    /// Waits, but not for an upstream that neither reads nor answers. While the next move is the
    /// client's, the client's own limit counts.
    async fn unless_silent<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        let limit = IdleTimeout::new(self.worker.proxy.timeouts.upstream);
        let mut silence = UpstreamSilence::new(limit, self.upload.clone());
        std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => silence.poll_expired(cx).map(|()| None),
        })
        .await
    }

    /// Ends when a newer holder has waited for one `--upstream-timeout`. An exchange that makes progress
    /// without an end would keep it out for ever.
    ///
    /// Checks now and then instead of being told: every end of a passage would wake every exchange.
    async fn overtaken_for_too_long(&self, passage: &HeldPassage) {
        let allowed = self.worker.proxy.timeouts.upstream;
        let check_every = (allowed / 4).clamp(OVERTAKEN_CHECK_MIN, OVERTAKEN_CHECK_MAX);
        loop {
            tokio::time::sleep(check_every).await;
            if passage.is_overtaken() {
                break;
            }
        }
        tokio::time::sleep(allowed).await;
    }
}

/// A copy of a request that has no body.
fn without_body(request: &Request<RequestBody>) -> Request<RequestBody> {
    let mut again = Request::new(RequestBody::default());
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.headers_mut() = request.headers().clone();
    again
}

/// A future that runs to its end: if it is dropped before, it goes on as a task.
///
/// hyper drops the future of a request when its client hangs up. To spawn every exchange from the start
/// would do as well, but most clients wait, and a task and a channel for each request cost more.
struct Uncancelled<F: Future<Output: Send> + Send + 'static> {
    future: Option<Pin<Box<F>>>,
}

impl<F: Future<Output: Send> + Send + 'static> Uncancelled<F> {
    fn new(future: F) -> Uncancelled<F> {
        Uncancelled { future: Some(Box::pin(future)) }
    }
}

impl<F: Future<Output: Send> + Send + 'static> Future for Uncancelled<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // Taken out while it runs: after a panic it must not go on.
        let mut future = self.future.take().expect("not polled after its end");
        let polled = future.as_mut().poll(cx);
        if polled.is_pending() {
            self.future = Some(future);
        }
        polled
    }
}

impl<F: Future<Output: Send> + Send + 'static> Drop for Uncancelled<F> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(future);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn uncancelled_future_goes_on_when_it_is_dropped() {
        for drop_it in [false, true] {
            let (go, gone) = oneshot::channel::<()>();
            let (done, is_done) = oneshot::channel();
            let mut future = Box::pin(Uncancelled::new(async move {
                let _ = gone.await;
                let _ = done.send(());
                7
            }));
            assert_eq!(future.as_mut().now_or_never(), None);
            go.send(()).unwrap();
            if drop_it {
                drop(future);
            } else {
                assert_eq!(future.await, 7);
            }
            is_done.await.unwrap();
        }
    }
}
