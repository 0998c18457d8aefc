//! The lane for plain reads: GET and HEAD without a token, a body, or anything else that is special.
//!
//! Such requests pass, whoever asks, so nothing of them has to be understood but where they end. They
//! are most of what a proxy does, and handed on as bytes they cost half of what they do otherwise. The
//! lane takes a request only if it knows every single thing about its head; at the first one that it
//! does not take, the connection goes on with [`connection`](super::connection) for good, from the
//! first byte of that request.
//!
//! [`request`] and [`response`] read and write heads, [`body`] knows where an answer ends, [`upstream`]
//! has the connections, [`watch`] limits waiting without a timer for each request.

mod begun;
mod body;
#[cfg(test)]
mod fuzz;
mod request;
mod response;
mod upstream;
mod watch;

use std::io::Write;

use http::HeaderValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch::Receiver;

pub(super) use self::begun::Begun;
use self::body::Body;
use self::request::Reading;
use self::upstream::Line;
pub(super) use self::upstream::Stock;
use self::watch::Watch;
use super::answer::Failure;
use super::connection::HEAD_MAX;
use super::wire::Wire;
use super::{Worker, pool};

/// How much is read at once from an upstream, and from a client: of the latter there are many.
const PIECE: usize = 16 * 1024;
const REQUEST_PIECE: usize = 2 * 1024;

/// A client on the lane.
pub(super) struct Lane<'a> {
    worker: &'a Worker,
    client: TcpStream,
    /// Where it is, as the upstream is told.
    address: &'a HeaderValue,
    /// What it has sent, and nobody has read yet.
    inbox: Vec<u8>,
    /// What is to be sent next, to either side.
    outbox: Vec<u8>,
    watch: Watch,
}

/// Whether the next request can be taken.
enum Next {
    Goes,
    Ends,
}

impl<'a> Lane<'a> {
    pub(super) fn new(worker: &'a Worker, client: TcpStream, address: &'a HeaderValue) -> Lane<'a> {
        let (inbox, outbox) = (Vec::new(), Vec::new());
        Lane { worker, client, address, inbox, outbox, watch: Watch::default() }
    }

    /// Serves plain reads until the connection ends, which is `None`, or something else is asked for:
    /// the connection, with what was read of it.
    pub(super) async fn travel(mut self, stop: &mut Receiver<bool>) -> Option<Begun<Wire>> {
        let proxy = &*self.worker.proxy;
        if proxy.door.rule.reads_need_token {
            return Some(Begun::new(self.inbox, Wire::new(self.client)));
        }
        loop {
            if self.inbox.is_empty() && !self.hears(stop).await {
                return None;
            }
            self.outbox.clear();
            let terms = request::Terms {
                upstream: &proxy.upstream,
                rewrite_host: proxy.rewrite_host,
                token: &proxy.door.rule.header,
                client: self.address,
            };
            let Reading::Plain { bytes, head_only } = terms.read(&self.inbox, &mut self.outbox)
            else {
                return Some(Begun::new(self.inbox, Wire::new(self.client)));
            };
            self.inbox.drain(..bytes);
            proxy.metrics.passed();
            let next = match self.ask(head_only).await {
                Ok((line, answer)) => self.relay(line, answer).await,
                Err(failure) => self.say(&failure, head_only).await,
            };
            if let Next::Ends = next {
                return None;
            }
        }
    }

    /// Waits for the client to ask. Says whether it does.
    async fn hears(&mut self, stop: &mut Receiver<bool>) -> bool {
        if *stop.borrow() {
            return false;
        }
        self.inbox.reserve(REQUEST_PIECE);
        self.outbox.clear();
        self.outbox.shrink_to(2 * PIECE);
        tokio::select! {
            biased;
            read = self.watch.within(HEAD_MAX, self.client.read_buf(&mut self.inbox)) => {
                matches!(read, Some(Ok(bytes)) if bytes > 0)
            }
            _ = stop.wait_for(|stop| *stop) => false,
        }
    }

    /// Sends what is in the outbox to the upstream, and reads the head of its answer.
    async fn ask(&mut self, head_only: bool) -> Result<(Line, response::Answer), Failure> {
        let stock = &self.worker.stock;
        let wait = self.worker.proxy.waits.upstream;
        loop {
            let (mut line, reused) = match stock.take() {
                Some(line) => (line, true),
                None => (Line::new(pool::connect(&self.worker.proxy.upstream).await?), false),
            };
            let asking = line.ask(&self.outbox, head_only);
            match self.watch.within(wait, asking).await.ok_or(Failure::Silent)? {
                Ok(answer) => return Ok((line, answer)),
                // The upstream may close a connection that it has not used for a while. What only
                // reads can be asked again, on a new one in the end.
                Err(_) if reused && line.inbox.is_empty() => {}
                Err(why) => return Err(Failure::Broken(why)),
            }
        }
    }

    /// Hands the answer on.
    async fn relay(&mut self, mut line: Line, answer: response::Answer) -> Next {
        let waits = self.worker.proxy.waits;
        let mut body = answer.body;
        self.outbox.clear();
        answer.head.write(&line.inbox, &mut self.outbox);
        line.inbox.drain(..answer.bytes);
        loop {
            let Ok(bytes) = body.take(&line.inbox) else {
                // The head may not be sent yet; without it the client would see no answer at all.
                let sending = self.client.write_all(&self.outbox);
                let _ = self.watch.within(waits.client, sending).await;
                return self.cut_off(body);
            };
            self.outbox.extend_from_slice(&line.inbox[..bytes]);
            line.inbox.drain(..bytes);
            let sending = self.client.write_all(&self.outbox);
            let Some(Ok(())) = self.watch.within(waits.client, sending).await else {
                return Next::Ends;
            };
            if body.is_complete() {
                break;
            }
            self.outbox.clear();
            match self.watch.within(waits.upstream, line.read()).await {
                Some(Ok(0)) if body == Body::Endless => return Next::Ends,
                Some(Ok(bytes)) if bytes > 0 => {}
                _ => return self.cut_off(body),
            }
        }
        if answer.keeps && line.inbox.is_empty() {
            self.worker.stock.give_back(line);
        }
        Next::Goes
    }

    /// The upstream did not send the rest. The end of the connection tells the client so, unless that is
    /// how a whole answer ends as well: then only a reset does.
    fn cut_off(&self, body: Body) -> Next {
        if body == Body::Endless {
            let _ = self.client.set_zero_linger();
        }
        self.worker.proxy.failed(&Failure::Cut);
        Next::Ends
    }

    /// Says why there is no answer.
    async fn say(&mut self, failure: &Failure, head_only: bool) -> Next {
        let proxy = &*self.worker.proxy;
        proxy.failed(failure);
        let (status, json) = (failure.status(), failure.json());
        self.outbox.clear();
        let _ = write!(
            self.outbox,
            "HTTP/1.1 {} {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{}",
            status.as_u16(),
            status.canonical_reason().unwrap_or_default(),
            json.len(),
            if head_only { "" } else { &json }
        );
        let _ = self.watch.within(proxy.waits.client, self.client.write_all(&self.outbox)).await;
        Next::Ends
    }
}
