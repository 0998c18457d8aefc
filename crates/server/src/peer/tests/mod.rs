//! Members on loopback sockets. Nothing here sleeps: every wait is for an event, with a limit.

#![allow(clippy::unwrap_used)]

mod calls;
mod fuzz;
mod handshakes;
mod security;
mod snapshots;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use tenure_api::{ClusterId, MemberId, Term};
use tenure_replica::{Message, RaftKind, RaftMessage, codec::Codec};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::timeout,
};

use super::{
    frame::{FrameError, FrameKind, read_frame, write_frame},
    handshake::{Hello, PROTOCOL_VERSION, Purpose, Refusal},
    *,
};

const LIMIT: Duration = Duration::from_secs(20);
const ONE: MemberId = MemberId(1);
const TWO: MemberId = MemberId(2);
const CLUSTER: ClusterId = ClusterId(77);

/// A member with its transport.
struct Side {
    transport: Transport,
    events: mpsc::UnboundedReceiver<PeerEvent>,
    snapshots: tempfile::TempDir,
}

impl Side {
    fn start(me: MemberId, listener: TcpListener, boot: u64, peer: (MemberId, SocketAddr)) -> Side {
        Side::start_with(PeerSecurity::default(), me, listener, boot, peer)
    }

    fn start_with(
        security: PeerSecurity,
        me: MemberId,
        listener: TcpListener,
        boot: u64,
        peer: (MemberId, SocketAddr),
    ) -> Side {
        let snapshots = tempfile::tempdir().unwrap();
        let (sender, events) = mpsc::unbounded_channel();
        let config = TransportConfig {
            me,
            cluster_id: CLUSTER,
            boot,
            directory: me.0 * 100,
            command_version: 5,
            listener,
            peers: vec![(peer.0, peer.1.to_string())],
            security,
            snapshots: snapshots.path().to_owned(),
        };
        Side { transport: Transport::start(config, sender), events, snapshots }
    }

    async fn event(&mut self) -> PeerEvent {
        timeout(LIMIT, self.events.recv()).await.expect("something happens").unwrap()
    }

    async fn connected(&mut self, to: MemberId) {
        let event = self.event().await;
        assert!(
            matches!(event, PeerEvent::Connected { member, command_version: 5 } if member == to),
            "{event:?}"
        );
    }

    async fn lost(&mut self, whom: MemberId) {
        let event = self.event().await;
        assert!(matches!(event, PeerEvent::Lost(member) if member == whom), "{event:?}");
    }

    async fn hears(&mut self, text: &str) {
        let event = self.event().await;
        let PeerEvent::Message { message: Message::Raft(message), .. } = event else {
            panic!("{event:?}");
        };
        assert_eq!(message.context, text);
    }
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Two members that are connected both ways.
async fn pair() -> (Side, Side, SocketAddr) {
    let (one_listener, one_at) = listener().await;
    let (two_listener, two_at) = listener().await;
    let mut one = Side::start(ONE, one_listener, 1, (TWO, two_at));
    let mut two = Side::start(TWO, two_listener, 1, (ONE, one_at));
    one.connected(TWO).await;
    two.connected(ONE).await;
    (one, two, two_at)
}

/// Member 1, alone; tests speak for member 2 by hand. There is no listener at member 2's address.
async fn alone() -> (Side, SocketAddr) {
    let (one_listener, one_at) = listener().await;
    let (two_listener, two_at) = listener().await;
    drop(two_listener);
    (Side::start(ONE, one_listener, 1, (TWO, two_at)), one_at)
}

fn hello(purpose: Purpose) -> Hello {
    Hello {
        protocol: PROTOCOL_VERSION,
        purpose,
        cluster_id: CLUSTER,
        from: TWO,
        to: ONE,
        boot: 1,
        directory: 200,
        command_version: 5,
    }
}

/// Calls with this introduction, by hand.
async fn call(at: SocketAddr, hello: &Hello) -> (TcpStream, Result<Hello, Refusal>) {
    let mut stream = TcpStream::connect(at).await.unwrap();
    write_frame(&mut stream, FrameKind::Hello, &hello.to_bytes()).await.unwrap();
    let mut buffer = BytesMut::new();
    let answer = read_frame(&mut stream, &mut buffer, 1000, |kind, payload| match kind {
        FrameKind::Hello => Ok(Ok(Hello::from_bytes(payload)?)),
        FrameKind::Refusal => Ok(Err(Refusal::from_bytes(payload)?)),
        other => Err(FrameError::OutOfPlace(other)),
    });
    let answer = timeout(LIMIT, answer).await.unwrap().unwrap();
    (stream, answer)
}

fn text(text: &str) -> Message {
    let context = Bytes::copy_from_slice(text.as_bytes());
    Message::Raft(RaftMessage { kind: RaftKind::ReadIndex, context, ..raft_message(TWO, ONE) })
}

fn raft_message(from: MemberId, to: MemberId) -> RaftMessage {
    RaftMessage {
        kind: RaftKind::Snapshot,
        from,
        to,
        term: Term(3),
        log_term: Term(0),
        index: 0,
        commit: 0,
        commit_term: Term(0),
        reject: false,
        reject_hint: 0,
        request_snapshot: 0,
        priority: 0,
        entries: Vec::new(),
        context: Bytes::new(),
        snapshot: None,
    }
}

async fn say(stream: &mut TcpStream, words: &str) {
    write_frame(stream, FrameKind::Message, &text(words).to_bytes()).await.unwrap();
}

fn directories(of: MemberId, directory: u64) -> Known {
    Known { directories: BTreeMap::from([(of, directory)]), ..Known::default() }
}
