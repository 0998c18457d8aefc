//! What all services share: headers, failures, and the metadata every request may carry.

use tenure_api::{Code, Failure, wire::etcdserverpb::ResponseHeader};
use tenure_replica::{Answer, Reply};
use tonic::{Status, metadata::MetadataMap};

use crate::node::{NodeHandle, Stamp};

/// A failure as gRPC carries it.
pub(crate) fn refuse(failure: Failure) -> Status {
    let code = match failure.code() {
        Code::Canceled => tonic::Code::Cancelled,
        Code::Unknown => tonic::Code::Unknown,
        Code::InvalidArgument => tonic::Code::InvalidArgument,
        Code::DeadlineExceeded => tonic::Code::DeadlineExceeded,
        Code::NotFound => tonic::Code::NotFound,
        Code::PermissionDenied => tonic::Code::PermissionDenied,
        Code::ResourceExhausted => tonic::Code::ResourceExhausted,
        Code::FailedPrecondition => tonic::Code::FailedPrecondition,
        Code::OutOfRange => tonic::Code::OutOfRange,
        Code::Unimplemented => tonic::Code::Unimplemented,
        Code::Internal => tonic::Code::Internal,
        Code::Unavailable => tonic::Code::Unavailable,
        Code::DataLoss => tonic::Code::DataLoss,
        Code::Unauthenticated => tonic::Code::Unauthenticated,
    };
    Status::new(code, failure.text())
}

/// The answer to a kind of request that never gets this kind of reply.
pub(super) fn unexpected(reply: &Reply) -> Status {
    Status::internal(format!("the node answered something else: {reply:?}"))
}

impl NodeHandle {
    pub(super) fn header(&self, stamp: Stamp) -> ResponseHeader {
        ResponseHeader {
            cluster_id: self.cluster.0,
            member_id: self.me.0,
            revision: stamp.revision.0,
            raft_term: stamp.term.0,
        }
    }

    /// Splits an answer into its header and its reply.
    pub(super) fn open(
        &self,
        answer: Result<Answer, Failure>,
    ) -> Result<(Option<ResponseHeader>, Reply), Status> {
        let answer = answer.map_err(refuse)?;
        let stamp = Stamp { revision: answer.revision, term: answer.term };
        let reply = answer.result.map_err(refuse)?;
        Ok((Some(self.header(stamp)), reply))
    }

    /// Whether this member serves a request at all: not if it is a learner, and not if the client
    /// demands what it has not.
    pub(super) fn admit(&self, metadata: &MetadataMap) -> Result<(), Status> {
        self.admit_to_learner(metadata)?;
        self.refuse_as_learner()
    }

    /// A learner may be far behind, and etcd's clients know it by this answer.
    pub(super) fn refuse_as_learner(&self) -> Result<(), Status> {
        if self.status().is_learner { Err(refuse(Failure::NotForLearner)) } else { Ok(()) }
    }

    /// Checks what etcd's clients may demand of any request: a known raft leader, a readable version.
    pub(super) fn admit_to_learner(&self, metadata: &MetadataMap) -> Result<(), Status> {
        if metadata.is_empty() {
            return Ok(());
        }
        let unreadable = |value: &tonic::metadata::MetadataValue<_>| value.to_str().is_err();
        if metadata.get("client-api-version").is_some_and(unreadable) {
            return Err(refuse(Failure::InvalidClientApiVersion));
        }
        if wants_leader(metadata) && self.status().leader.is_none() {
            return Err(refuse(Failure::NoLeader));
        }
        Ok(())
    }
}

/// Whether the client would rather have no answer than one from a member without a raft leader.
pub(super) fn wants_leader(metadata: &MetadataMap) -> bool {
    metadata.get("hasleader").is_some_and(|value| value == "true")
}
