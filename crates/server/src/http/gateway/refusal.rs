//! What goes wrong, as HTTP says it: a status by the gRPC code, and etcd's bodies.

use axum::{
    http::{HeaderName, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use tonic::{Code, Status};

/// The header of every answer in JSON.
pub(super) const JSON: [(HeaderName, &str); 1] = [(CONTENT_TYPE, "application/json")];

#[derive(Serialize)]
struct Refusal<'a> {
    error: &'a str,
    code: i32,
    message: &'a str,
}

/// The answer to a request that failed before anything was answered.
pub(super) fn respond(status: &Status) -> Response {
    let text = status.message();
    let body = Refusal { error: text, code: status.code() as i32, message: text };
    (http_status(status.code()), JSON, json(&body)).into_response()
}

#[derive(Serialize)]
struct LastLine<'a> {
    error: StreamRefusal<'a>,
}

#[derive(Serialize)]
struct StreamRefusal<'a> {
    grpc_code: i32,
    http_code: u16,
    message: &'a str,
    http_status: &'a str,
}

/// The last line of a stream that fails after it began.
pub(super) fn line(status: &Status) -> String {
    let http = http_status(status.code());
    let error = StreamRefusal {
        grpc_code: status.code() as i32,
        http_code: http.as_u16(),
        message: status.message(),
        http_status: http.canonical_reason().unwrap_or_default(),
    };
    json(&LastLine { error }) + "\n"
}

fn json(body: &impl Serialize) -> String {
    serde_json::to_string(body).expect("texts and numbers can be written")
}

/// As in grpc-gateway; a failed precondition is a bad request on purpose, not 412.
fn http_status(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::Cancelled => StatusCode::REQUEST_TIMEOUT,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
