//! Waiting for a candidate's turn in an election, and following its leader.

use std::sync::Arc;

use bytes::Bytes;
use tenure_api::{Failure, KeyValue, Revision, wire::etcdserverpb::ResponseHeader};
use tenure_replica::{
    Consistency, Operation, Read, Reply,
    election::listeners::{ListenerEvent, ListenerInput, Observed},
};
use tonic::Status;

use super::reply::unexpected;
use crate::{
    admission::Admitted,
    node::{NodeHandle, Stamp, Subscription},
};

/// The outcome of a candidacy.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    /// It holds.
    Held(Stamp),
    /// The key is gone, or is another's now.
    Gone,
}

/// Waits until a candidate holds, or is gone.
pub(super) async fn wait(
    node: &NodeHandle,
    by: &Admitted,
    name: &Bytes,
    key: &Bytes,
    created: Revision,
) -> Result<Turn, Failure> {
    loop {
        let (name, key) = (name.clone(), key.clone());
        let ask = |listener| ListenerInput::Await { listener, name, key, created };
        let mut subscription = node.listen(by, ask);
        match subscription.news.recv().await {
            Some((ListenerEvent::Held, stamp)) => return Ok(Turn::Held(stamp)),
            Some((ListenerEvent::Gone(_), _)) => return Ok(Turn::Gone),
            Some((ListenerEvent::Denied(failure), _)) => return Err(failure),
            // Nothing else is said of a candidate.
            Some(_) => {}
            None => serves(node, by).await?,
        }
    }
}

/// The leader, by a linearizable read.
pub(super) async fn leader(
    node: &NodeHandle,
    by: &Admitted,
    name: Bytes,
) -> Result<(Option<ResponseHeader>, Option<Arc<KeyValue>>), Status> {
    let read = Operation::Read(Read::Leader(name), Consistency::Linearizable);
    match node.open(node.ask(by, read).await)? {
        (header, Reply::Leader(leader)) => Ok((header, leader)),
        (_, other) => Err(unexpected(&other)),
    }
}

/// A stream of an election's leaders.
pub(super) struct Leaders {
    node: NodeHandle,
    by: Admitted,
    name: Bytes,
    subscription: Subscription,
    /// The version of a leader's key that was told last: when it was made, and when it was changed.
    told: Option<(Revision, Revision)>,
}

impl Leaders {
    pub(super) async fn of(
        node: NodeHandle,
        by: Admitted,
        name: Bytes,
    ) -> Result<Leaders, Failure> {
        let subscription = observe(&node, &by, &name).await?;
        Ok(Leaders { node, by, name, subscription, told: None })
    }

    /// The next leader, or what the leader shows next. Says nothing while there is no leader: etcd has no message for
    /// it, and its clients would fail on one.
    pub(super) async fn next(&mut self) -> Result<(Arc<KeyValue>, Stamp), Failure> {
        loop {
            let (seen, stamp) = match self.subscription.news.recv().await {
                Some((ListenerEvent::Observed(seen), stamp)) => (seen, stamp),
                Some((ListenerEvent::Denied(failure), _)) => return Err(failure),
                Some(_) => continue,
                None => {
                    // Too much was told and not taken: go on with how things are.
                    self.subscription = observe(&self.node, &self.by, &self.name).await?;
                    continue;
                }
            };
            match seen {
                Observed::Began(_, Some(kv)) | Observed::Proclaimed(_, kv) => {
                    // A listener that subscribed anew may be told once more what is known.
                    let version = Some((kv.create_revision, kv.mod_revision));
                    if self.told != version {
                        self.told = version;
                        return Ok((kv, stamp));
                    }
                }
                // This member skipped a part of the log: it knows the leader of that time, but not its value.
                Observed::Began(_, None) => {
                    self.subscription = observe(&self.node, &self.by, &self.name).await?;
                }
                _ => {}
            }
        }
    }
}

/// Listens from how things are now. A member that lags, or is cut off, would tell how they were: it must hear
/// first that it knows all that was decided before it was asked.
async fn observe(node: &NodeHandle, by: &Admitted, name: &Bytes) -> Result<Subscription, Failure> {
    serves(node, by).await?;
    let name = name.clone();
    Ok(node.listen(by, |listener| ListenerInput::Observe { listener, name, after: None }))
}

/// Whether this member serves clients, and is up to date. A listener that was dropped learns here
/// whether it was only that listener.
async fn serves(node: &NodeHandle, by: &Admitted) -> Result<(), Failure> {
    let read = Operation::Read(Read::Freshness, Consistency::Linearizable);
    node.ask(by, read).await?.result.map(|_| ())
}
