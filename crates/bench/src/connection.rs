//! gRPC by hand over one HTTP/2 connection.
//!
//! The generated clients go through a queue, a task and several boxes for each request; for a load
//! of tens of thousands a second on the machine under test that is the larger part of the client's
//! work. What gRPC puts on the wire is little: a path, two headers, a length before the message, and
//! a status in the trailers.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Uri, Version};
use prost::Message;
use tenure::grpc::{Client, Dialer, Endpoint, Options};

/// Room for answers, so that a stream of events never waits for us to make some.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

/// The largest message that is believed.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Before each message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// Why a request came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection could not be made, or broke.
    Transport(String),
    /// The member is closing the connection in good order and did not look at this request: it may
    /// be sent elsewhere, as every gRPC client does.
    Untouched,
    /// The member said no.
    Status(String),
}

impl Fault {
    /// For the tally of errors.
    pub(crate) fn text(&self) -> &str {
        match self {
            Fault::Transport(text) | Fault::Status(text) => text,
            Fault::Untouched => "the member is closing the connection",
        }
    }
}

impl From<h2::Error> for Fault {
    fn from(error: h2::Error) -> Fault {
        if error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR) {
            return Fault::Untouched;
        }
        Fault::Transport(error.to_string())
    }
}

/// The token of the user to be. All connections of a run share one, which is got once.
pub(crate) async fn token(
    endpoint: &Endpoint,
    options: &Options,
) -> Result<Option<HeaderValue>, Fault> {
    if options.credentials.is_none() {
        return Ok(None);
    }
    let client = Client::new(vec![endpoint.clone()], options.clone());
    let token = client.token().await.map_err(|error| Fault::Status(error.to_string()))?;
    let token = token.map(|token| HeaderValue::from_str(token.reveal()));
    token.transpose().map_err(|error| Fault::Status(error.to_string()))
}

/// One connection to one member. Clones share it.
#[derive(Clone)]
pub(crate) struct Connection {
    send: SendRequest<Bytes>,
    endpoint: Uri,
    headers: HeaderMap,
}

impl Connection {
    pub(crate) async fn open(endpoint: &Endpoint, options: &Options) -> Result<Connection, Fault> {
        let unhurried = Connection::open_unhurried(endpoint, options);
        match tokio::time::timeout(options.dial_timeout, unhurried).await {
            Ok(opened) => opened,
            Err(_) => Err(Fault::Transport("no connection in time".into())),
        }
    }

    async fn open_unhurried(endpoint: &Endpoint, options: &Options) -> Result<Connection, Fault> {
        let io = |error: std::io::Error| Fault::Transport(error.to_string());
        let dialer = Dialer::new(options.tls.clone());
        let socket = dialer.dial(endpoint, &["h2"]).await.map_err(io)?;
        let (send, connection) = h2::client::Builder::new()
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(socket)
            .await?;
        // Ends with the connection; whoever uses it then learns why.
        tokio::spawn(connection);
        let mut headers = HeaderMap::from_iter([
            (http::header::TE, HeaderValue::from_static("trailers")),
            (http::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc")),
        ]);
        if let Some(token) = token(endpoint, options).await? {
            headers.insert("token", token);
        }
        Ok(Connection { send, endpoint: dialer.uri(endpoint), headers })
    }

    /// The address of a method at this member, for [`Connection::unary`] and [`Connection::stream`].
    pub(crate) fn method(&self, path: &'static str) -> Uri {
        let mut parts = self.endpoint.clone().into_parts();
        parts.path_and_query = Some(PathAndQuery::from_static(path));
        Uri::from_parts(parts).expect("an endpoint has a scheme and an authority")
    }

    /// Sends one message and waits for one.
    pub(crate) async fn unary(&mut self, method: &Uri, message: Bytes) -> Result<Bytes, Fault> {
        let (answer, mut send) = self.request(method).await?;
        send.send_data(message, true)?;
        let (head, body) = answer.await?.into_parts();
        let mut messages = Messages { body, buffer: BytesMut::new() };
        match messages.next().await? {
            Some(message) => {
                // The status comes after the message, and only it says whether that counts.
                while messages.next().await?.is_some() {}
                Ok(message)
            }
            // A refusal may come without a body, its status among the headers.
            None => Err(status_of(&head.headers)
                .unwrap_or_else(|| Fault::Transport("no message in the answer".into()))),
        }
    }

    /// Opens a stream with its first message.
    pub(crate) async fn stream(&mut self, method: &Uri, first: Bytes) -> Result<Stream, Fault> {
        let (answer, mut send) = self.request(method).await?;
        send.send_data(first, false)?;
        let (head, body) = answer.await?.into_parts();
        if let Some(fault) = status_of(&head.headers) {
            return Err(fault);
        }
        Ok(Stream { send, messages: Messages { body, buffer: BytesMut::new() } })
    }

    async fn request(
        &mut self,
        method: &Uri,
    ) -> Result<(h2::client::ResponseFuture, SendStream<Bytes>), Fault> {
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = method.clone();
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = self.headers.clone();
        std::future::poll_fn(|cx| self.send.poll_ready(cx)).await?;
        Ok(self.send.send_request(request, false)?)
    }
}

/// Two directions of messages.
pub(crate) struct Stream {
    send: SendStream<Bytes>,
    messages: Messages,
}

impl Stream {
    /// Sends one more message.
    pub(crate) fn send(&mut self, message: Bytes) -> Result<(), Fault> {
        Ok(self.send.send_data(message, false)?)
    }

