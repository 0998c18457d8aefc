//! What of requests has not arrived whole yet.
//!
//! A request that is sent piece by piece holds a stream, a task and its pieces, and may hold them for ever. So the pieces that
//! a member holds are counted, over all services and the JSON gateway, and each request has a time in which it must arrive.
//! A stream has that for each of its messages: between two of them it may be silent.

use std::{
    error::Error,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use axum::body::{Bytes, HttpBody};
use http_body::Frame;
use tenure_api::Failure;
use tokio::time::Sleep;
use tonic::Status;

use super::{ARRIVAL_MAX, FEW_BYTES, UNFINISHED_BYTES_MAX, calls::Open};
use crate::grpc::refuse;

/// A gRPC message begins with a flag and its length.
const HEAD_BYTES: usize = 5;

/// The bytes of messages that have not arrived whole: those of the member and those of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unfinished {
    pub(super) all: Arc<AtomicUsize>,
    pub(super) own: Arc<AtomicUsize>,
}

impl Unfinished {
    /// Those of one request, none yet.
    pub(crate) fn begin(&self) -> Held {
        Held { of: self.clone(), bytes: 0 }
    }
}

/// What one request holds of them, until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    of: Unfinished,
    bytes: usize,
}

impl Held {
    /// It holds so many now.
    ///
    /// # Errors
    /// If the member holds too many. A connection that holds few is never refused.
    pub(crate) fn set(&mut self, bytes: usize) -> Result<(), Failure> {
        let before = std::mem::replace(&mut self.bytes, bytes);
        for count in [&self.of.all, &self.of.own] {
            count.fetch_add(bytes, Relaxed);
            count.fetch_sub(before, Relaxed);
        }
        let is_more = bytes > before;
        let are_many = self.of.all.load(Relaxed) > UNFINISHED_BYTES_MAX;
        if is_more && are_many && self.of.own.load(Relaxed) > FEW_BYTES {
            return Err(Failure::TooManyRequests);
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for count in [&self.of.all, &self.of.own] {
            count.fetch_sub(self.bytes, Relaxed);
        }
    }
}

/// Where messages end in what has arrived.
#[derive(Debug, Default)]
struct Messages {
    head: [u8; HEAD_BYTES],
    /// Bytes of the message that is not whole.
    here: usize,
    /// Bytes that it has in all, once its head is here.
    whole: usize,
}

impl Messages {
    /// Whether a message has arrived whole with this piece.
    fn add(&mut self, mut piece: &[u8]) -> bool {
        let mut ended = false;
        while !piece.is_empty() {
            if self.here < HEAD_BYTES {
                let taken = piece.len().min(HEAD_BYTES - self.here);
                self.head[self.here..self.here + taken].copy_from_slice(&piece[..taken]);
                self.here += taken;
                piece = &piece[taken..];
                if self.here < HEAD_BYTES {
                    return ended;
                }
                let [_, length @ ..] = self.head;
                self.whole = HEAD_BYTES + u32::from_be_bytes(length) as usize;
            }
            let taken = piece.len().min(self.whole - self.here);
            self.here += taken;
            piece = &piece[taken..];
            if self.here == self.whole {
                (self.here, ended) = (0, true);
            }
        }
        ended
    }
}

pin_project_lite::pin_project! {
    /// The body of a request, counted while it arrives.
    pub(super) struct Arriving<B> {
        #[pin]
        body: B,
        // None for JSON, which the gateway cuts and counts itself.
        messages: Option<Messages>,
        held: Held,
        // Whether something must come, and by when: set when nothing is here.
        awaits: bool,
        late: Option<Pin<Box<Sleep>>>,
        // The rest of what was refused is taken in and not kept. HTTP/2 takes what comes for a stream that was closed early for
        // a mistake, and gives the connection up after many of those.
        refused: Option<Failure>,
        // What counts it among the calls that have not arrived.
        counted: Option<Open>,
    }
}

impl<B> Arriving<B> {
    /// Its first message must be there in time, unless it is a stream that may begin in silence.
    pub(super) fn grpc(body: B, held: Held, counted: Option<Open>, may_be_silent: bool) -> Self {
        let messages = Some(Messages::default());
        Arriving {
            body,
            messages,
            held,
            awaits: !may_be_silent,
            late: None,
            refused: None,
            counted,
        }
    }

