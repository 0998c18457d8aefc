//! What all services share: headers and failures.

use tenure_api::{Code, Failure, wire::etcdserverpb::ResponseHeader};
use tenure_replica::{Answer, Reply};
use tonic::Status;

use crate::{
    admission::Admitted,
    node::{NodeHandle, Stamp},
};

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

/// Whether a request was refused for who asks.
pub(super) fn is_about_users(failure: Failure) -> bool {
    use Failure::{InvalidAuthToken, OldAuthRevision, PermissionDenied, UserEmpty};
    matches!(failure, InvalidAuthToken | OldAuthRevision | PermissionDenied | UserEmpty)
}

/// A failure of etcd's election and lock services. Its servers are clients of themselves there, and what such a client hears
/// about users loses its code.
pub(super) fn as_of_recipes(status: Status) -> Status {
    let is_meant = |failure: &&Failure| failure.text() == status.message();
    match Failure::ALL.iter().find(is_meant).is_some_and(|failure| is_about_users(*failure)) {
        true => Status::unknown(status.message()),
        false => status,
    }
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

    /// The header of an answer that is known here.
    pub(super) fn header_now(&self, _: &Admitted) -> ResponseHeader {
        let status = self.status();
        self.header(Stamp { revision: status.revision, term: status.durable_term })
    }
}
