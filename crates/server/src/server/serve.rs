//! Client connections: gRPC and HTTP/1 on one port.

use std::{net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::{net::TcpStream, sync::watch, task::JoinSet};
use tower::ServiceExt;
use tracing::{debug, warn};

use super::{
    authority::Authorities,
    handshake::{Greeted, Tls, speaks_tls},
    listen::Listener,
    metered::{Metered, Words},
};
use crate::{
    Config,
    admission::{
        Calls, Connection, Connections, Link, ReadThrottle, STREAMS_PER_CONNECTION_MAX, Secured,
    },
    browsers::Guarded,
    io::Stream,
    liveness::Liveness,
    metrics::Counted,
};

/// How much a client may send ahead on one request and on one connection.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;
/// How long the head of an HTTP/1 request may take, counted from the end of the one before it: a connection that is
/// kept for the next request and brings none ends as well. A client that asks once a minute keeps its connection.
const HEAD_MAX: Duration = Duration::from_secs(150);
/// After this silence the kernel asks whether a client's machine is still there, unless pings are to come earlier.
const ASK_AFTER: Duration = Duration::from_secs(10);
/// How often it asks then, at the most.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// Silence that counts: the kernel counts in whole seconds, and up to 24 days. etcd takes less than a second for one, too.
const SILENCE_MIN: Duration = Duration::from_secs(1);
const SILENCE_MAX: Duration = Duration::from_secs(24 * 86400);
/// How long connections may take to finish what they began when the server stops.
const FAREWELL: Duration = Duration::from_millis(1000);
/// How long connections are still accepted when the server stops.
const LAST_CALL: Duration = Duration::from_millis(10);
/// A pause after a failed accept (out of file descriptors, most likely).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What connections may do to a member.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    pub(super) patience: Patience,
    pub(super) throttle: ReadThrottle,
    pub(super) calls: Calls,
    pub(super) connections: Connections,
}

/// How long silence is borne.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// A process that is silent for so long is asked whether it is there, if that is wanted at all.
    ping_after: Option<Duration>,
    /// How long it may take to answer, or to say its first words, and its machine to acknowledge what was sent.
    answer_within: Duration,
}

impl Patience {
    /// By the settings. As with etcd, either of the two being zero means that no client is pinged; machines are asked
    /// all the same.
    pub(super) fn of(config: &Config) -> Patience {
        let (after, within) = (config.grpc_keepalive_interval, config.grpc_keepalive_timeout);
        let default = Config::default().grpc_keepalive_timeout;
        let counted = |silence: Duration| silence.clamp(SILENCE_MIN, SILENCE_MAX);
        Patience {
            ping_after: (!after.is_zero() && !within.is_zero()).then_some(counted(after)),
            answer_within: counted(if within.is_zero() { default } else { within }),
        }
    }

    /// What the kernel is to find out. It answers for a process that stands still, which is why a process has to
    /// be asked as well.
    fn liveness(&self) -> Liveness {
        Liveness {
            unacknowledged_max: self.answer_within,
            ask_after: self.ping_after.unwrap_or(ASK_AFTER).min(ASK_AFTER),
            ask_every: (self.answer_within / 4).clamp(SILENCE_MIN, ASK_EVERY),
        }
    }
}

