//! A small real HTTP service for a proxy to stand before. Each path misbehaves in its own way.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    error::Error,
    sync::{Arc, Mutex},
    time::Duration,
};

use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use crate::eventually;

type Body = BoxBody<Bytes, Infallible>;
/// How much is sent at once in a large body.
const PIECE: usize = 64 * 1024;

/// A service that remembers what was written to it.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Where it is.
    pub url: String,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    begun: Mutex<Vec<String>>,
    written: Mutex<Vec<(String, String)>>,
    /// Requests to /slow wait here.
    let_go: Semaphore,
    judged: Mutex<Judged>,
}

/// What /judge has seen.
#[derive(Debug, Default)]
struct Judged {
    /// How many work under each token.
    working: BTreeMap<i64, usize>,
    newest: i64,
    done: usize,
    wrong: Vec<String>,
}

/// How long a request to /judge works.
const WORK: Duration = Duration::from_millis(3);

impl Upstream {
    /// Starts one.
    ///
    /// | path | what it does |
    /// |---|---|
    /// | `/slow` | writes, but only when it is let go |
    /// | `/trickle` | answers a first line at once and the rest, and writes, when it is let go |
    /// | `/silent` | never answers |
    /// | `/break` | closes the connection instead of answering |
    /// | `/echo` | sends back what comes, as it comes |
    /// | `/count` | says how many bytes came |
    /// | `/bytes/N` | sends so many bytes |
    /// | `/head` | says what the request's head was, as lines |
    /// | `/close` | answers, and closes behind it |
    /// | `/judge` | works for a while, even if the client hangs up, and notes if older and newer tokens meet |
    /// | any other | writes what is sent with PUT or POST; answers what was written last |
    pub async fn start() -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("a bound address"));
        let let_go = Semaphore::new(0);
        let (begun, written, judged) = Default::default();
        let state = State { begun, written, let_go, judged };
        let state = Arc::new(state);
        let served = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&served);
                let service = service_fn(move |request| serve(Arc::clone(&state), request));
                tokio::spawn(async move {
                    let connection = http1::Builder::new();
                    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Upstream { url, state }
    }

    /// What was written, with its token, in order.
    pub fn written(&self) -> Vec<(String, String)> {
        self.state.written.lock().expect("nobody panics while holding it").clone()
    }

    /// How many requests to this path have begun.
    pub fn begun(&self, path: &str) -> usize {
        let begun = self.state.begun.lock().expect("nobody panics while holding it");
        begun.iter().filter(|begun| *begun == path).count()
    }

    /// Waits until so many requests to this path have begun.
    pub async fn has_begun(&self, path: &str, count: usize) {
        eventually(&format!("{count} requests to {path} have begun"), async || {
            let begun = self.begun(path);
            if begun >= count { Ok(()) } else { Err(begun.to_string()) }
        })
        .await;
    }

    /// How many requests /judge has done, and what was wrong with them.
    pub fn judged(&self) -> (usize, Vec<String>) {
        let judged = self.state.judged.lock().expect("nobody panics while holding it");
        (judged.done, judged.wrong.clone())
    }

    /// Lets one request to /slow or /trickle go on.
    pub fn let_go(&self) {
        self.state.let_go.add_permits(1);
    }
}

impl State {
    /// What fencing must never let happen: an older token after a newer one, or beside it.
    fn begin_work(&self, token: i64) {
        let mut judged = self.judged.lock().expect("nobody panics while holding it");
        if judged.newest > token {
            let wrong = format!("{token} began after {}", judged.newest);
            judged.wrong.push(wrong);
        }
        let older = judged.working.range(..token).next().map(|(older, _)| *older);
        if let Some(older) = older {
            judged.wrong.push(format!("{token} began while {older} was at work"));
        }
        judged.newest = judged.newest.max(token);
        *judged.working.entry(token).or_default() += 1;
    }

    fn end_work(&self, token: i64) {
        let mut judged = self.judged.lock().expect("nobody panics while holding it");
        judged.done += 1;
        let working = judged.working.get_mut(&token).expect("it has begun");
        *working -= 1;
        if *working == 0 {
            judged.working.remove(&token);
        }
    }

