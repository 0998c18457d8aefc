//! What carries no token and no body only passes: nothing has to outlive the client that asks.

use std::sync::Arc;

use http::request::Parts;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::time::timeout;

use super::answer::Failure;
use super::head;
use super::reply::{Passed, Reply};
use super::upload::Upload;
use super::{Worker, pool::Connection};

/// Asks the upstream, and hands its answer on.
pub(super) async fn pass(worker: &Worker, parts: Parts) -> Result<Response<Reply>, Failure> {
    let wait = worker.proxy.waits.upstream;
    let asking = ask(worker, parts);
    let (answer, connection) = timeout(wait, asking).await.map_err(|_| Failure::Silent)??;
    let (mut parts, body) = answer.into_parts();
    head::toward_client(&mut parts);
    let reply = Passed::reply(body, connection, Arc::clone(&worker.pool), wait);
    Ok(Response::from_parts(parts, reply))
}

async fn ask(worker: &Worker, parts: Parts) -> Result<(Response<Incoming>, Connection), Failure> {
    let mut parts = parts;
    loop {
        let mut connection = worker.pool.take().await?;
        // The upstream may be closing a connection that it has not used for a while. What only reads
        // can be asked again, on a new one in the end.
        let again = connection.reused.then(|| parts.clone());
        let request = Request::from_parts(parts, Upload::default());
        match (connection.send(request).await, again) {
            (Ok(answer), _) => return answered(answer, connection),
            (Err(_), Some(again)) => parts = again,
            (Err(error), None) => return Err(Failure::Broken(error.into_error())),
        }
    }
}

/// Nobody asked for another protocol.
pub(super) fn answered(
    answer: Response<Incoming>,
    connection: Connection,
) -> Result<(Response<Incoming>, Connection), Failure> {
    match answer.status() {
        StatusCode::SWITCHING_PROTOCOLS => Err(Failure::Upgrade),
        _ => Ok((answer, connection)),
    }
}
