//! Tells the server that all work of a session has ended, when no process above can.

use std::time::Duration;

use tenure::api::wire::tenure::v1::{EndReason, EndSessionRequest};
use tenure::grpc::{Client, Endpoint, Options};

use super::plan::Cause;
use super::words::{SessionCharge, UserCharge};

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// Tries until it is said, for no longer than the session could have lived. Says why where that is sure.
pub(super) fn confirm_stopped(session: &SessionCharge, cause: Option<Cause>) {
    let why = match cause {
        Some(Cause::Abandoned) => EndReason::ConnectionLost,
        Some(Cause::Doubt) => EndReason::Expired,
        Some(Cause::Ordered | Cause::Ended) | None => EndReason::Unknown,
    };
    let ttl = Duration::from_millis(session.ttl_ms);
    let Ok(endpoints) = Endpoint::list(&session.endpoints) else { return };
    let credentials = session.user.as_ref().map(UserCharge::credentials);
    let options = Options { credentials, request_timeout: ttl / 2, ..Options::default() };
    let options = match &session.tls {
        None => options,
        // Without its files there is no way to tell.
        Some(tls) => match tls.on(options) {
            Ok(options) => options,
            Err(_) => return,
        },
    };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return;
    };
    let request = EndSessionRequest {
        session: session.id,
        stopped: true,
        reason: why as i32,
        secret: session.secret.0.clone().into(),
    };
    let told = async {
        let client = Client::new(endpoints, options);
        while client.sessions().end(request.clone()).await.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
    };
    runtime.block_on(async {
        let _ = tokio::time::timeout(ttl, told).await;
    });
}
