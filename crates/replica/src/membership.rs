//! The members of the cluster, and how they change: the replicated half.
//!
//! A change that concerns raft takes two entries. The first *begins* it: a member that is added or promoted
//! takes part at once, and from then on a majority of the voters before and a majority of those after
//! must agree to everything (joint consensus, Raft thesis §4.3). The second *finishes* it: a member that was
//! removed is off the list. In between no other change can begin.
//!
//! That order is on purpose: a member that is being removed still counts until the end, and a member
//! that is being added must be reachable by the others from the beginning.
//!
//! A removal takes a third entry. That the second is committed is known in memory only: members that
//! crash now come back without knowing it, and need a majority of the voters before, the removed one
//! among them. So that one is *departing* until an entry is committed that was proposed after the
//! second: a member that has it on its disk has the commit index there, too. Only then is the removed member told
//! to go, and the client that all is done.

use tenure_api::{Failure, Member, MemberId};

use crate::{
    codec::{Codec, DecodeError, Reader, put_bool, put_bytes, put_u64},
    command::MemberChange,
    state::State,
};

/// Learners that there may be at once, as in etcd.
const LEARNERS_MAX: usize = 1;

impl State {
    /// All members, in order of their ids.
    pub fn members(&self) -> Vec<Member> {
        self.members.values().cloned().collect()
    }

    /// Members that vote, in order of their ids; while one is being removed, that one too.
    pub fn voters(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.members.values().filter(|member| !member.is_learner).map(|member| member.id)
    }

    /// Whether a member has ever started: only then has it said what it can do.
    pub fn has_started(&self, member: MemberId) -> bool {
        self.command_versions.contains_key(&member)
    }

    /// Whether this change can be made to this list, whichever members are connected.
    pub fn check_change(&self, change: &MemberChange) -> Result<(), Failure> {
        if self.change.is_some() && change.concerns_raft() {
            return Err(Failure::ChangeUnderWay);
        }
        let known = self.members.get(&change.member());
        match change {
            MemberChange::Add { id, peer_urls, is_learner } => {
                if known.is_some() || self.removed.contains(id) {
                    return Err(Failure::MemberExists);
                }
                self.check_urls(*id, peer_urls)?;
                let is_learner_for_good =
                    |member: &&Member| member.is_learner && !self.invited.contains(&member.id);
                let learners = self.members.values().filter(is_learner_for_good).count();
                if *is_learner && learners >= LEARNERS_MAX {
                    return Err(Failure::TooManyLearners);
                }
            }
            MemberChange::Invite { id, peer_urls } => {
                if known.is_some() || self.removed.contains(id) {
                    return Err(Failure::MemberExists);
                }
                self.check_urls(*id, peer_urls)?;
                // One after the other: each has to be there before the next one can count on it.
                if !self.invited.is_empty() {
                    return Err(Failure::NotEnoughStarted);
                }
            }
            MemberChange::Promote(_) => {
                if !known.ok_or(Failure::MemberNotFound)?.is_learner {
                    return Err(Failure::NotLearner);
                }
            }
            MemberChange::Update { id, peer_urls } => {
                known.ok_or(Failure::MemberNotFound)?;
                self.check_urls(*id, peer_urls)?;
            }
            MemberChange::Remove(id) => {
                known.ok_or(Failure::MemberNotFound)?;
                if self.voters().all(|voter| voter == *id) {
                    return Err(Failure::NotEnoughStarted);
                }
            }
        }
        Ok(())
    }

    fn check_urls(&self, owner: MemberId, urls: &[String]) -> Result<(), Failure> {
        let mut others = self.members.values().filter(|member| member.id != owner);
        let taken = others.any(|member| member.peer_urls.iter().any(|url| urls.contains(url)));
        if taken { Err(Failure::PeerUrlExists) } else { Ok(()) }
    }

    /// The first half of a change that concerns raft.
    pub fn begin_change(&mut self, change: &MemberChange) -> Result<(), Failure> {
        self.check_change(change)?;
        match change {
            MemberChange::Add { id, peer_urls, is_learner } => {
                self.members.insert(*id, newcomer(*id, peer_urls, *is_learner));
            }
            MemberChange::Invite { id, peer_urls } => {
                self.members.insert(*id, newcomer(*id, peer_urls, true));
                self.invited.insert(*id);
            }
            MemberChange::Promote(id) => {
                self.invited.remove(id);
                if let Some(member) = self.members.get_mut(id) {
                    member.is_learner = false;
                }
            }
            MemberChange::Update { .. } | MemberChange::Remove(_) => {}
        }
        self.change = Some(change.clone());
        Ok(())
    }

    /// The second half; answers the change that is now done.
    pub fn finish_change(&mut self) -> Option<MemberChange> {
        let done = self.change.take()?;
        if let MemberChange::Remove(id) = &done {
            if let Some(member) = self.members.remove(id) {
                self.departing.insert(*id, member);
            }
            self.command_versions.remove(id);
            self.directories.remove(id);
            self.origins.remove(id);
            self.alarms = self.alarms.iter().filter(|alarm| alarm.member != *id).copied().collect();
            self.invited.remove(id);
            self.removed.insert(*id);
        }
        Some(done)
    }

    pub(crate) fn update_member(&mut self, id: MemberId, urls: &[String]) -> Result<(), Failure> {
        self.check_change(&MemberChange::Update { id, peer_urls: urls.to_vec() })?;
        if let Some(member) = self.members.get_mut(&id) {
            member.peer_urls = urls.to_vec();
        }
        Ok(())
    }
}

/// A member that has said nothing of itself yet.
fn newcomer(id: MemberId, peer_urls: &[String], is_learner: bool) -> Member {
    let (name, client_urls) = (String::new(), vec![]);
    Member { id, name, peer_urls: peer_urls.to_vec(), client_urls, is_learner }
}

impl Codec for Member {
    fn encode(&self, out: &mut Vec<u8>) {
        put_u64(out, self.id.0);
        put_bytes(out, self.name.as_bytes());
        for urls in [&self.peer_urls, &self.client_urls] {
            put_u64(out, urls.len() as u64);
            for url in urls {
                put_bytes(out, url.as_bytes());
            }
        }
        put_bool(out, self.is_learner);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Member, DecodeError> {
        let texts = |input: &mut Reader<'_>| -> Result<Vec<String>, DecodeError> {
            (0..input.count()?).map(|_| input.text()).collect()
        };
        Ok(Member {
            id: MemberId(input.u64()?),
            name: input.text()?,
            peer_urls: texts(input)?,
            client_urls: texts(input)?,
            is_learner: input.bool()?,
        })
    }
}
