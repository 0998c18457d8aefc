//! Operators: one changes the members, one moves the raft leadership, one rules over an election. All at random.

use bytes::Bytes;
use tenure_api::Failure;
use tenure_replica::{
    Answer, Operation, Outcome, Reply,
    command::{AdminCommand, Command, ElectionCommand, MemberChange, Successor},
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

/// Adds, promotes, updates and removes members.
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

/// Moves the raft leadership between members.
pub struct MoveLeaderClient;

impl SimClient for MoveLeaderClient {
    fn turn(&mut self, me: usize, world: &mut World) {
        if world.resting {
            return;
        }
        let target = world.some_member();
        let asked = world
            .leader()
            .zip(target)
            .and_then(|(leader, to)| world.send_request(me, leader, Operation::MoveLeader(id(to))));
        if asked.is_none() {
            world.agenda.after(ms(100), WorldEvent::ClientTurn(me));
        }
    }

    fn answered(&mut self, me: usize, world: &mut World, _open: &OpenRequest, answer: &Answer) {
        match answer.result {
            Ok(_) => world.counts.count("leader_moved"),
            Err(
                // The target may be a learner, or leaving; and another move may be under way.
                Failure::NotLeader
                | Failure::TimedOutLeaderTransfer
                | Failure::TooManyRequests
                | Failure::BadLeaderTransferee,
            ) => {}
            Err(failure) => panic!("the leader was not moved: {failure}"),
        }
        let pause = world.dice.duration(ms(20), ms(400));
        world.agenda.after(pause, WorldEvent::ClientTurn(me));
    }

    fn lost(&mut self, me: usize, world: &mut World, _open: &OpenRequest) {
        world.agenda.after(ms(100), WorldEvent::ClientTurn(me));
    }
}

/// Evicts, transfers, freezes and resumes.
pub struct AdminClient {
    pub name: &'static str,
}

impl SimClient for AdminClient {
    fn turn(&mut self, me: usize, world: &mut World) {
        if world.resting {
            return;
        }
        let name = Bytes::from_static(self.name.as_bytes());
        // Before the end it resumes, so that every candidate may lead again.
        let rule = match world.dice.below(100) {
            _ if !world.rough => AdminCommand::Resume(name),
            0..30 => AdminCommand::Evict { name, token: None },
            30..70 => {
                let to = Successor::Identity(format!("c{}", world.dice.below(20)));
                let within_ms = world.dice.between(20, 600);
                AdminCommand::Transfer { name, to, within_ms }
            }
            70..78 => AdminCommand::Freeze(name),
            _ => AdminCommand::Resume(name),
        };
        let request = Operation::Write(Command::Election(ElectionCommand::Admin(rule)));
        let member = world.some_member();
        if member.and_then(|member| world.send_request(me, member, request)).is_none() {
            world.agenda.after(ms(50), WorldEvent::ClientTurn(me));
        }
    }

    fn answered(&mut self, me: usize, world: &mut World, _open: &OpenRequest, answer: &Answer) {
        world.counts.count(if answer.result.is_ok() { "ruled" } else { "not_ruled" });
        let pause = world.dice.duration(ms(50), ms(600));
        world.agenda.after(pause, WorldEvent::ClientTurn(me));
    }

    fn lost(&mut self, me: usize, world: &mut World, _open: &OpenRequest) {
        world.agenda.after(ms(100), WorldEvent::ClientTurn(me));
    }
}
