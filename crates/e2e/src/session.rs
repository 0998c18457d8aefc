//! A session as the wire has it, with nothing in between.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use tenure::{
    api::wire::tenure::v1 as pb,
    grpc::stubs::{ElectionsClient, SessionsClient},
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Streaming, transport::Channel};

use crate::Address;

/// How long any word may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// One attachment to a session.
pub struct SessionStream {
    requests: mpsc::Sender<pb::SessionRequest>,
    responses: Streaming<pb::SessionResponse>,
    /// Heard, but not asked for yet.
    heard: VecDeque<pb::SessionResponse>,
    next_request: u64,
    /// What the server said when it was opened.
    pub opened: pb::SessionOpened,
    secret: Bytes,
}

/// A connection that is not shared.
pub async fn connect(to: Address) -> Channel {
    let endpoint = Channel::from_shared(to.url()).expect("an address");
    endpoint.connect().await.expect("the member listens")
}

/// A client of the `Elections` service, for observers and operators.
pub async fn elections(to: Address) -> ElectionsClient<Channel> {
    ElectionsClient::new(connect(to).await)
}

impl SessionStream {
    /// A new session.
    pub async fn open(channel: Channel, identity: &str, ttl_ms: u64, fast: bool) -> SessionStream {
        let open = pb::OpenSession {
            ttl_ms,
            identity: identity.to_owned(),
            fast_release: fast,
            ..Default::default()
        };
        let attached = SessionStream::attach(channel, open).await;
        attached.unwrap_or_else(|ended| panic!("a new session ended: {ended:?}"))
    }

    /// Opens a session or comes back to one; or why that is not possible.
    pub async fn attach(
        channel: Channel,
        open: pb::OpenSession,
    ) -> Result<SessionStream, pb::SessionEndReason> {
        let (requests, outgoing) = mpsc::channel(64);
        let shown = open.secret.clone();
        let request = Some(pb::session_request::Request::Open(open));
        requests
            .send(pb::SessionRequest { request_id: 0, request })
            .await
            .expect("the stream is new");
        let mut sessions = SessionsClient::new(channel);
        let responses = sessions.session(ReceiverStream::new(outgoing)).await;
        let mut responses = responses.expect("the member serves sessions").into_inner();
        let first = responses.message().await.expect("an answer").expect("a first response");
        match first.response.expect("something is said") {
            pb::session_response::Response::Opened(opened) => Ok(SessionStream {
                requests,
                responses,
                heard: VecDeque::new(),
                next_request: 1,
                secret: if opened.secret.is_empty() { shown } else { opened.secret.clone() },
                opened,
            }),
            pb::session_response::Response::Ended(ended) => Err(ended.reason()),
            other => panic!("the first word was {other:?}"),
        }
    }

    /// What a stream sends to take this session over.
    pub fn comeback(&self) -> pb::OpenSession {
        let secret = self.secret.clone();
        pb::OpenSession { session: self.id(), secret, ..Default::default() }
    }

    /// What ends this session from outside.
    pub fn end_request(&self, stopped: bool) -> pb::EndSessionRequest {
        let secret = if stopped { self.secret.clone() } else { Default::default() };
        pb::EndSessionRequest { session: self.id(), stopped, secret, ..Default::default() }
    }

    /// The same by a guardian, for this reason.
    pub fn guarded_end(&self, why: pb::EndReason) -> pb::EndSessionRequest {
        pb::EndSessionRequest { reason: why as i32, ..self.end_request(true) }
    }

    /// The session's number.
    pub fn id(&self) -> i64 {
        self.opened.session
    }

    /// Sends a request under its number.
    pub async fn send(&self, request_id: u64, request: pb::session_request::Request) {
        let request = pb::SessionRequest { request_id, request: Some(request) };
        self.requests.send(request).await.expect("the stream is open");
    }

    /// Asks something and waits for its answer; what else is heard meanwhile stays.
    pub async fn ask(&mut self, request: pb::session_request::Request) -> pb::RequestResult {
        let number = self.next_request;
        self.next_request += 1;
        self.send(number, request).await;
        self.hear(|response| match response {
            pb::session_response::Response::Result(answer) if answer.request_id == number => {
                Some(answer.clone())
            }
            _ => None,
        })
        .await
    }

    /// Becomes a candidate for one name.
    pub async fn join(&mut self, name: &str) -> pb::RequestResult {
        self.join_as(pb::Join { names: vec![name.to_owned()], ..Default::default() }).await
    }

    /// Becomes a candidate.
    pub async fn join_as(&mut self, join: pb::Join) -> pb::RequestResult {
        self.ask(pb::session_request::Request::Join(join)).await
    }

    /// Gives up a candidacy.
    pub async fn leave(&mut self, name: &str, token: i64) -> pb::RequestResult {
        let leave = pb::Leave { name: name.to_owned(), token, stopped: true };
        self.ask(pb::session_request::Request::Leave(leave)).await
    }

    /// Gives a sign of life and waits until it was taken.
    pub async fn renew(&mut self, number: u64) {
        self.send(0, pb::session_request::Request::Renew(pb::RenewSession { number })).await;
        self.hear(|response| match response {
            pb::session_response::Response::Renewed(renewed) => {
                (renewed.number == number).then_some(())
            }
            _ => None,
        })
        .await;
    }

    /// Waits until a candidacy under this name is held; answers it.
    pub async fn granted(&mut self, name: &str) -> pb::Granted {
        self.hear(|response| match response {
            pb::session_response::Response::Granted(granted) => {
                let candidacy = granted.candidacy.as_ref().expect("a candidacy");
                (candidacy.name == name).then(|| granted.clone())
            }
            _ => None,
        })
        .await
    }

    /// Waits for a word of a kind; all others stay.
    pub async fn hear<T>(
        &mut self,
        wanted: impl Fn(&pb::session_response::Response) -> Option<T>,
    ) -> T {
        let found = |response: &pb::SessionResponse| response.response.as_ref().and_then(&wanted);
        for at in 0..self.heard.len() {
            if let Some(found) = found(&self.heard[at]) {
                self.heard.remove(at);
                return found;
            }
        }
        loop {
            let next = tokio::time::timeout(PATIENCE, self.responses.message()).await;
            let next = next.unwrap_or_else(|_| panic!("nothing but {:?}", self.heard));
            let response = next.expect("the stream lives").expect("the stream goes on");
            match found(&response) {
                Some(found) => return found,
                None => self.heard.push_back(response),
            }
        }
    }

    /// Waits until the session ends; answers why.
    pub async fn ended(&mut self) -> pb::SessionEndReason {
        self.hear(|response| match response {
            pb::session_response::Response::Ended(ended) => Some(ended.reason()),
            _ => None,
        })
        .await
    }

    /// Whether a word of this kind has been heard and not been asked for.
    pub fn has_heard(&self, wanted: impl Fn(&pb::session_response::Response) -> bool) -> bool {
        self.heard.iter().any(|response| response.response.as_ref().is_some_and(&wanted))
    }
}