/// Serves clients until told to stop; then lets them finish.
pub(super) async fn clients(
    listener: Listener,
    tls: Option<Tls>,
    router: Guarded<Counted>,
    limits: Limits,
    mut stopping: watch::Receiver<bool>,
) {
    let Listener { socket: listener, in_the_clear, tls: is_tls } = listener;
    let entry = Entry { tls: tls.filter(|_| is_tls), in_the_clear };
    let serve = |stream, from, stopping: &watch::Receiver<bool>| {
        let connected = limits.connections.open()?;
        let (router, limits) = (router.clone(), limits.clone());
        let served = entry.clone().admit(stream, from, router, limits, stopping.clone());
        Some(async move {
            served.await;
            drop(connected);
        })
    };
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => {
                    serve(stream, from, &stopping).map(|served| connections.spawn(served));
                }
                Err(cause) => {
                    warn!(%cause, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            () = stop_wanted(&mut stopping) => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    // A client that has connected already, and may have sent something, is not cut off unheard.
    let last_ones = async {
        while let Ok((stream, from)) = listener.accept().await {
            serve(stream, from, &stopping).map(|served| connections.spawn(served));
        }
    };
    let _ = tokio::time::timeout(LAST_CALL, last_ones).await;
    drop(listener);
    let farewell = async { while connections.join_next().await.is_some() {} };
    // Whatever is left then are streams without an end, such as watches.
    let _ = tokio::time::timeout(FAREWELL, farewell).await;
}

/// What is spoken at an address.
#[derive(Clone)]
struct Entry {
    tls: Option<Tls>,
    in_the_clear: bool,
}

impl Entry {
    /// Serves a client that speaks it. The first byte tells which it is where both are spoken.
    async fn admit(
        self,
        stream: TcpStream,
        from: SocketAddr,
        router: Guarded<Counted>,
        limits: Limits,
        stopping: watch::Receiver<bool>,
    ) {
        let secures = match &self.tls {
            None => None,
            Some(tls) if !self.in_the_clear => Some(tls),
            Some(tls) => match speaks_tls(&stream).await {
                Some(true) => Some(tls),
                Some(false) => None,
                None => return,
            },
        };
        match secures {
            None => connection((stream, from), None, router, limits, stopping).await,
            Some(tls) => {
                // The handshake goes in small pieces both ways.
                let _ = stream.set_nodelay(true);
                if let Some(Greeted { stream, secured }) = tls.greet(stream, from).await {
                    connection((stream, from), Some(secured), router, limits, stopping).await;
                }
            }
        }
    }
}

/// Waits until the server is to stop.
pub(crate) async fn stop_wanted(stopping: &mut watch::Receiver<bool>) {
    // An error means that the server is gone altogether.
    let _ = stopping.wait_for(|stop| *stop).await;
}

/// A connection that came about at the last moment has not even said which protocol it speaks.
async fn last_call(stopping: &mut watch::Receiver<bool>) {
    stop_wanted(stopping).await;
    tokio::time::sleep(2 * LAST_CALL).await;
}

/// Waits until a connection has not said its first words in time, if that comes.
async fn silence(words: Words, patience: Patience) {
    tokio::time::sleep(patience.answer_within).await;
    if !words.are_missing() {
        std::future::pending().await
    }
}

async fn connection(
    (stream, from): (impl Stream, SocketAddr),
    secured: Option<Secured>,
    router: Guarded<Counted>,
    limits: Limits,
    mut stopping: watch::Receiver<bool>,
) {
    let Limits { patience, throttle, calls, .. } = limits;
    let pass = throttle.pass();
    let _ = stream.set_nodelay();
    if let Err(cause) = stream.watch(&patience.liveness()) {
        debug!(%cause, "the kernel does not look after a client connection");
    }
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(patience.ping_after)
        .keep_alive_timeout(patience.answer_within)
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    let network = &router.inner.metrics.network;
    let (received, sent) = (network.client_received.clone(), network.client_sent.clone());
    let (link, words) = (Link::from_client(from), Words::default());
    let silence = silence(words.clone(), patience);
    let asked = pass.asked();
    let known =
        Connection { link: link.clone(), calls: calls.connection(), tls: secured.map(Arc::new) };
    let stream =
        Metered { stream, received, sent, link, words: words.clone(), pass, is_given_up: false };
    let service =
        TowerToHyperService::new(router.map_request(move |mut request: http::Request<_>| {
            words.asked();
            asked.one();
            request.extensions_mut().insert(known.clone());
            request
        }));
    let mut connection =
        pin!(builder.serve_connection(TokioIo::new(Authorities::new(stream)), service));
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = silence => {
            debug!("a client connection said nothing");
            return;
        }
        () = last_call(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(cause) = ended {
        debug!(%cause, "a client connection ended badly");
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
        time::Instant,
    };

    use super::*;
    use crate::{admission::Admission, metrics::Metrics};

    const WITHIN: Duration = Duration::from_secs(20);
    const PING_AFTER: Duration = Duration::from_secs(7200);
    /// The first words of HTTP/2 and an empty frame of settings.
    const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

    /// Says something and then nothing more, and answers when the connection ended, if it did within a day.
    async fn ends_after(words: &[u8], patience: Patience) -> Option<Duration> {
        let (mut client, server) = connected(patience).await;
        client.write_all(words).await.unwrap();
        let began = Instant::now();
        let mut said = Vec::new();
        let day = Duration::from_secs(86400);
        let ended = tokio::time::timeout(day, client.read_to_end(&mut said)).await;
        server.end.abort();
        ended.ok().map(|_| began.elapsed())
    }

    struct Served {
        end: tokio::task::JoinHandle<()>,
        _stop: watch::Sender<bool>,
    }

    async fn connected(patience: Patience) -> (TcpStream, Served) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let metrics = Arc::new(Metrics::new(&Config::default()));
        let throttle = ReadThrottle::new(metrics.network.client_held.clone());
        let inner = Counted { router: Admission::open(axum::Router::new()), metrics };
        let router = Guarded { browsers: Arc::default(), inner };
        let (stop, stopping) = watch::channel(false);
        let (calls, connections) = (Calls::default(), Connections::new(1));
        let limits = Limits { patience, throttle, calls, connections };
        let listener = Listener { socket: listener, in_the_clear: true, tls: false };
        let end = tokio::spawn(clients(listener, None, router, limits, stopping));
        (TcpStream::connect(at).await.unwrap(), Served { end, _stop: stop })
    }

    fn about(expected: Duration) -> impl Fn(Option<Duration>) -> bool {
        let near = Duration::from_secs(1);
        move |ended| ended.is_some_and(|after| after + near > expected && after < expected + near)
    }

    /// Time is made to pass by the runtime whenever all tasks wait.
    #[tokio::test(start_paused = true)]
    async fn who_connects_and_does_not_say_what_it_wants_is_not_waited_for() {
        let patience = Patience { ping_after: Some(PING_AFTER), answer_within: WITHIN };
        for silent in ["", "P", "PRI * HTTP/2.0\r\n\r\nSM\r\n"] {
            let ended = ends_after(silent.as_bytes(), patience).await;
            assert!(about(WITHIN)(ended), "{silent:?}: {ended:?}");
        }
        // A head that does not end, and one request that no other follows.
        for head in ["GET / HTTP/1.1\r\nhost: somebody with time\r\n", "GET / HTTP/1.1\r\n\r\n"] {
            let ended = ends_after(head.as_bytes(), patience).await;
            assert!(about(HEAD_MAX)(ended), "{head:?}: {ended:?}");
        }
    }

    /// A request in the words of clientv3 3.5.0: POST, http, a path, and this authority, which goes into the table. A second one
    /// takes it from there.
    fn two_requests(authority: &str) -> Vec<u8> {
        let head = |length: usize, stream| [0, 0, length as u8, 1, 5, 0, 0, 0, stream];
        let mut first = vec![0x83, 0x86, 0x84, 0x41, authority.len() as u8];
        first.extend_from_slice(authority.as_bytes());
        let second = [0x83, 0x86, 0x84, 0xbe];
        [HTTP2, &head(first.len(), 1), &first, &head(4, 3), &second].concat()
    }

    #[tokio::test]
    async fn serve_answers_requests_with_any_authority() {
        for authority in ["127.0.0.1:2379", "http://127.0.0.1:2379", "#initially=[http://a:1;b:2]"]
        {
            let (mut client, _server) = connected(Patience::of(&Config::default())).await;
            client.write_all(&two_requests(authority)).await.unwrap();
            let mut answered = Vec::new();
            while answered.len() < 2 {
                let mut head = [0; 9];
                client.read_exact(&mut head).await.unwrap();
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
                let mut payload = vec![0; length as usize];
                client.read_exact(&mut payload).await.unwrap();
                match head[3] {
                    1 => answered.push(head[8]),
                    3 | 7 => panic!("{authority}: stream {} was reset: {payload:?}", head[8]),
                    _ => {}
                }
            }
            answered.sort();
            assert_eq!(answered, [1, 3], "{authority}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_answer_a_ping_is_not_waited_for() {
        let patience = Patience { ping_after: Some(PING_AFTER), answer_within: WITHIN };
        let ended = ends_after(HTTP2, patience).await;
        assert!(about(PING_AFTER + WITHIN)(ended), "{ended:?}");
        let unasked = ends_after(HTTP2, Patience { ping_after: None, ..patience }).await;
        assert_eq!(unasked, None);
    }

    #[test]
    fn pings_can_be_switched_off_but_machines_are_always_asked() {
        let default = Patience::of(&Config::default());
        assert_eq!((default.ping_after, default.answer_within), (Some(PING_AFTER), WITHIN));
        assert_eq!(default.liveness().ask_after, ASK_AFTER);
        let off = Config { grpc_keepalive_interval: Duration::ZERO, ..Config::default() };
        assert_eq!(Patience::of(&off).ping_after, None);
        let off = Config { grpc_keepalive_timeout: Duration::ZERO, ..Config::default() };
        let off = Patience::of(&off);
        assert_eq!((off.ping_after, off.answer_within), (None, WITHIN));
        // What the kernel would not take.
        let odd = Config {
            grpc_keepalive_interval: Duration::from_millis(1),
            grpc_keepalive_timeout: Duration::MAX,
            ..Config::default()
        };
        let odd = Patience::of(&odd);
        assert_eq!((odd.ping_after, odd.answer_within), (Some(SILENCE_MIN), SILENCE_MAX));
        assert!(i32::try_from(odd.liveness().unacknowledged_max.as_millis()).is_ok());
    }
}
