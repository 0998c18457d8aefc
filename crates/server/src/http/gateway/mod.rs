//! The JSON gateway: the etcd v3 API as plain HTTP, for clients that speak nothing else.
//!
//! `POST /v3/kv/put` with `{"key":"Zm9v","value":"YmFy"}` is a `Put`; the answer is its response as
//! JSON. Names, base64, 64-bit numbers as strings, `{"result":…}` lines and error bodies are etcd's.
//!
//! The gateway knows no service. It is a gRPC client whose channel is the router of our own gRPC
//! services, called in this process without a socket; what a message looks like it reads from the
//! descriptors of `proto/`. So a method answers here exactly what it answers there, and a service
//! that is added there is served here as soon as its paths are in the table.
//!
//! | file | idea |
//! |---|---|
//! | `bindings` | the table: which path is which method |
//! | `method` | one method and its two kinds of message, and calling it |
//! | `unary` | one object in, one object out |
//! | `streams` | objects in, lines out |
//! | `objects` | cutting a body into objects as it arrives |
//! | `body` | reading a body within its limits |
//! | `read` | from JSON to a message |
//! | `write` | from a message to JSON |
//! | `refusal` | what goes wrong, as HTTP says it |
//! | `headers` | what the caller's headers mean to gRPC |

mod bindings;
mod body;
#[cfg(test)]
mod fuzz;
mod headers;
mod method;
mod objects;
mod read;
mod refusal;
mod streams;
mod unary;
mod write;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::StatusCode,
    middleware::Next,
    response::{IntoResponse, Response},
    routing::{MethodRouter, post},
};
use prost_reflect::DescriptorPool;
use tenure_api::wire::DESCRIPTORS;

use self::bindings::BINDINGS;
pub(crate) use self::method::Method;
use crate::{
    admission::{Admission, Connection},
    node::NodeHandle,
};

/// As etcd says it.
const CERTIFICATE_IGNORED: &str = "CommonName of client sending a request against gateway will be ignored and not used as expected\n";
/// How all its paths begin.
pub(crate) const PATHS: &str = "/v3/";

/// Every path of the gateway, in front of these gRPC services.
///
/// A request of at most `request_bytes_max` as protobuf is taken, whatever it weighs as JSON.
pub(crate) fn routes(services: &Admission, request_bytes_max: usize) -> Router {
    let pool = DescriptorPool::decode(DESCRIPTORS).expect("the descriptors were made by our build");
    let body_bytes_max = body::bytes_max(request_bytes_max);
    BINDINGS.iter().fold(Router::new(), |router, (path, name)| {
        let method = Method::find(&pool, name, services.clone(), body_bytes_max)
            .expect("the table names methods that proto/ has");
        router.route(path, handler(method))
    })
}

/// etcd's clients with certificates must not take them for users here: what asks the services is the gateway, for many
/// clients, and its certificate would be asked instead (CVE-2018-16886).
pub(crate) async fn keep_certificates_out(
    State(node): State<NodeHandle>,
    request: Request,
    next: Next,
) -> Response {
    let connection = request.extensions().get::<Connection>();
    let names_user = connection.and_then(Connection::certificate_user).is_some();
    if names_user && node.tokens.is_enabled() {
        return (StatusCode::BAD_REQUEST, CERTIFICATE_IGNORED).into_response();
    }
    next.run(request).await
}

fn handler(method: Method) -> MethodRouter {
    let streams = method.takes_stream || method.gives_stream;
    let method = Arc::new(method);
    let route = match streams {
        true => post(move |request| streams::serve(method.clone(), request)),
        false => post(move |request| unary::serve(method.clone(), request)),
    };
    route.fallback(async || (StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_names_a_method() {
        let _ = routes(&Admission::open(Router::new()), 1 << 20);
    }
}