    /// As JSON, or no call at all.
    pub(super) fn other(body: B, held: Held, counted: Option<Open>) -> Self {
        Arriving { body, messages: None, held, awaits: false, late: None, refused: None, counted }
    }
}

/// What a client hears that does not send the rest.
pub(crate) fn too_late() -> Status {
    Status::cancelled("the request did not arrive in time")
}

impl<B> HttpBody for Arriving<B>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let mut this = self.project();
        loop {
            let frame = match this.body.as_mut().poll_frame(cx) {
                Poll::Ready(frame) => frame,
                Poll::Pending if *this.awaits => {
                    let deadline = || Box::pin(tokio::time::sleep(ARRIVAL_MAX));
                    ready!(this.late.get_or_insert_with(deadline).as_mut().poll(cx));
                    return Poll::Ready(Some(Err(too_late().into())));
                }
                Poll::Pending => return Poll::Pending,
            };
            let Some(Ok(arrived)) = &frame else {
                this.counted.take();
                return Poll::Ready(match (&this.refused, frame) {
                    (Some(failure), None) => Some(Err(refuse(*failure).into())),
                    (_, frame) => frame.map(|frame| frame.map_err(Into::into)),
                });
            };
            if this.refused.is_some() {
                continue;
            }
            if let (Some(messages), Some(piece)) = (&mut *this.messages, arrived.data_ref()) {
                if messages.add(piece) {
                    this.counted.take();
                    (*this.awaits, *this.late) = (false, None);
                }
                *this.awaits |= messages.here > 0;
                if let Err(failure) = this.held.set(messages.here) {
                    *this.refused = Some(failure);
                    continue;
                }
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
    }

    fn is_end_stream(&self) -> bool {
        self.refused.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use futures_util::{StreamExt, stream};
    use http_body_util::BodyExt;
    use proptest::prelude::*;
    use tokio::time::Instant;

    use super::*;

    fn message(bytes: usize) -> Vec<u8> {
        let mut message = vec![0];
        message.extend((bytes as u32).to_be_bytes());
        message.resize(HEAD_BYTES + bytes, 7);
        message
    }

    /// Sends these pieces, and then nothing more.
    fn unfinished(pieces: Vec<Vec<u8>>) -> Body {
        let pieces = stream::iter(pieces).map(|piece| Ok::<_, Status>(Bytes::from(piece)));
        Body::from_stream(pieces.chain(stream::pending()))
    }

    fn text(failed: Box<dyn Error + Send + Sync>) -> String {
        failed.downcast::<Status>().unwrap().message().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn request_that_does_not_arrive_is_given_up() {
        let whole = message(100);
        for sent in [0, 1, HEAD_BYTES, whole.len() - 1] {
            let of = Unfinished::default();
            let began = Instant::now();
            let body = unfinished(vec![whole[..sent].to_vec()]);
            let failed = Arriving::grpc(body, of.begin(), None, false).collect().await.err();
            assert_eq!(text(failed.unwrap()), "the request did not arrive in time");
            assert_eq!(began.elapsed().as_secs(), ARRIVAL_MAX.as_secs(), "after {sent} bytes");
            assert_eq!(of.all.load(Relaxed), 0, "nothing is held any more");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn stream_may_be_silent_between_its_messages_and_not_within_one() {
        let of = Unfinished::default();
        let second = message(100);
        let pieces = vec![message(10), second[..50].to_vec()];
        let mut body = Arriving::grpc(unfinished(pieces), of.begin(), None, true);
        body.frame().await.unwrap().unwrap();
        assert_eq!(of.all.load(Relaxed), 0);
        body.frame().await.unwrap().unwrap();
        assert_eq!(of.all.load(Relaxed), 50);
        assert!(body.frame().await.unwrap().is_err(), "the rest does not come");
        let silent = Arriving::grpc(unfinished(vec![message(10)]), of.begin(), None, true);
        let waited = tokio::time::timeout(2 * ARRIVAL_MAX, silent.collect()).await;
        assert!(waited.is_err(), "it may be silent for ever");
    }

    #[tokio::test]
    async fn unfinished_bytes_are_limited_over_all_requests() {
        let of = Unfinished::default();
        let mut held = of.begin();
        assert_eq!(held.set(UNFINISHED_BYTES_MAX), Ok(()));
        let mut one_more = of.begin();
        assert_eq!(one_more.set(1), Err(Failure::TooManyRequests));
        let another = Unfinished { own: Arc::default(), ..of.clone() };
        let mut small = another.begin();
        assert_eq!(small.set(FEW_BYTES), Ok(()), "a connection that holds few");
        assert_eq!(small.set(FEW_BYTES + 1), Err(Failure::TooManyRequests));
        let whole = message(100);
        let pieces = whole.chunks(30).map(|piece| Ok::<_, Status>(piece.to_vec()));
        let body = Body::from_stream(stream::iter(pieces.collect::<Vec<_>>()));
        let refused = Arriving::grpc(body, of.begin(), None, false).collect().await.err();
        assert_eq!(text(refused.unwrap()), "etcdserver: too many requests");
        drop((held, one_more, small));
        assert_eq!(of.all.load(Relaxed), 0);
    }

    proptest! {
        #[test]
        fn messages_end_where_they_end_however_the_pieces_fall(
            sizes in prop::collection::vec(0usize..40, 1..6),
            cuts in prop::collection::vec(1usize..30, 1..20),
        ) {
            let all: Vec<u8> = sizes.iter().flat_map(|size| message(*size)).collect();
            let mut messages = Messages::default();
            let mut rest = &all[..];
            for cut in cuts.iter().cycle() {
                let (piece, after) = rest.split_at(rest.len().min(*cut));
                let before = messages.here;
                let ended = messages.add(piece);
                prop_assert!(ended || messages.here == before + piece.len());
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(messages.here, 0);
        }
    }
}
