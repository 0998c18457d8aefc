//! What is told about a lease.

use crate::wire::etcdserverpb as pb;
use crate::{GrantedLease, LeaseId, LeaseStatus};

impl From<GrantedLease> for pb::LeaseGrantResponse {
    fn from(lease: GrantedLease) -> Self {
        pb::LeaseGrantResponse { id: lease.id.0, ttl: lease.ttl_secs, ..Default::default() }
    }
}

impl From<&pb::LeaseGrantResponse> for GrantedLease {
    fn from(response: &pb::LeaseGrantResponse) -> Self {
        GrantedLease { id: LeaseId(response.id), ttl_secs: response.ttl }
    }
}

impl From<GrantedLease> for pb::LeaseKeepAliveResponse {
    fn from(lease: GrantedLease) -> Self {
        pb::LeaseKeepAliveResponse { id: lease.id.0, ttl: lease.ttl_secs, ..Default::default() }
    }
}

impl From<LeaseStatus> for pb::LeaseTimeToLiveResponse {
    fn from(lease: LeaseStatus) -> Self {
        pb::LeaseTimeToLiveResponse {
            header: None,
            id: lease.id.0,
            ttl: lease.remaining_secs,
            granted_ttl: lease.granted_secs,
            keys: lease.keys,
        }
    }
}

impl From<pb::LeaseTimeToLiveResponse> for LeaseStatus {
    fn from(response: pb::LeaseTimeToLiveResponse) -> Self {
        LeaseStatus {
            id: LeaseId(response.id),
            remaining_secs: response.ttl,
            granted_secs: response.granted_ttl,
            keys: response.keys,
        }
    }
}

impl From<LeaseId> for pb::LeaseStatus {
    fn from(id: LeaseId) -> Self {
        pb::LeaseStatus { id: id.0 }
    }
}
