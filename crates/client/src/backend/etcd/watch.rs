//! Waiting for keys to go.

use bytes::Bytes;
use futures_util::future::select_all;
use tenure_api::wire::etcdserverpb as pb;

use crate::grpc::Client;

/// Keys to wait for: one, or a range.
pub(super) type Span = (Bytes, Bytes);

/// Is done when a key in one of the spans was deleted at or after `revision`, or when that cannot be
/// told any more (compacted, no member to go on with): then the answer is no. Either way it is time
/// to look again.
pub(super) async fn deletion(client: &Client, spans: Vec<Span>, revision: i64) -> bool {
    let watches = spans.into_iter().map(|span| Box::pin(deletion_in(client, span, revision)));
    select_all(watches).await.0
}

async fn deletion_in(client: &Client, (key, range_end): Span, revision: i64) -> bool {
    let create = pb::WatchCreateRequest {
        key,
        range_end,
        start_revision: revision,
        filters: vec![pb::watch_create_request::FilterType::Noput as i32],
        ..Default::default()
    };
    let Ok(mut watch) = client.watch().resumed(create).await else { return false };
    while let Ok(answer) = watch.next().await {
        if answer.canceled || !answer.events.is_empty() {
            return !answer.canceled;
        }
    }
    false
}
