//! One object in, one object out.

use std::sync::Arc;

use axum::{
    extract::Request,
    response::{IntoResponse, Response},
};
use tonic::Status;

use super::{body, headers, method::Method, read, refusal, write};

pub(super) async fn serve(method: Arc<Method>, request: Request) -> Response {
    match answer(&method, request).await {
        Ok(json) => (refusal::JSON, json).into_response(),
        Err(status) => refusal::respond(&status),
    }
}

async fn answer(method: &Method, request: Request) -> Result<Vec<u8>, Status> {
    let (head, body) = request.into_parts();
    let patience = headers::timeout(&head.headers)?;
    let json = body::read_all(body, method.body_bytes_max, body::held(&head)).await?;
    let message = read::message(&method.input, &json)?;
    let request = headers::annotated(&head, message);
    let answer = headers::within(patience, method.ask(request)).await?;
    write::object(&answer)
}
