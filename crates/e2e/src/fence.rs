//! `tenure fence` as a process, and clients that speak to it as plainly as can be.

use std::{process::Command, time::Duration};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::{Program, Scrape, tools};

/// How long any answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A proxy that runs.
#[derive(Debug)]
pub struct Fence {
    /// The process.
    pub program: Program,
    /// Where requests come in.
    pub address: String,
    admin: String,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answered {
    /// The status.
    pub status: u16,
    /// The head.
    pub headers: HeaderMap,
    /// The body.
    pub body: String,
}

impl Answered {
    async fn of(response: Response<Incoming>) -> Answered {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a whole answer").to_bytes();
        Answered {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    }

    /// A header, as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body, as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }
}

impl Fence {
    /// Starts a proxy with these flags, on addresses of its own. It waits for nothing that was cut off,
    /// unless told how long.
    pub async fn start(flags: &[&str]) -> Fence {
        let waits = flags.contains(&"--settle");
        Fence::start_as_shipped(&[flags, if waits { &[] } else { &["--settle", "0"] }].concat())
            .await
    }

    /// The same with no flags but these.
    pub async fn start_as_shipped(flags: &[&str]) -> Fence {
        let program = Fence::spawn(flags);
        let metrics = program.says("metrics on http://").await;
        let admin = metrics.trim_start_matches("metrics on http://").trim_end_matches("/metrics");
        let listens = program.says("listening on ").await;
        let address = listens.trim_start_matches("listening on ").split(',').next();
        let address = address.expect("there is a first part").to_owned();
        Fence { program, address, admin: admin.to_owned() }
    }

    /// The process alone, which may end at once. What it says on stderr is what it says.
    pub fn spawn(flags: &[&str]) -> Program {
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(tools::tenure()).arg("fence");
        command.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]).args(flags);
        Program::start("fence", &mut command)
    }

    /// Sends a request with these headers on a connection of its own.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answered {
        let mut request = Request::builder().method(method).uri(path).header("Host", "shop");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).expect("a request");
        let exchange = async {
            let stream = TcpStream::connect(&self.address).await.expect("the proxy listens");
            let (mut sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.expect("a connection");
            tokio::spawn(connection);
            Answered::of(sender.send_request(request).await.expect("an answer")).await
        };
        tokio::time::timeout(PATIENCE, exchange).await.expect("an answer in time")
    }

    /// A raw connection without an HTTP client, with the first bytes sent.
    pub async fn raw(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).await.expect("the proxy listens");
        stream.write_all(text.as_bytes()).await.expect("the proxy reads");
        stream
    }

    /// Writes under a token.
    pub async fn put(&self, path: &str, token: i64, body: &str) -> Answered {
        self.send("PUT", path, &[("Fencing-Token", &token.to_string())], body.to_owned()).await
    }

    /// Reads without one.
    pub async fn get(&self, path: &str) -> Answered {
        self.send("GET", path, &[], "").await
    }

    /// One of its metrics.
    pub async fn metric(&self, series: &str) -> f64 {
        let scrape = Scrape::of(&self.admin).await.expect("a page of metrics");
        *scrape.series.get(series).unwrap_or_else(|| panic!("no {series} in {:?}", scrape.series))
    }

    /// What /healthz says: the status line and the text.
    pub async fn health(&self) -> (String, String) {
        crate::fetch(&self.admin, "/healthz").await.expect("a page")
    }
}

/// Reads until this text has come, and answers all that has.
pub async fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut read = Vec::new();
    let reading = async {
        while !String::from_utf8_lossy(&read).contains(text) {
            if stream.read_buf(&mut read).await.expect("a connection") == 0 {
                break;
            }
        }
    };
    let _ = timeout(PATIENCE, reading).await;
    let read = String::from_utf8_lossy(&read).into_owned();
    assert!(read.contains(text), "no {text:?} in {read:?}");
    read
}
