//! A watch stream as it is on the wire.

use std::time::Duration;

use tenure::grpc::{Client, stubs::WatchClient};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status, Streaming};

use crate::pb;

/// How long an answer that must come may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// One watch stream.
#[derive(Debug)]
pub struct Watcher {
    ask: mpsc::Sender<pb::WatchRequest>,
    answers: Streaming<pb::WatchResponse>,
}

impl Watcher {
    /// Opens a stream; `has_leader` asks to be ended when the member loses its raft leader.
    pub async fn open(client: &Client, has_leader: bool) -> Result<Watcher, Status> {
        let (ask, queue) = mpsc::channel(64);
        Watcher::opened(client, has_leader, ask, queue).await
    }

    /// Opens a stream and asks for its first watch. Some servers answer the opening only with their first message.
    pub async fn of(
        client: &Client,
        has_leader: bool,
        create: pb::WatchCreateRequest,
    ) -> Result<Watcher, Status> {
        let (ask, queue) = mpsc::channel(64);
        let create = pb::watch_request::RequestUnion::CreateRequest(create);
        let first = pb::WatchRequest { request_union: Some(create) };
        ask.send(first).await.expect("the stream is new");
        Watcher::opened(client, has_leader, ask, queue).await
    }

    async fn opened(
        client: &Client,
        has_leader: bool,
        ask: mpsc::Sender<pb::WatchRequest>,
        queue: mpsc::Receiver<pb::WatchRequest>,
    ) -> Result<Watcher, Status> {
        let mut request = Request::new(ReceiverStream::new(queue));
        if has_leader {
            request.metadata_mut().insert("hasleader", "true".parse().expect("ascii"));
        }
        let mut stub = WatchClient::new(client.channel()).max_decoding_message_size(usize::MAX);
        let answers = stub.watch(request).await?.into_inner();
        Ok(Watcher { ask, answers })
    }

    /// Asks for a watch.
    pub async fn create(&self, create: pb::WatchCreateRequest) {
        self.ask(pb::watch_request::RequestUnion::CreateRequest(create)).await;
    }

    /// Asks for the end of a watch.
    pub async fn cancel(&self, watch_id: i64) {
        let cancel = pb::WatchCancelRequest { watch_id };
        self.ask(pb::watch_request::RequestUnion::CancelRequest(cancel)).await;
    }

    /// Asks how far the stream is.
    pub async fn progress(&self) {
        let progress = pb::WatchProgressRequest {};
        self.ask(pb::watch_request::RequestUnion::ProgressRequest(progress)).await;
    }

    async fn ask(&self, what: pb::watch_request::RequestUnion) {
        let request = pb::WatchRequest { request_union: Some(what) };
        self.ask.send(request).await.expect("the stream is open");
    }

    /// The next answer, which must come.
    pub async fn next(&mut self) -> pb::WatchResponse {
        self.try_next().await.expect("the stream goes on").expect("the stream has no end")
    }

    /// The next answer or the end.
    pub async fn try_next(&mut self) -> Result<Option<pb::WatchResponse>, Status> {
        let answer = tokio::time::timeout(PATIENCE, self.answers.message()).await;
        answer.unwrap_or_else(|_| panic!("no answer on the watch stream within {PATIENCE:?}"))
    }

    /// Whether nothing comes for so long.
    pub async fn is_silent(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.answers.message()).await.is_err()
    }
}
