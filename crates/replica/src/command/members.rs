//! Changes of the cluster's members, and the raft leader's refusals of them.

use tenure_api::{Failure, MemberId};

use crate::codec::{Codec, DecodeError, Reader, put_bool, put_bytes, put_u64};

/// A change of the list of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// A new voter or learner.
    Add {
        /// Its id, chosen before proposing so that apply stays a pure function.
        id: MemberId,
        /// Where other members will reach it.
        peer_urls: Vec<String>,
        /// It follows the log without a vote.
        is_learner: bool,
    },
    /// A new member that follows the log, and gets a vote by itself when it has caught up. What becomes of a voter that
    /// is added to a single one: with a vote from the beginning it would be needed before it is there.
    Invite {
        /// Its id.
        id: MemberId,
        /// Where other members will reach it.
        peer_urls: Vec<String>,
    },
    /// A learner gets a vote.
    Promote(MemberId),
    /// A member is reached elsewhere.
    Update {
        /// Which one.
        id: MemberId,
        /// Where.
        peer_urls: Vec<String>,
    },
    /// A member is one no longer, for ever.
    Remove(MemberId),
}

impl MemberChange {
    /// The member it is about.
    pub fn member(&self) -> MemberId {
        match self {
            MemberChange::Add { id, .. }
            | MemberChange::Invite { id, .. }
            | MemberChange::Update { id, .. } => *id,
            MemberChange::Promote(id) | MemberChange::Remove(id) => *id,
        }
    }

    /// Whether raft must know: the set of members that follow the log, or of voters, changes. A new address
    /// does not concern it.
    pub fn concerns_raft(&self) -> bool {
        !matches!(self, MemberChange::Update { .. })
    }

    /// Tags 20 to 23 and 26 of the commands.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            MemberChange::Add { id, peer_urls, is_learner } => {
                out.push(20);
                put_u64(out, id.0);
                put_urls(out, peer_urls);
                put_bool(out, *is_learner);
            }
            MemberChange::Invite { id, peer_urls } => {
                out.push(26);
                put_u64(out, id.0);
                put_urls(out, peer_urls);
            }
            MemberChange::Promote(id) => {
                out.push(21);
                put_u64(out, id.0);
            }
            MemberChange::Update { id, peer_urls } => {
                out.push(22);
                put_u64(out, id.0);
                put_urls(out, peer_urls);
            }
            MemberChange::Remove(id) => {
                out.push(23);
                put_u64(out, id.0);
            }
        }
    }

    /// Reads what follows one of those tags.
    pub(super) fn decode(tag: u8, input: &mut Reader<'_>) -> Result<MemberChange, DecodeError> {
        let id = MemberId(input.u64()?);
        let urls = |input: &mut Reader<'_>| -> Result<Vec<String>, DecodeError> {
            (0..input.count()?).map(|_| input.text()).collect()
        };
        Ok(match tag {
            20 => MemberChange::Add { id, peer_urls: urls(input)?, is_learner: input.bool()? },
            21 => MemberChange::Promote(id),
            22 => MemberChange::Update { id, peer_urls: urls(input)? },
            23 => MemberChange::Remove(id),
            26 => MemberChange::Invite { id, peer_urls: urls(input)? },
            tag => return Err(DecodeError::UnknownTag { what: "change of members", tag }),
        })
    }
}

/// In a snapshot it stands as in a command.
impl Codec for MemberChange {
    fn encode(&self, out: &mut Vec<u8>) {
        MemberChange::encode(self, out);
    }

    fn decode(input: &mut Reader<'_>) -> Result<MemberChange, DecodeError> {
        let tag = input.u8()?;
        MemberChange::decode(tag, input)
    }
}

fn put_urls(out: &mut Vec<u8>, urls: &[String]) {
    put_u64(out, urls.len() as u64);
    for url in urls {
        put_bytes(out, url.as_bytes());
    }
}

macro_rules! refusals {
    ($($name:ident = $tag:literal),* $(,)?) => {
        /// Why the raft leader did not take a change up. Some reasons only it can know, such as which members
        /// are connected; so it logs its verdict in place of the change, and the member that waits for
        /// the outcome finds it there.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum ChangeRefusal { $($name = $tag),* }

        impl ChangeRefusal {
            /// Every reason, for tests.
            pub const ALL: &'static [ChangeRefusal] = &[$(ChangeRefusal::$name),*];

            /// What the client is told.
            pub fn failure(self) -> Failure {
                match self { $(ChangeRefusal::$name => Failure::$name),* }
            }

            /// The reason for a failure; none for those that are no verdict on a change.
            pub(crate) fn of(failure: Failure) -> Option<ChangeRefusal> {
                match failure { $(Failure::$name => Some(ChangeRefusal::$name),)* _ => None }
            }

            fn from_tag(tag: u8) -> Option<ChangeRefusal> {
                match tag { $($tag => Some(ChangeRefusal::$name),)* _ => None }
            }
        }
    };
}

refusals! {
    ChangeUnderWay = 1,
    NotEnoughStarted = 2,
    UnhealthyCluster = 3,
    LearnerNotReady = 4,
    MemberNotFound = 5,
    MemberExists = 6,
    PeerUrlExists = 7,
    NotLearner = 8,
    TooManyLearners = 9,
}

impl Codec for ChangeRefusal {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }

    fn decode(input: &mut Reader<'_>) -> Result<ChangeRefusal, DecodeError> {
        let tag = input.u8()?;
        ChangeRefusal::from_tag(tag).ok_or(DecodeError::UnknownTag { what: "refused change", tag })
    }
}
