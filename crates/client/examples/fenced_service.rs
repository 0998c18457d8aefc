//! An HTTP service that holds one value and refuses holders that were replaced, also after a restart.
//!
//! ```sh
//! cargo run -p tenure --features tower --example fenced_service -- /tmp/gate
//! curl -X PUT -H 'Fencing-Token: 7' -d hello http://127.0.0.1:…/value
//! ```
//!
//! The gate remembers the newest token in a file. It is flushed before the first request under that
//! token is let in; so a holder that was refused once is refused for ever, whatever happens to this
//! process in between.

use std::{
    env,
    error::Error,
    sync::{Arc, Mutex, PoisonError},
};

use axum::extract::State;
use axum::routing::get;
use axum::{Extension, Router};
use tenure::fence::http::FenceLayer;
use tenure::fence::{FencingToken, Gate, GateLimits};
use tokio::net::TcpListener;

type Value = Arc<Mutex<String>>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = env::args().nth(1).ok_or("usage: fenced_service GATE-FILE")?;
    // The value lives in memory, so a new gate beside an empty value does no harm.
    let gate = Gate::open_or_create(&file, GateLimits::default())?;
    let app = Router::new()
        .route("/value", get(read).put(write))
        .with_state(Value::default())
        .layer(FenceLayer::new(gate));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

async fn read(State(value): State<Value>) -> String {
    value.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

async fn write(
    State(value): State<Value>,
    Extension(token): Extension<FencingToken>,
    body: String,
) -> String {
    *value.lock().unwrap_or_else(PoisonError::into_inner) = body;
    format!("written under token {token}\n")
}
