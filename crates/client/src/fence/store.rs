//! Guarded writes: where what is protected is a key in the store, the store checks the token.
//!
//! A holder's key exists, with the create revision that is its token, for exactly as long as the store
//! counts it as the holder. So a transaction that first compares that revision is refused from the very
//! revision on at which the hold ended, however late it arrives, and needs no memory of its own.

use tenure_api::LeaseId;
use tenure_api::wire::etcdserverpb as pb;

use super::FencingToken;
use crate::ElectionName;
use crate::grpc::{Client, ClientError};

/// The key that a hold stands on, and its token.
///
/// ```
/// use tenure::api::wire::etcdserverpb::TxnRequest;
/// use tenure::fence::{FencingToken, HolderKey};
///
/// let token = FencingToken::from_revision(7).unwrap();
/// let holder = HolderKey::new("scheduler/694d71ddacfda227", token);
/// let guarded = holder.guard(TxnRequest::default());
/// assert_eq!(guarded.compare.len(), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderKey {
    key: Vec<u8>,
    token: FencingToken,
}

impl HolderKey {
    /// A holder's key, as elections and locks answer it, with the revision it was created at.
    pub fn new(key: impl Into<Vec<u8>>, token: FencingToken) -> HolderKey {
        HolderKey { key: key.into(), token }
    }

