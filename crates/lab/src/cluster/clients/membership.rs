//! An operator that adds, promotes, updates and removes members.

use tenure_api::Failure;
use tenure_replica::{
    Answer, Operation, Outcome, Reply,
    command::{Command, MemberChange},
};

use super::SimClient;
use crate::{
    cluster::{
        World,
        event::WorldEvent,
        member::{MemberNumber, id, peer_url},
    },
    engine::ms,
    invariants::one_answer::OpenRequest,
};

/// The sizes between which the cluster is kept, so that there is always a member to ask.
const MEMBERS_MIN: usize = 1;
const MEMBERS_MAX: usize = 6;

#[derive(Default)]
pub struct MembershipClient {
    updates: u64,
}

impl MembershipClient {
    fn next_change(&mut self, world: &mut World) -> Option<MemberChange> {
        let members = world.truth.state().members();
        let all: Vec<MemberNumber> = members.iter().map(|member| member.id.0).collect();
        let learners: Vec<MemberNumber> =
            members.iter().filter(|member| member.is_learner).map(|member| member.id.0).collect();
        let one = world.dice.pick(&all).copied()?;
        match world.dice.below(100) {
            0..45 if all.len() < MEMBERS_MAX => {
                let new = world.new_member();
                let is_learner = world.dice.chance(400);
                Some(MemberChange::Add { id: id(new), peer_urls: vec![peer_url(new)], is_learner })
            }
            45..65 => {
                let learner = world.dice.pick(&learners).copied().unwrap_or(one);
                Some(MemberChange::Promote(id(learner)))
            }
            65..95 if all.len() > MEMBERS_MIN => Some(MemberChange::Remove(id(one))),
            _ => {
                self.updates += 1;
                let url = format!("http://m{one}:{}", 3000 + self.updates);
                Some(MemberChange::Update { id: id(one), peer_urls: vec![url] })
            }
        }
    }
}

impl SimClient for MembershipClient {
    fn turn(&mut self, me: usize, world: &mut World) {
        if !world.rough {
            return;
        }
        let asked = self.next_change(world).and_then(|change| {
            let member = world.some_member()?;
            world.send_request(me, member, Operation::Write(Command::Members(change)))
        });
        if asked.is_none() {
            world.agenda.after(ms(100), WorldEvent::ClientTurn(me));
        }
    }

    fn answered(&mut self, me: usize, world: &mut World, open: &OpenRequest, answer: &Answer) {
        let Operation::Write(Command::Members(change)) = &open.request else {
            unreachable!("it sends no other requests");
        };
        match &answer.result {
            Ok(Reply::Wrote(Outcome::Members(members))) => {
                let there = members.iter().any(|member| member.id == change.member());
                let gone = matches!(change, MemberChange::Remove(_));
                assert_eq!(there, !gone, "{change:?} was answered with {members:?}");
                world.counts.count(match change {
                    MemberChange::Add { is_learner: true, .. } => "learner_added",
                    MemberChange::Add { .. } | MemberChange::Invite { .. } => "voter_added",
                    MemberChange::Promote(_) => "promoted",
                    MemberChange::Update { .. } => "updated",
                    MemberChange::Remove(_) => "removed",
                });
            }
            Ok(other) => panic!("{change:?} was answered with {other:?}"),
            Err(Failure::ChangeUnderWay) => world.counts.count("change_under_way"),
            Err(_) => world.counts.count("change_refused"),
        }
        let pause = world.dice.duration(ms(1), ms(500));
        world.agenda.after(pause, WorldEvent::ClientTurn(me));
    }

    fn lost(&mut self, me: usize, world: &mut World, _open: &OpenRequest) {
        world.agenda.after(ms(100), WorldEvent::ClientTurn(me));
    }
}
