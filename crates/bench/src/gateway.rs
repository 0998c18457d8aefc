//! Puts as JSON: what a client of the gateway does, with little of its own.

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tenure::grpc::{Dialer, Endpoint, Options};

use crate::connection::{Fault, token};
use crate::drive::Client;
use crate::key::value;
use crate::put::KeyChoice;

const PATH: &str = "/v3/kv/put";
/// As much of a refusal as is counted by.
const REFUSAL_BYTES_MAX: usize = 200;

/// A client that writes one key after the other, over a connection that it keeps.
pub(crate) struct GatewayWriter {
    endpoint: Endpoint,
    dialer: Dialer,
    choice: KeyChoice,
    /// In base64.
    value: String,
    options: Options,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl GatewayWriter {
    pub(crate) fn new(
        endpoint: &Endpoint,
        options: &Options,
        choice: KeyChoice,
        val_size: usize,
    ) -> GatewayWriter {
        GatewayWriter {
            endpoint: endpoint.clone(),
            dialer: Dialer::new(options.tls.clone()),
            choice,
            value: BASE64_STANDARD.encode(value(val_size)),
            options: options.clone(),
            connection: None,
        }
    }

    async fn post(&self, send: &mut SendRequest<Full<Bytes>>, body: String) -> Result<(), Fault> {
        let authority = self.endpoint.uri().authority().map_or("", |authority| authority.as_str());
        let mut request = Request::post(PATH)
            .header(header::HOST, authority)
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(token) = token(&self.endpoint, &self.options).await? {
            request = request.header(header::AUTHORIZATION, token);
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(broken)?;
        send.ready().await.map_err(broken)?;
        let answer = send.send_request(request).await.map_err(broken)?;
        let status = answer.status();
        let body = answer.into_body().collect().await.map_err(broken)?.to_bytes();
        if status == StatusCode::OK {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&body[..body.len().min(REFUSAL_BYTES_MAX)]);
        Err(Fault::Status(format!("{status}: {text}")))
    }
}

impl Client for GatewayWriter {
    async fn operate(&mut self) -> Result<(), Fault> {
        let mut send = match self.connection.take() {
            Some(send) => send,
            None => open(&self.endpoint, &self.dialer).await?,
        };
        let key = BASE64_STANDARD.encode(self.choice.next());
        let body = format!(r#"{{"key":"{key}","value":"{}"}}"#, self.value);
        let done = self.post(&mut send, body).await;
        // One that broke is opened anew next time.
        if !matches!(done, Err(Fault::Transport(_))) {
            self.connection = Some(send);
        }
        done
    }
}

async fn open(endpoint: &Endpoint, dialer: &Dialer) -> Result<SendRequest<Full<Bytes>>, Fault> {
    let socket = dialer.dial(endpoint, &["http/1.1"]).await.map_err(broken)?;
    let (send, connection) = handshake(TokioIo::new(socket)).await.map_err(broken)?;
    // Ends with the connection; whoever uses it then learns why.
    tokio::spawn(connection);
    Ok(send)
}

fn broken(cause: impl std::fmt::Display) -> Fault {
    Fault::Transport(cause.to_string())
}