    /// The key of a session that leads, or holds a [`Lock`](crate::Lock) or the write side of a
    /// [`RwLock`](crate::RwLock), of this name; as etcd lays it out, on every engine. Holders that hold together with
    /// others have other keys on some engines, and what they guard with this one is refused there.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/server.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> { with_server(async |endpoints| {
    /// use std::time::Duration;
    /// use tenure::fence::HolderKey;
    /// use tenure::{Election, Engine, Session};
    ///
    /// let session = Session::open(&Engine::tenure(&endpoints)?, Duration::from_secs(10)).await?;
    /// let election = Election::new(&session, "scheduler")?;
    /// let leadership = election.candidate("10.0.0.7").campaign().await?;
    /// let holder = HolderKey::exclusive(session.id(), leadership.name(), leadership.token());
    /// assert_eq!(holder, leadership.holder_key());
    /// # Ok(())
    /// # }) }
    /// ```
    pub fn exclusive(session: LeaseId, name: &ElectionName, token: FencingToken) -> HolderKey {
        HolderKey::new(format!("{name}/{session}"), token)
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The token.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// A transaction that does the given one if the hold lasts. If it does not, it changes nothing and
    /// reads which key is first in the same election now.
    ///
    /// The given transaction is nested, not mixed in: its own comparisons may fail without being taken for a lost hold.
    pub fn guard(&self, txn: pb::TxnRequest) -> pb::TxnRequest {
        use pb::request_op::Request;
        let op = |request| pb::RequestOp { request: Some(request) };
        pb::TxnRequest {
            compare: vec![self.lasts()],
            success: vec![op(Request::RequestTxn(txn))],
            failure: vec![op(Request::RequestRange(self.first_in_line()))],
        }
    }

    fn lasts(&self) -> pb::Compare {
        use pb::compare::{CompareResult, CompareTarget, TargetUnion};
        pb::Compare {
            key: self.key.clone().into(),
            target: CompareTarget::Create as i32,
            result: CompareResult::Equal as i32,
            target_union: Some(TargetUnion::CreateRevision(self.token.get())),
            ..Default::default()
        }
    }

    /// The oldest key under `<name>/`, where this key is `<name>/<lease>`.
    fn first_in_line(&self) -> pb::RangeRequest {
        use pb::range_request::{SortOrder, SortTarget};
        let name = self.key.iter().rposition(|byte| *byte == b'/').map(|slash| &self.key[..slash]);
        let (from, to) = match name {
            Some(name) => ([name, b"/"].concat(), [name, b"0"].concat()),
            None => (self.key.clone(), Vec::new()),
        };
        pb::RangeRequest {
            key: from.into(),
            range_end: to.into(),
            limit: 1,
            sort_order: SortOrder::Ascend as i32,
            sort_target: SortTarget::Create as i32,
            keys_only: true,
            ..Default::default()
        }
    }
}

/// Why a guarded write was not done, or is not known to be.
#[derive(Debug, thiserror::Error)]
pub enum GuardedError {
    /// The hold had ended when the write arrived. Nothing was changed, and nothing will be: stop.
    #[error("token {token} is no longer in force{}", now(*.in_force))]
    Deposed {
        /// The token of the hold that ended.
        token: FencingToken,
        /// The oldest hold in the same election at that moment, if there was one.
        in_force: Option<FencingToken>,
    },
    /// There is no answer. [`ClientError::outcome_unknown`] says whether the write may have happened.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The key lies under the name of the election or lock itself, where every key counts as a candidate. Nothing was
    /// written: it would have been elected next, for ever.
    #[error("{key} lies under {name}/, where each key is a candidate: write it elsewhere")]
    OwnName {
        /// The key.
        key: String,
        /// The name.
        name: String,
    },
    /// The engine has elections and no keys.
    #[error("{engine} keeps no keys to write")]
    NoKeys {
        /// Its name.
        engine: &'static str,
    },
    /// The server answered what no server of the etcd v3 API answers to this transaction.
    #[error("the server's answer does not fit the transaction: {0}")]
    Strange(&'static str),
}

fn now(in_force: Option<FencingToken>) -> String {
    match in_force {
        Some(token) => format!(": token {token} is"),
        None => ": no token is".to_owned(),
    }
}

/// Does a transaction if the hold lasts.
///
/// Whether the transaction's own comparisons held is in its answer, as ever.
///
/// # Errors
/// See [`GuardedError`].
pub async fn guarded_txn(
    client: &Client,
    holder: &HolderKey,
    txn: pb::TxnRequest,
) -> Result<pb::TxnResponse, GuardedError> {
    use pb::response_op::Response;
    let answer = client.kv().txn(holder.guard(txn)).await?;
    let first = answer.responses.into_iter().next().and_then(|op| op.response);
    match (answer.succeeded, first) {
        (true, Some(Response::ResponseTxn(done))) => {
            Ok(pb::TxnResponse { header: answer.header, ..done })
        }
        (false, Some(Response::ResponseRange(found))) => Err(GuardedError::Deposed {
            token: holder.token,
            in_force: found
                .kvs
                .first()
                .and_then(|kv| FencingToken::from_revision(kv.create_revision)),
        }),
        _ => Err(GuardedError::Strange("neither the nested answer nor the range is there")),
    }
}

/// Writes a key if the hold lasts.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/server.rs"));
/// # fn main() -> Result<(), Box<dyn std::error::Error>> { with_server(async |endpoints| {
/// # let engine = tenure::Engine::tenure(&endpoints)?;
/// # let session = tenure::Session::open(&engine, std::time::Duration::from_secs(10)).await?;
/// # let leadership = tenure::Election::new(&session, "jobs")?.candidate("me").campaign().await?;
/// # let holder = leadership.holder_key();
/// # let client = tenure::grpc::Client::new(tenure::grpc::Endpoint::list(&endpoints)?, Default::default());
/// use tenure::api::wire::etcdserverpb::PutRequest;
/// use tenure::fence::{GuardedError, guarded_put};
///
/// let put = PutRequest { key: "job/next".into(), value: "17".into(), ..Default::default() };
/// match guarded_put(&client, &holder, put).await {
///     Err(GuardedError::Deposed { .. }) => return Ok(()), // another process leads: stop
///     done => done?,
/// };
/// # Ok(())
/// # }) }
/// ```
///
/// # Errors
/// See [`GuardedError`].
pub async fn guarded_put(
    client: &Client,
    holder: &HolderKey,
    put: pb::PutRequest,
) -> Result<pb::PutResponse, GuardedError> {
    use pb::response_op::Response;
    match guarded_op(client, holder, pb::request_op::Request::RequestPut(put)).await? {
        (header, Some(Response::ResponsePut(done))) => Ok(pb::PutResponse { header, ..done }),
        _ => Err(GuardedError::Strange("a put was not answered as one")),
    }
}

/// Deletes keys if the hold lasts.
///
/// # Errors
/// See [`GuardedError`].
pub async fn guarded_delete(
    client: &Client,
    holder: &HolderKey,
    delete: pb::DeleteRangeRequest,
) -> Result<pb::DeleteRangeResponse, GuardedError> {
    use pb::response_op::Response;
    match guarded_op(client, holder, pb::request_op::Request::RequestDeleteRange(delete)).await? {
        (header, Some(Response::ResponseDeleteRange(done))) => {
            Ok(pb::DeleteRangeResponse { header, ..done })
        }
        _ => Err(GuardedError::Strange("a deletion was not answered as one")),
    }
}

type Answered = (Option<pb::ResponseHeader>, Option<pb::response_op::Response>);

async fn guarded_op(
    client: &Client,
    holder: &HolderKey,
    request: pb::request_op::Request,
) -> Result<Answered, GuardedError> {
    let success = vec![pb::RequestOp { request: Some(request) }];
    let txn = pb::TxnRequest { success, ..Default::default() };
    let done = guarded_txn(client, holder, txn).await?;
    Ok((done.header, done.responses.into_iter().next().and_then(|op| op.response)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(key: &str) -> HolderKey {
        HolderKey::new(key, FencingToken::from_revision(7).unwrap())
    }

    #[test]
    fn guard_reads_everything_under_the_name() {
        let range = holder("a/b/1f").first_in_line();
        assert_eq!((&range.key[..], &range.range_end[..]), (&b"a/b/"[..], &b"a/b0"[..]));
        let range = holder("alone").first_in_line();
        assert_eq!((&range.key[..], &range.range_end[..]), (&b"alone"[..], &b""[..]));
    }

    #[test]
    fn guard_leaves_the_given_transaction_whole() {
        let own = pb::TxnRequest { compare: vec![holder("x").lasts()], ..Default::default() };
        let guarded = holder("a/1f").guard(own.clone());
        assert_eq!(guarded.compare, [holder("a/1f").lasts()]);
        let nested = guarded.success[0].request.clone();
        assert_eq!(nested, Some(pb::request_op::Request::RequestTxn(own)));
    }

    #[test]
    fn guard_says_which_token_holds_now() {
        let token = FencingToken::from_revision;
        let deposed = |in_force| GuardedError::Deposed { token: token(7).unwrap(), in_force };
        let said = deposed(token(9)).to_string();
        assert_eq!(said, "token 7 is no longer in force: token 9 is");
        assert_eq!(deposed(None).to_string(), "token 7 is no longer in force: no token is");
    }
}
