//! Objects in, lines out.
//!
//! The head of the answer waits for the first line, as etcd's does: a stream that fails before it has
//! said anything can then say so by its HTTP status. Both halves run at the same time, so a client
//! may cancel one watch and create the next while lines come in.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes},
    extract::Request,
    response::{IntoResponse, Response},
};
use futures_util::{Stream, future, stream};
use prost_reflect::DynamicMessage;
use tokio::{sync::oneshot, time::Instant};
use tonic::{Status, Streaming};

use super::{body, headers, method::Method, objects::Objects, read, refusal, write};

pub(super) async fn serve(method: Arc<Method>, request: Request) -> Response {
    let mut lines = match begin(method, request).await {
        Ok(lines) => lines,
        Err(status) => return refusal::respond(&status),
    };
    let first = match lines.next().await {
        Some(Err(status)) => return refusal::respond(&status),
        Some(Ok(first)) => Some(first),
        None => None,
    };
    let rest = stream::unfold((first, Some(lines)), |(first, lines)| async {
        let mut lines = lines?;
        if let Some(first) = first {
            return Some((first, (None, Some(lines))));
        }
        match lines.next().await? {
            Ok(line) => Some((line, (None, Some(lines)))),
            Err(status) => Some((refusal::line(&status).into(), (None, None))),
        }
    });
    let lines = futures_util::StreamExt::map(rest, Ok::<Bytes, Infallible>);
    (refusal::JSON, Body::from_stream(lines)).into_response()
}

async fn begin(method: Arc<Method>, request: Request) -> Result<Elections, Status> {
    let (head, body) = request.into_parts();
    let patience = headers::timeout(&head.headers)?;
    let deadline = patience.and_then(|patience| Instant::now().checked_add(patience));
    let (spoil, spoilt) = oneshot::channel();
    let messages: Pin<Box<dyn Stream<Item = DynamicMessage> + Send>> = if method.takes_stream {
        let objects = Objects::new(body, method.body_bytes_max, body::held(&head));
        Box::pin(messages(objects, method.clone(), spoil))
    } else {
        let json = body::read_all(body, method.body_bytes_max, body::held(&head)).await?;
        let message = read::message(&method.input, &json)?;
        Box::pin(stream::once(future::ready(message)))
    };
    let request = headers::annotated(&head, messages);
    let answers = headers::within(patience, method.converse(request)).await?;
    Ok(Elections { answers, spoilt, deadline })
}

/// The messages that a client sends. One that cannot be read is the last, and spoils the stream.
fn messages(
    objects: Objects,
    method: Arc<Method>,
    spoil: oneshot::Sender<Status>,
) -> impl Stream<Item = DynamicMessage> + Send {
    stream::unfold((objects, method, spoil), |(mut objects, method, spoil)| async {
        let read = objects.next().await?.and_then(|json| read::message(&method.input, &json));
        match read {
            Ok(message) => Some((message, (objects, method, spoil))),
            Err(status) => {
                // The receiver is gone if the stream has ended for another reason.
                let _ = spoil.send(status);
                None
            }
        }
    })
}

/// The answers of a stream, as lines.
struct Elections {
    answers: Streaming<DynamicMessage>,
    /// Why the client's half cannot be read any further.
    spoilt: oneshot::Receiver<Status>,
    /// When the client stops waiting.
    deadline: Option<Instant>,
}

impl Elections {
    async fn next(&mut self) -> Option<Result<Bytes, Status>> {
        let deadline = self.deadline;
        let too_late = async move {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => future::pending().await,
            }
        };
        let answer = tokio::select! {
            biased;
            answer = self.answers.message() => answer,
            status = spoilt(&mut self.spoilt) => return Some(Err(status)),
            () = too_late => return Some(Err(headers::too_late())),
        };
        match answer {
            Ok(Some(message)) => Some(write::line(&message).map(Bytes::from)),
            // The services end a stream when the client's half ends, which may have been for a reason.
            Ok(None) => self.spoilt.try_recv().ok().map(Err),
            Err(status) => Some(Err(status)),
        }
    }
}

/// Resolves only if the client's half was spoilt; that it has ended is no reason to stop answering.
async fn spoilt(told: &mut oneshot::Receiver<Status>) -> Status {
    future::poll_fn(|cx: &mut Context<'_>| {
        if told.is_terminated() {
            return Poll::Pending;
        }
        match Pin::new(&mut *told).poll(cx) {
            Poll::Ready(Ok(status)) => Poll::Ready(status),
            Poll::Ready(Err(_)) | Poll::Pending => Poll::Pending,
        }
    })
    .await
}
