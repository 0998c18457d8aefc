//! Guarded writes by what is held: one call, and no second client.

use tenure_api::Revision;
use tenure_api::wire::etcdserverpb as pb;

use super::{GuardedError, HolderKey, guarded_delete, guarded_put, guarded_txn};
use crate::elector::Scope;
use crate::grpc::Client;
use crate::{Engine, Held};

/// Writes that take effect together or not at all.
///
/// ```
/// use tenure::fence::GuardedTxn;
///
/// let sell = GuardedTxn::new().when_absent("seat/12a").put("seat/12a", "alice").delete("reserved/12a");
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "it does nothing until it is handed to a holder"]
pub struct GuardedTxn {
    txn: pb::TxnRequest,
}

impl GuardedTxn {
    /// Nothing yet.
    pub fn new() -> GuardedTxn {
        GuardedTxn::default()
    }

    /// Only if this key does not exist.
    pub fn when_absent(self, key: impl Into<Vec<u8>>) -> GuardedTxn {
        use pb::compare::{CompareTarget, TargetUnion};
        self.when(key, CompareTarget::Create, TargetUnion::CreateRevision(0))
    }

    /// Only if this key has this value.
    pub fn when_value(self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> GuardedTxn {
        use pb::compare::{CompareTarget, TargetUnion};
        let value: Vec<u8> = value.into();
        self.when(key, CompareTarget::Value, TargetUnion::Value(value.into()))
    }

    /// Only if this key was last written at this revision.
    pub fn when_revision(self, key: impl Into<Vec<u8>>, revision: Revision) -> GuardedTxn {
        use pb::compare::{CompareTarget, TargetUnion};
        self.when(key, CompareTarget::Mod, TargetUnion::ModRevision(revision.0))
    }

    /// Writes a key.
    pub fn put(mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> GuardedTxn {
        let put = pb::request_op::Request::RequestPut(put_of(key, value));
        self.txn.success.push(pb::RequestOp { request: Some(put) });
        self
    }

    /// Deletes a key, if it exists.
    pub fn delete(mut self, key: impl Into<Vec<u8>>) -> GuardedTxn {
        let delete = pb::request_op::Request::RequestDeleteRange(delete_of(key));
        self.txn.success.push(pb::RequestOp { request: Some(delete) });
        self
    }

    fn when(
        mut self,
        key: impl Into<Vec<u8>>,
        target: pb::compare::CompareTarget,
        value: pb::compare::TargetUnion,
    ) -> GuardedTxn {
        let key: Vec<u8> = key.into();
        self.txn.compare.push(pb::Compare {
            key: key.into(),
            target: target as i32,
            result: pb::compare::CompareResult::Equal as i32,
            target_union: Some(value),
            ..Default::default()
        });
        self
    }
}

fn put_of(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> pb::PutRequest {
    let (key, value): (Vec<u8>, Vec<u8>) = (key.into(), value.into());
    pb::PutRequest { key: key.into(), value: value.into(), ..Default::default() }
}

fn delete_of(key: impl Into<Vec<u8>>) -> pb::DeleteRangeRequest {
    let key: Vec<u8> = key.into();
    pb::DeleteRangeRequest { key: key.into(), ..Default::default() }
}

/// A holder, and where its writes go.
struct Writer {
    client: Client,
    holder: HolderKey,
}

impl Writer {
    /// Data under the name itself would be a candidate that never leaves.
    fn check(&self, key: &[u8]) -> Result<(), GuardedError> {
        let own = self.holder.key();
        let under = own.iter().rposition(|byte| *byte == b'/').map_or(own, |slash| &own[..=slash]);
        if !key.starts_with(under) {
            return Ok(());
        }
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let name = text(under.strip_suffix(b"/").unwrap_or(under));
        Err(GuardedError::OwnName { key: text(key), name })
    }

    async fn put(self, put: pb::PutRequest) -> Result<Revision, GuardedError> {
        self.check(&put.key)?;
        let done = guarded_put(&self.client, &self.holder, put).await?;
        revision(done.header)
    }

    async fn delete(self, delete: pb::DeleteRangeRequest) -> Result<bool, GuardedError> {
        let done = guarded_delete(&self.client, &self.holder, delete).await?;
        Ok(done.deleted > 0)
    }

    async fn txn(self, txn: GuardedTxn) -> Result<Option<Revision>, GuardedError> {
        for op in &txn.txn.success {
            if let Some(pb::request_op::Request::RequestPut(put)) = &op.request {
                self.check(&put.key)?;
            }
        }
        let done = guarded_txn(&self.client, &self.holder, txn.txn).await?;
        if done.succeeded { revision(done.header).map(Some) } else { Ok(None) }
    }
}

fn revision(header: Option<pb::ResponseHeader>) -> Result<Revision, GuardedError> {
    header.map(|header| Revision(header.revision)).ok_or(GuardedError::Strange("it has no header"))
}

/// The writes of a guard that has a `writer`.
macro_rules! guarded_writes {
    ($(#[$about:meta])* $guard:ty $(, $(#[$example:meta])*)?) => {
        $(#[$about])*
        impl $guard {
            /// Writes a key, and answers the revision of the write.
            $($(#[$example])*)?
            ///
            /// # Errors
            /// See [`GuardedError`].
            pub async fn put(
                &self,
                key: impl Into<Vec<u8>>,
                value: impl Into<Vec<u8>>,
            ) -> Result<Revision, GuardedError> {
                self.writer()?.put(put_of(key, value)).await
            }

            /// Deletes a key, and answers whether it existed.
            ///
            /// # Errors
            /// See [`GuardedError`].
            pub async fn delete(&self, key: impl Into<Vec<u8>>) -> Result<bool, GuardedError> {
                self.writer()?.delete(delete_of(key)).await
            }

            /// Does several writes at once, and answers their revision; nothing, if one of the transaction's own conditions did not
            /// hold.
            ///
            /// # Errors
            /// See [`GuardedError`].
            pub async fn txn(&self, txn: GuardedTxn) -> Result<Option<Revision>, GuardedError> {
                self.writer()?.txn(txn).await
            }
        }
    };
}

guarded_writes! {
    /// Writes in the engine's own store, each of which takes effect only while this is held: the store compares the token.
    /// For locks that one holder has alone; what is held together with others is refused on some engines.
    Held,
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/server.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> { with_server(async |endpoints| {
    /// # let engine = tenure::Engine::tenure(&endpoints)?;
    /// # let session = tenure::Session::open(&engine, std::time::Duration::from_secs(10)).await?;
    /// use tenure::Election;
    /// use tenure::fence::{GuardedError, GuardedTxn};
    ///
    /// let leadership = Election::new(&session, "jobs")?.candidate("me").campaign().await?;
    /// match leadership.put("job/next", "17").await {
    ///     Err(GuardedError::Deposed { .. }) => return Ok(()), // another process leads: stop
    ///     written => written?,
    /// };
    /// let take = GuardedTxn::new().when_value("job/next", "17").put("job/17", "begun").delete("job/next");
    /// assert!(leadership.txn(take).await?.is_some());
    /// # Ok(())
    /// # }) }
    /// ```
    ///
}

guarded_writes! {
    /// Writes in the engine's own store, each of which takes effect only while this tenure lasts: the store compares the token.
    Scope
}

impl Held {
    fn writer(&self) -> Result<Writer, GuardedError> {
        Ok(Writer { client: self.keys()?, holder: self.holder_key() })
    }
}

impl Scope {
    fn writer(&self) -> Result<Writer, GuardedError> {
        let over = GuardedError::Deposed { token: self.token(), in_force: None };
        self.leadership().as_ref().ok_or(over)?.writer()
    }
}

/// A client of an engine's keys.
pub(crate) fn keys_of(engine: &Engine) -> Result<Client, GuardedError> {
    engine.client().ok_or(GuardedError::NoKeys { engine: engine.name() })
}
