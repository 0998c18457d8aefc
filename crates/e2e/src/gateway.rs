//! JSON over plain HTTP, to us or to a real etcd.

use std::{convert::Infallible, pin::Pin, time::Duration};

use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    Request, Response,
    body::{Bytes, Frame, Incoming},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{net::TcpStream, sync::mpsc};
use tokio_stream::{Stream, StreamExt, wrappers::UnboundedReceiverStream};

/// How long any answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A gateway by its address.
#[derive(Clone, Debug)]
pub struct Gateway {
    address: String,
}

/// What a request was answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    /// The HTTP status.
    pub status: u16,
    /// The content type.
    pub kind: String,
    /// The body.
    pub body: String,
}

impl Posted {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|cause| panic!("{cause}: {}", self.body))
    }
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

impl Gateway {
    /// The gateway at `host:port`.
    pub fn at(address: impl ToString) -> Gateway {
        Gateway { address: address.to_string() }
    }

    /// A POST with a body, to its end.
    pub async fn post(&self, path: &str, body: impl Into<String>) -> Posted {
        self.request("POST", path, &[], body).await
    }

    /// Any request with a body, to its end.
    pub async fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<String>,
    ) -> Posted {
        let body = Full::new(Bytes::from(body.into())).boxed_unsync();
        let answer = self.send(method, path, headers, body).await;
        let kind = answer.headers().get("content-type").map(|kind| kind.to_str().unwrap_or("?"));
        let (status, kind) = (answer.status().as_u16(), kind.unwrap_or_default().to_owned());
        let body = within("the end of the answer", answer.into_body().collect()).await;
        let body = body.expect("a whole answer").to_bytes();
        Posted { status, kind, body: String::from_utf8_lossy(&body).into_owned() }
    }

    /// A POST whose body stays open, and the answer in lines as they come.
    pub async fn open(&self, path: &str, first: &str) -> (mpsc::UnboundedSender<String>, Lines) {
        let (say, said) = mpsc::unbounded_channel::<String>();
        let _ = say.send(first.to_owned());
        let pieces = UnboundedReceiverStream::new(said)
            .map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::from(piece))));
        let answer = self.send("POST", path, &[], StreamBody::new(pieces).boxed_unsync()).await;
        (say, Lines::of(answer))
    }

    /// A POST with a whole body, and the answer in lines as they come.
    pub async fn lines(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Lines {
        let body = Full::new(Bytes::from(body.to_owned())).boxed_unsync();
        Lines::of(self.send("POST", path, headers, body).await)
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> Response<Incoming> {
        let stream = TcpStream::connect(&self.address).await.expect("the server listens");
        let (mut send, connection) =
            http1::handshake(TokioIo::new(stream)).await.expect("a connection");
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body).expect("a request");
        within(path, send.send_request(request)).await.expect("an answer")
    }
}

async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, work).await;
    done.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
}

type Pieces = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// The lines of an answer.
pub struct Lines {
    /// The HTTP status.
    pub status: u16,
    pieces: Pieces,
    held: String,
}

impl Lines {
    fn of(answer: Response<Incoming>) -> Lines {
        let status = answer.status().as_u16();
        let pieces = answer.into_body().into_data_stream().filter_map(Result::ok);
        Lines { status, pieces: Box::pin(pieces), held: String::new() }
    }

    /// The next line, or nothing at the end.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.held.find('\n') {
                let line: String = self.held.drain(..=end).collect();
                return Some(serde_json::from_str(&line).expect("a line of JSON"));
            }
            match within("the next line", self.pieces.next()).await {
                Some(piece) => self.held.push_str(&String::from_utf8_lossy(&piece)),
                None if self.held.is_empty() => return None,
                // etcd leaves the last line of a failed stream without its end.
                None => self.held.push('\n'),
            }
        }
    }

    /// All lines up to the end.
    pub async fn rest(mut self) -> Vec<Value> {
        let mut lines = Vec::new();
        while let Some(line) = self.next().await {
            lines.push(line);
        }
        lines
    }
}
