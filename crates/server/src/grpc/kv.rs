//! Keys: Range, Put, DeleteRange, Txn, Compact.

use prost::Message;
use tenure_api::{
    Failure, Revision,
    wire::{convert, etcdserverpb as pb},
};
use tenure_replica::{
    Consistency, Outcome, Read, Reply, Request, command::Command, mvcc::check_txn,
};
use tonic::{Response, Status};

use super::{
    RequestLimits,
    blocking::BlockingPool,
    reply::{refuse, unexpected},
    steps, stubs,
};
use crate::node::NodeHandle;

pub(super) struct Kv {
    node: NodeHandle,
    limits: RequestLimits,
    large_reads: BlockingPool,
}

type Answered<T> = Result<Response<T>, Status>;

impl Kv {
    pub(super) fn new(node: NodeHandle, limits: RequestLimits) -> Kv {
        Kv { node, limits, large_reads: BlockingPool::reads() }
    }

    /// Takes a request's message if it may come in at all.
    fn take<T: Message>(&self, request: tonic::Request<T>) -> Result<T, Status> {
        self.node.refuse_as_learner()?;
        self.take_as_learner(request)
    }

    fn take_as_learner<T: Message>(&self, request: tonic::Request<T>) -> Result<T, Status> {
        self.node.admit_to_learner(request.metadata())?;
        let message = request.into_inner();
        if message.encoded_len() > self.limits.request_bytes_max {
            return Err(refuse(Failure::RequestTooLarge));
        }
        Ok(message)
    }

    async fn write(
        &self,
        command: Command,
    ) -> Result<(Option<pb::ResponseHeader>, Outcome), Status> {
        match self.node.open(self.node.ask(Request::Write(command)).await)? {
            (header, Reply::Wrote(outcome)) => Ok((header, outcome)),
            (_, other) => Err(unexpected(&other)),
        }
    }

    /// Reads much on another thread.
    async fn read_aside<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Status> {
        self.large_reads.run(read).await.and_then(|found| found).map_err(refuse)
    }
}

#[tonic::async_trait]
impl stubs::kv_server::Kv for Kv {
    async fn range(
        &self,
        request: tonic::Request<pb::RangeRequest>,
    ) -> Answered<pb::RangeResponse> {
        let message = self.take_as_learner(request)?;
        if !message.serializable {
            self.node.refuse_as_learner()?;
        }
        let (range, serializable) = convert::range(message).map_err(refuse)?;
        let read = Request::Read(Read::Range(range), consistency(serializable));
        let (header, reply) = self.node.open(self.node.ask(read).await)?;
        let mut response: pb::RangeResponse = match reply {
            Reply::Range(found) => found.into(),
            Reply::LargeRange(store, range) => {
                self.read_aside(move || store.range(&range).map(Into::into)).await?
            }
            other => return Err(unexpected(&other)),
        };
        response.header = header;
        Ok(Response::new(response))
    }

    async fn put(&self, request: tonic::Request<pb::PutRequest>) -> Answered<pb::PutResponse> {
        let put = convert::put(self.take(request)?).map_err(refuse)?;
        match self.write(Command::Put(put)).await? {
            (header, Outcome::Put(done)) => {
                Ok(Response::new(pb::PutResponse { header, ..done.into() }))
            }
            (_, other) => Err(unexpected(&Reply::Wrote(other))),
        }
    }

    async fn delete_range(
        &self,
        request: tonic::Request<pb::DeleteRangeRequest>,
    ) -> Answered<pb::DeleteRangeResponse> {
        let delete = convert::delete_range(self.take(request)?).map_err(refuse)?;
        match self.write(Command::DeleteRange(delete)).await? {
            (header, Outcome::DeleteRange(done)) => {
                Ok(Response::new(pb::DeleteRangeResponse { header, ..done.into() }))
            }
            (_, other) => Err(unexpected(&Reply::Wrote(other))),
        }
    }

    async fn txn(&self, request: tonic::Request<pb::TxnRequest>) -> Answered<pb::TxnResponse> {
        let message = self.take(request)?;
        let serializable = reads_serializably(&message);
        let txn = convert::txn(message).map_err(refuse)?;
        check_txn(&txn, self.limits.txn_ops_max).map_err(refuse)?;
        let request = if txn.is_read_only() {
            Request::Read(Read::Txn(txn), consistency(serializable))
        } else {
            Request::Write(Command::Txn(txn))
        };
        let (header, reply) = self.node.open(self.node.ask(request).await)?;
        let response: pb::TxnResponse = match reply {
            Reply::Wrote(Outcome::Txn(done)) | Reply::Txn(done) => done.into(),
            Reply::LargeTxn(store, txn) => {
                self.read_aside(move || store.read_txn(&txn).map(Into::into)).await?
            }
            other => return Err(unexpected(&other)),
        };
        let mut response = pb::TxnResponse { header, ..response };
        steps::date(&mut response);
        Ok(Response::new(response))
    }

    async fn compact(
        &self,
        request: tonic::Request<pb::CompactionRequest>,
    ) -> Answered<pb::CompactionResponse> {
        let message = self.take(request)?;
        let revision = Revision(message.revision);
        let request = if message.physical {
            Request::CompactPhysically(revision)
        } else {
            Request::Write(Command::Compact(revision))
        };
        let (header, _) = self.node.open(self.node.ask(request).await)?;
        Ok(Response::new(pb::CompactionResponse { header }))
    }
}

fn consistency(serializable: bool) -> Consistency {
    if serializable { Consistency::Serializable } else { Consistency::Linearizable }
}

/// A read-only txn is as fresh as the strictest of its ranges, as in etcd; compares count as ranges
/// that did not ask for anything.
fn reads_serializably(txn: &pb::TxnRequest) -> bool {
    let ranges = |ops: &[pb::RequestOp]| {
        ops.iter().all(|op| match &op.request {
            Some(pb::request_op::Request::RequestRange(range)) => range.serializable,
            _ => false,
        })
    };
    ranges(&txn.success)
        && ranges(&txn.failure)
        && !(txn.success.is_empty() && txn.failure.is_empty())
}