    /// The next message, or nothing at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        self.messages.next().await
    }
}

/// The messages of an answer.
struct Messages {
    body: RecvStream,
    buffer: BytesMut,
}

impl Messages {
    async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            match self.body.data().await {
                Some(chunk) => {
                    let chunk = chunk?;
                    self.body.flow_control().release_capacity(chunk.len())?;
                    self.buffer.extend_from_slice(&chunk);
                }
                None => {
                    let trailers = self.body.trailers().await?;
                    return match trailers.as_ref().and_then(status_of) {
                        Some(fault) => Err(fault),
                        None => Ok(None),
                    };
                }
            }
        }
    }

    fn take(&mut self) -> Result<Option<Bytes>, Fault> {
        let Some(prefix) = self.buffer.first_chunk::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
        if length > MESSAGE_BYTES_MAX {
            return Err(Fault::Transport(format!("a message of {length} bytes")));
        }
        if self.buffer.len() < PREFIX_BYTES + length {
            return Ok(None);
        }
        self.buffer.advance(PREFIX_BYTES);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}

/// What headers or trailers say went wrong.
fn status_of(headers: &HeaderMap) -> Option<Fault> {
    let code = headers.get("grpc-status")?;
    if code.as_bytes() == b"0" {
        return None;
    }
    let text = headers.get("grpc-message").map(|text| unescaped(text.as_bytes()));
    let text = text.unwrap_or_else(|| format!("gRPC status {code:?}"));
    Some(Fault::Status(text))
}

/// gRPC escapes what is not plain ASCII in the text of a status as in a URL.
fn unescaped(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let escaped = match (first, after) {
            (b'%', [high, low, ..]) => char::from(*high)
                .to_digit(16)
                .zip(char::from(*low).to_digit(16))
                .map(|(high, low)| (high * 16 + low) as u8),
            _ => None,
        };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A message with its prefix, ready to be sent.
pub(crate) fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).expect("requests are small"));
    message.encode(&mut frame).expect("the buffer grows");
    frame.freeze()
}

/// The paths of the methods in use.
pub(crate) mod path {
    pub(crate) const RANGE: &str = "/etcdserverpb.KV/Range";
    pub(crate) const PUT: &str = "/etcdserverpb.KV/Put";
    pub(crate) const TXN: &str = "/etcdserverpb.KV/Txn";
    pub(crate) const DELETE_RANGE: &str = "/etcdserverpb.KV/DeleteRange";
    pub(crate) const WATCH: &str = "/etcdserverpb.Watch/Watch";
    pub(crate) const LEASE_GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
    pub(crate) const LEASE_REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";
    pub(crate) const LOCK: &str = "/v3lockpb.Lock/Lock";
    pub(crate) const UNLOCK: &str = "/v3lockpb.Lock/Unlock";
    pub(crate) const CAMPAIGN: &str = "/v3electionpb.Election/Campaign";
    pub(crate) const RESIGN: &str = "/v3electionpb.Election/Resign";
    pub(crate) const LEASE_KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_status_is_unescaped() {
        assert_eq!(unescaped(b"etcdserver: no leader"), "etcdserver: no leader");
        assert_eq!(unescaped(b"100%25 %C3%A9 %"), "100% é %");
    }

    #[test]
    fn a_status_of_zero_is_no_fault() {
        let status = |code: &'static str| {
            HeaderMap::from_iter([(
                http::HeaderName::from_static("grpc-status"),
                HeaderValue::from_static(code),
            )])
        };
        assert_eq!(status_of(&status("0")), None);
        assert!(status_of(&status("14")).is_some());
        assert_eq!(status_of(&HeaderMap::new()), None);
    }
}
