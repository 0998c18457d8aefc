//! Waiting for one's turn in a line, and hearing whose turn it is.

use std::sync::Arc;

use bytes::Bytes;
use tenure_api::{Failure, KeyValue, Revision, wire::etcdserverpb::ResponseHeader};
use tenure_replica::{
    Consistency, Read, Reply, Request,
    queue::listeners::{LineInput, LineNews, Observed},
};
use tonic::Status;

use super::reply::unexpected;
use crate::node::{Door, LineOutlet, Stamp};

/// What becomes of a place in a line.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    /// It holds.
    Held(Stamp),
    /// The key is gone, or is another's now.
    Gone,
}

/// Waits until a place holds, or is gone.
pub(super) async fn wait(
    door: &Door,
    name: &Bytes,
    key: &Bytes,
    created: Revision,
) -> Result<Turn, Failure> {
    loop {
        let (name, key) = (name.clone(), key.clone());
        let ask = |listener| LineInput::Await { listener, name, key, created };
        let mut outlet = door.listen(ask);
        match outlet.news.recv().await {
            Some((LineNews::Held, stamp)) => return Ok(Turn::Held(stamp)),
            Some((LineNews::Gone(_), _)) => return Ok(Turn::Gone),
            // Nothing else is said of a place.
            Some(_) => {}
            None => serves(door).await?,
        }
    }
}

/// Who leads, as fresh as anybody knows it.
pub(super) async fn leader(
    door: &Door,
    name: Bytes,
) -> Result<(Option<ResponseHeader>, Option<Arc<KeyValue>>), Status> {
    let read = Request::Read(Read::Leader(name), Consistency::Linearizable);
    match door.open(door.ask(read).await)? {
        (header, Reply::Leader(leader)) => Ok((header, leader)),
        (_, other) => Err(unexpected(&other)),
    }
}

/// Somebody who hears who leads.
pub(super) struct Leaders {
    door: Door,
    name: Bytes,
    outlet: LineOutlet,
    /// The version of a leader's key that was told last: when it was made, and when it was changed.
    told: Option<(Revision, Revision)>,
}

impl Leaders {
    pub(super) async fn of(door: Door, name: Bytes) -> Result<Leaders, Failure> {
        let outlet = observe(&door, &name).await?;
        Ok(Leaders { door, name, outlet, told: None })
    }

    /// Whoever leads next, or what the leader shows next. Says nothing while nobody leads: etcd has no word for
    /// it, and its clients would fall over one.
    pub(super) async fn next(&mut self) -> Result<(Arc<KeyValue>, Stamp), Failure> {
        loop {
            let (seen, stamp) = match self.outlet.news.recv().await {
                Some((LineNews::Observed(seen), stamp)) => (seen, stamp),
                Some(_) => continue,
                None => {
                    // Too much was told and not taken: go on with how things are.
                    self.outlet = observe(&self.door, &self.name).await?;
                    continue;
                }
            };
            match seen {
                Observed::Began(_, Some(kv)) | Observed::Proclaimed(_, kv) => {
                    // Who began to listen anew may be told once more what is known.
                    let version = Some((kv.create_revision, kv.mod_revision));
                    if self.told != version {
                        self.told = version;
                        return Ok((kv, stamp));
                    }
                }
                // This member skipped a part of the log, and knows of that time who led, but not with what.
                Observed::Began(_, None) => {
                    self.outlet = observe(&self.door, &self.name).await?;
                }
                _ => {}
            }
        }
    }
}

/// Listens from how things are now. A member that lags, or is cut off, would tell how they were: it must hear
/// first that it knows all that was decided before it was asked.
async fn observe(door: &Door, name: &Bytes) -> Result<LineOutlet, Failure> {
    serves(door).await?;
    Ok(door.listen(|listener| LineInput::Observe { listener, name: name.clone(), after: None }))
}

/// Whether this member serves anybody, and knows what it must know for it. Who listened and was let go learns here
/// whether it was only that listener.
async fn serves(door: &Door) -> Result<(), Failure> {
    let read = Request::Read(Read::Freshness, Consistency::Linearizable);
    door.ask(read).await?.result.map(|_| ())
}
