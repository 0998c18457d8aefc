//! An operator who adds, promotes, moves and removes members while the cluster is at work.

use tenure_api::Failure;
use tenure_replica::{
    Answer, Outcome, Reply, Request,
    command::{Command, MemberChange},
};

use super::Client;
use crate::{
    cluster::{
        World,
        happening::Happening,
        member::{Number, id},
        world::peer_url,
    },
    engine::ms,
    invariants::one_answer::Open,
};

/// The cluster is kept between these sizes, so that there is always somebody to talk to.
const MEMBERS_MIN: usize = 2;
const MEMBERS_MAX: usize = 6;

#[derive(Default)]
pub struct Operator {
    updates: u64,
}

impl Operator {
    fn next_change(&mut self, world: &mut World) -> Option<MemberChange> {
        let members = world.truth.state().roll();
        let all: Vec<Number> = members.iter().map(|member| member.id.0).collect();
        let learners: Vec<Number> =
            members.iter().filter(|member| member.is_learner).map(|member| member.id.0).collect();
        let one = world.dice.pick(&all).copied()?;
        match world.dice.below(100) {
            0..45 if all.len() < MEMBERS_MAX => {
                let new = world.candidate();
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

impl Client for Operator {
    fn turn(&mut self, me: usize, world: &mut World) {
        if !world.rough {
            return;
        }
        let asked = self.next_change(world).and_then(|change| {
            let member = world.some_member()?;
            world.ask(me, member, Request::Write(Command::Members(change)))
        });
        if asked.is_none() {
            world.agenda.after(ms(100), Happening::Client(me));
        }
    }

    fn answered(&mut self, me: usize, world: &mut World, open: &Open, answer: &Answer) {
        let Request::Write(Command::Members(change)) = &open.request else {
            unreachable!("an operator asks for nothing else");
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
        world.agenda.after(pause, Happening::Client(me));
    }

    fn lost(&mut self, me: usize, world: &mut World, _open: &Open) {
        world.agenda.after(ms(100), Happening::Client(me));
    }
}
