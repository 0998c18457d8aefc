//! What the replica notices, as lines of the log.

use tenure_replica::{Notice, command::MemberChange};
use tracing::{error, info, warn};

pub(super) fn log(notice: &Notice) {
    match notice {
        Notice::Leader { leader: Some(leader), term } => info!(%term, %leader, "following"),
        Notice::Leader { leader: None, term } => info!(%term, "no raft leader"),
        Notice::LeaderLost(member) => {
            info!(%member, "the raft leader's connection broke, campaigning");
        }
        Notice::DiskStalled => warn!("the disk stands still, handing over"),
        Notice::LeasesExpired(count) => info!(count, "leases expired"),
        Notice::Paused(pause) => warn!(?pause, "this process did not run; leases are prolonged"),
        Notice::SnapshotInstalled(index) => info!(index, "installed a snapshot"),
        Notice::ClusterVersion(version) => info!(version, "cluster version"),
        Notice::SpaceLow { used, quota } => {
            warn!(
                used,
                quota, "the store fills up: compact, delete, or raise --quota-backend-bytes"
            );
        }
        Notice::AlarmRaised(alarm) => {
            error!(member = %alarm.member, kind = ?alarm.kind, "alarm raised")
        }
        Notice::AlarmLowered(alarm) => {
            info!(member = %alarm.member, kind = ?alarm.kind, "alarm lowered");
        }
        Notice::Differs { index, members, outvoted } => {
            let members: Vec<String> = members.iter().map(ToString::to_string).collect();
            let members = members.join(" ");
            if *outvoted {
                error!(index, members, "these members hold something else than the majority");
            } else {
                error!(
                    index,
                    members,
                    "these members hold something else than the raft leader, and \
                    no majority says who is right"
                );
            }
        }
        Notice::ChangeBegun(change) => info!(member = %change.member(), "{}", begun(change)),
        Notice::ChangeDone(change) => info!(member = %change.member(), "{}", done(change)),
        Notice::CatchingUp { applied, goal } => {
            info!(applied, of = goal, "catching up: applied {applied} of {goal}");
        }
        Notice::CaughtUp(applied) => info!(applied, "caught up with the raft leader"),
    }
}

fn begun(change: &MemberChange) -> &'static str {
    match change {
        MemberChange::Add { .. } => "adding a member",
        MemberChange::Invite { .. } => "adding a member, which votes when it has caught up",
        MemberChange::Promote(_) => "promoting a learner",
        MemberChange::Update { .. } => "moving a member",
        MemberChange::Remove(_) => "removing a member",
    }
}

fn done(change: &MemberChange) -> &'static str {
    match change {
        MemberChange::Add { is_learner: true, .. } => "a learner was added",
        MemberChange::Add { .. } => "a member was added",
        MemberChange::Invite { .. } => "a member was added, and votes when it has caught up",
        MemberChange::Promote(_) => "a learner was promoted",
        MemberChange::Update { .. } => "a member was moved",
        MemberChange::Remove(_) => "a member was removed",
    }
}
