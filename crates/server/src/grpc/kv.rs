//! Keys: Range, Put, DeleteRange, Txn, Compact.

use prost::Message;
use tenure_api::{
    Failure, Revision,
    wire::{convert, etcdserverpb as pb},
};
use tenure_replica::{
    Consistency, Operation, Outcome, Read, Reply, command::Command, mvcc::check_txn,
};
use tonic::{Response, Status};

use super::{
    RequestLimits,
    blocking::BlockingPool,
    reply::{refuse, unexpected},
    steps, stubs,
};
use crate::{
    admission::{Admitted, sized},
    node::NodeHandle,
};

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
    fn take<T: Message>(&self, request: tonic::Request<T>) -> Result<(Admitted, T), Status> {
        let (by, message) = self.node.admit(request)?;
        Ok((by, sized(message, self.limits.request_bytes_max)?))
    }

    async fn write(
        &self,
        by: &Admitted,
        command: Command,
    ) -> Result<(Option<pb::ResponseHeader>, Outcome), Status> {
        match self.node.open(self.node.ask(by, Operation::Write(command)).await)? {
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
        let (by, message) = self.node.admit_to_learner(request, |range| range.serializable)?;
        let message = sized(message, self.limits.request_bytes_max)?;
        let (range, serializable) = convert::range(message).map_err(refuse)?;
        let read = Operation::Read(Read::Range(range), consistency(serializable));
        let (header, reply) = self.node.open(self.node.ask(&by, read).await)?;
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
        let (by, message) = self.take(request)?;
        let put = convert::put(message).map_err(refuse)?;
        match self.write(&by, Command::Put(put)).await? {
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
        let (by, message) = self.take(request)?;
        let delete = convert::delete_range(message).map_err(refuse)?;
        match self.write(&by, Command::DeleteRange(delete)).await? {
            (header, Outcome::DeleteRange(done)) => {
                Ok(Response::new(pb::DeleteRangeResponse { header, ..done.into() }))
            }
            (_, other) => Err(unexpected(&Reply::Wrote(other))),
        }
    }

    async fn txn(&self, request: tonic::Request<pb::TxnRequest>) -> Answered<pb::TxnResponse> {
        let (by, message) = self.take(request)?;
        let serializable = reads_serializably(&message);
        let txn = convert::txn(message).map_err(refuse)?;
        check_txn(&txn, self.limits.txn_ops_max).map_err(refuse)?;
        let request = if txn.is_read_only() {
            Operation::Read(Read::Txn(txn), consistency(serializable))
        } else {
            Operation::Write(Command::Txn(txn))
        };
        let (header, reply) = self.node.open(self.node.ask(&by, request).await)?;
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
        let (by, message) = self.take(request)?;
        let revision = Revision(message.revision);
        let request = if message.physical {
            Operation::CompactPhysically(revision)
        } else {
            Operation::Write(Command::Compact(revision))
        };
        let (header, _) = self.node.open(self.node.ask(&by, request).await)?;
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
