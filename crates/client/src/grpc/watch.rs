//! Watches.

use tenure_api::wire::etcdserverpb as pb;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataValue;
use tonic::{Request, Streaming};

use super::login::Stamp;
use super::retry::Kind;
use super::stubs::WatchClient;
use super::{Client, ClientError, Resumed};

/// How many requests may wait to be sent on one stream.
const REQUESTS_MAX: usize = 16;

/// The two directions of a watch stream. It lives for as long as both are held.
#[derive(Debug)]
pub(super) struct Stream {
    _ask: mpsc::Sender<pb::WatchRequest>,
    pub(super) answers: Streaming<pb::WatchResponse>,
    /// What it was opened with.
    pub(super) stamp: Stamp,
}

/// The service for watches.
#[derive(Debug)]
pub struct Watch<'a> {
    client: &'a Client,
}

impl<'a> Watch<'a> {
    pub(super) fn new(client: &'a Client) -> Watch<'a> {
        Watch { client }
    }

    /// Opens one watch that goes on after a broken connection, on whichever member answers.
    ///
    /// # Errors
    /// If it cannot be opened in the first place: see [`ClientError`].
    pub async fn resumed(&self, create: pb::WatchCreateRequest) -> Result<Resumed, ClientError> {
        Resumed::open(self.client.clone(), create).await
    }

    /// Opens a stream with one watch on it. The stream asks to be ended rather than to go stale
    /// when its member loses the cluster.
    pub(super) async fn open(&self, create: pb::WatchCreateRequest) -> Result<Stream, ClientError> {
        let open = async |channel, request: Request<pb::WatchCreateRequest>| {
            let (mut metadata, extensions, create) = request.into_parts();
            metadata.insert("hasleader", MetadataValue::from_static("true"));
            let stamp = Stamp::of(&metadata);
            let (ask, queue) = mpsc::channel(REQUESTS_MAX);
            let create = pb::watch_request::RequestUnion::CreateRequest(create);
            // Some servers answer the opening of a stream only with its first message.
            let _ = ask.try_send(pb::WatchRequest { request_union: Some(create) });
            let stream = Request::from_parts(metadata, extensions, ReceiverStream::new(queue));
            // The events of one revision come in one message, however large.
            let mut stub = WatchClient::new(channel).max_decoding_message_size(usize::MAX);
            let opened = stub.watch(stream).await?;
            Ok(opened.map(|answers| Stream { _ask: ask, answers, stamp }))
        };
        self.client.call(Kind::Repeatable, create, open).await
    }
}
