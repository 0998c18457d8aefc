//! Members of the cluster.

use crate::wire::etcdserverpb as pb;
use crate::{Member, MemberId};

impl From<Member> for pb::Member {
    fn from(member: Member) -> Self {
        pb::Member {
            id: member.id.0,
            name: member.name,
            peer_ur_ls: member.peer_urls,
            client_ur_ls: member.client_urls,
            is_learner: member.is_learner,
        }
    }
}

impl From<pb::Member> for Member {
    fn from(member: pb::Member) -> Self {
        Member {
            id: MemberId(member.id),
            name: member.name,
            peer_urls: member.peer_ur_ls,
            client_urls: member.client_ur_ls,
            is_learner: member.is_learner,
        }
    }
}