    fn write(&self, token: String, body: &Bytes) {
        let text = String::from_utf8_lossy(body).into_owned();
        self.written.lock().expect("nobody panics while holding it").push((token, text));
    }

    async fn wait(&self) {
        self.let_go.acquire().await.expect("nobody closes it").forget();
    }
}

fn text(text: impl Into<Bytes>) -> Response<Body> {
    Response::new(Full::new(text.into()).boxed())
}

fn stream(frames: mpsc::Receiver<Bytes>) -> Response<Body> {
    use tokio_stream::StreamExt;
    let frames = ReceiverStream::new(frames).map(|bytes| Ok(Frame::data(bytes)));
    Response::new(BodyExt::boxed(StreamBody::new(frames)))
}

async fn serve(
    state: Arc<State>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Box<dyn Error + Send + Sync>> {
    let (parts, mut body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    state.begun.lock().expect("nobody panics while holding it").push(path.clone());
    let token = parts.headers.get("fencing-token");
    let token = token.and_then(|token| token.to_str().ok()).unwrap_or_default().to_owned();
    match path.as_str() {
        "/head" => {
            let mut lines = format!("{} {}\n", parts.method, parts.uri);
            for (name, value) in &parts.headers {
                lines.push_str(&format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes())));
            }
            Ok(text(lines))
        }
        "/slow" => {
            let sent = body.collect().await?.to_bytes();
            state.wait().await;
            state.write(token, &sent);
            Ok(text("written at last\n"))
        }
        "/trickle" => {
            let sent = body.collect().await?.to_bytes();
            let (answer, frames) = mpsc::channel(1);
            tokio::spawn(async move {
                let _ = answer.send("beginning\n".into()).await;
                state.wait().await;
                state.write(token, &sent);
                let _ = answer.send("end\n".into()).await;
            });
            Ok(stream(frames))
        }
        "/silent" => std::future::pending().await,
        "/break" => {
            body.collect().await?;
            Err("asked to break off".into())
        }
        "/echo" => {
            let (answer, frames) = mpsc::channel(1);
            tokio::spawn(async move {
                while let Some(Ok(frame)) = body.frame().await {
                    let Ok(data) = frame.into_data() else { continue };
                    if answer.send(data).await.is_err() {
                        return;
                    }
                }
            });
            Ok(stream(frames))
        }
        "/count" => {
            let mut bytes = 0;
            while let Some(frame) = body.frame().await {
                bytes += frame?.data_ref().map_or(0, Bytes::len);
            }
            Ok(text(bytes.to_string()))
        }
        "/judge" => {
            body.collect().await?;
            let token = token.parse()?;
            // A task of its own: it does not end with the connection.
            let work = tokio::spawn(async move {
                state.begin_work(token);
                tokio::time::sleep(WORK).await;
                state.end_work(token);
            });
            work.await?;
            Ok(text("judged"))
        }
        "/close" => {
            body.collect().await?;
            let mut answer = text("closing");
            answer.headers_mut().insert("connection", "close".parse().expect("a value"));
            Ok(answer)
        }
        path if path.starts_with("/bytes/") => {
            let mut left: usize = path["/bytes/".len()..].parse().expect("a number");
            let (answer, frames) = mpsc::channel(1);
            tokio::spawn(async move {
                let piece = Bytes::from(vec![b'x'; PIECE]);
                while left > 0 && answer.send(piece.slice(..left.min(PIECE))).await.is_ok() {
                    left -= left.min(PIECE);
                }
            });
            Ok(stream(frames))
        }
        _ => {
            let sent = body.collect().await?.to_bytes();
            if matches!(parts.method.as_str(), "PUT" | "POST") {
                state.write(token, &sent);
            }
            let written = state.written.lock().expect("nobody panics while holding it");
            let last = written.last().map_or(String::new(), |(_, text)| text.clone());
            drop(written);
            Ok(text(last))
        }
    }
}
