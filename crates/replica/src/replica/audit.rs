//! The members compare what they hold.
//!
//! From time to time the raft leader puts an *audit* into the log. Every member takes a snapshot of its state as
//! it is at that entry, computes its checksum beside the loop and reports it to the raft leader. Equal
//! logs must give equal states; a member that differs has a broken disk, memory or build. It gets the CORRUPT
//! alarm, serves no client any more and gives the leadership away, while the others go on.

use std::collections::BTreeMap;

use tenure_api::{Alarm, AlarmKind, MemberId};

use super::Replica;
use crate::{Moment, command::Command, input::Notice, log::LogIndex, message::Message};

#[derive(Debug, Default)]
pub(super) struct Audit {
    /// When the last one was proposed here, and how far the log was then.
    proposed: Option<(Moment, LogIndex)>,
    /// The log index of the last one that was applied.
    index: Option<LogIndex>,
    /// What members found, and where. Followers that commit by themselves may be done before this member has come to
    /// that entry of the log, so these can be ahead of `index`.
    findings: BTreeMap<MemberId, (LogIndex, u64)>,
    /// A checksum is being reckoned here.
    under_way: bool,
}

impl Replica {
    /// The raft leader asks for an audit if anything has happened since the last one.
    pub(super) fn audit_if_due(&mut self, now: Moment) {
        let interval = self.config.audit_interval;
        if interval.is_zero() || !self.is_leader() || self.raft.voters().len() < 2 {
            self.audit.proposed = None;
            return;
        }
        if Command::Audit.since_version() > self.state.cluster_version {
            return;
        }
        let applied = self.applied.0;
        let Some((at, seen)) = self.audit.proposed else {
            self.audit.proposed = Some((now, 0));
            return;
        };
        // The audit itself is one entry more.
        if now.since(at) < interval || applied <= seen + 1 {
            return;
        }
        self.audit.proposed = Some((now, applied));
        let _ = self.propose_own(now, &Command::Audit);
    }

    /// The log says: compare what you hold here. A member that still reckons the last one stays out
    /// of this one.
    pub(super) fn begin_audit(&mut self, index: LogIndex) {
        self.judge_findings();
        self.audit.index = Some(index);
        self.audit.findings.retain(|_, (at, _)| *at >= index);
        if !self.audit.under_way {
            self.audit.under_way = true;
            self.effects.audit = Some((index, self.state.clone()));
        }
    }

    /// This member's own checksum is known.
    pub(super) fn audited(&mut self, index: LogIndex, digest: u64) {
        self.audit.under_way = false;
        match self.raft.leader() {
            Some(leader) if leader == self.config.me => {
                self.audit_finding(self.config.me, index, digest);
            }
            Some(leader) => {
                self.effects.messages.push((leader, Message::Audited(index, digest)));
            }
            None => {}
        }
    }

    /// The next one is another matter.
    pub(super) fn audit_failed(&mut self) {
        self.audit.under_way = false;
    }

    pub(super) fn audit_finding(&mut self, from: MemberId, index: LogIndex, digest: u64) {
        if self.audit.index.is_some_and(|current| index < current) {
            return;
        }
        self.audit.findings.insert(from, (index, digest));
        let found = |member| {
            self.audit.findings.get(member).is_some_and(|(at, _)| Some(*at) == self.audit.index)
        };
        if self.state.members.keys().all(found) {
            self.judge_findings();
        }
    }

    /// A member that differs from the majority of those that reported is wrong: members that are silent, or
    /// were never started, must not keep two that agree from outvoting a raft leader that is wrong.
    /// Without a majority it cannot be known which is; then those are named that differ from the raft leader,
    /// whose state has decided so far.
    fn judge_findings(&mut self) {
        let Some(index) = self.audit.index else { return };
        let here = self.audit.findings.extract_if(.., |_, (at, _)| *at == index);
        let findings: BTreeMap<MemberId, u64> =
            here.map(|(member, (_, digest))| (member, digest)).collect();
        if !self.is_leader() {
            return;
        }
        let Some(own) = findings.get(&self.config.me).copied() else { return };
        if findings.values().all(|digest| *digest == own) {
            return;
        }
        let holders = |digest: u64| findings.values().filter(|other| **other == digest).count();
        let majority =
            findings.values().copied().find(|digest| 2 * holders(*digest) > findings.len());
        let right = majority.unwrap_or(own);
        let members: Vec<MemberId> = findings
            .iter()
            .filter(|(_, digest)| **digest != right)
            .map(|(member, _)| *member)
            .collect();
        for member in &members {
            let alarm = Alarm { member: *member, kind: AlarmKind::Corrupt };
            let _ = self.propose_own(self.last_call, &Command::RaiseAlarm(alarm));
        }
        self.notice(Notice::Differs { index, members, outvoted: majority.is_some() });
    }
}
