//! A majority without faults must do everything, while the other members keep theirs.
//!
//! A run that heals all members at once hides what works only because of that: a member that counts as gone because
//! one of its connections broke, reads that starve though writes go on, a raft leader that a half-deaf member disturbs
//! for ever. So first only a *core* is healed: enough members for every majority that counts. Each of the others keeps
//! its faults, or gets one that lasts. Then writes, linearizable reads, locks and member changes must work in the core.
//! Listeners and watches are not checked here.

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use tenure_api::{Failure, LeaseId};
use tenure_replica::{
    Consistency, ElectionOutcome, Operation, Outcome, Read, Reply,
    command::{
        COMMAND_VERSION, Command, ELECTIONS_SINCE, ElectionCommand, JoinSpec, MemberChange,
        SessionEnding, SessionRequest,
    },
    election::Mode,
};

use crate::{
    cluster::{
        World,
        member::{MemberNumber, id, peer_url},
    },
    engine::{TraceEvent, ms},
    faults::{FOREVER, FaultHost},
    invariants::heals,
};

/// The first session that takes locks here, apart from those of clients.
const FIRST_SESSION: i64 = 7_000_000;

impl World {
    /// Heals a majority and requires progress there: writes, linearizable reads, locks, member changes.
    pub fn core_must_serve_within(&mut self, limit: Duration) {
        let core = self.pick_core();
        self.rough = false;
        self.heal_core(&core);
        self.counts.count("core_majority");
        let until = self.now() + limit;
        let must = |world: &mut World, what: &str, at: MemberNumber, ask: &mut TryRequest| {
            // A member that is removed meanwhile may still be needed for a majority, but serves no longer.
            while world.is_voter(at) && !ask(world, at) {
                let late = format!("{what} at m{at}, of the core {core:?}");
                heals::check(world.now() <= until, late, limit, &mut world.counts);
                world.run(ms(5));
            }
        };
        let voting: Vec<MemberNumber> =
            core.iter().copied().filter(|at| self.is_voter(*at)).collect();
        for at in &voting {
            must(self, "a write", *at, &mut |world, at| {
                world.probe(at, world.plain_put("core")).is_ok()
            });
            must(self, "a linearizable read", *at, &mut |world, at| {
                let read = Operation::Read(Read::Freshness, Consistency::Linearizable);
                world.probe(at, read).is_ok()
            });
            if self.truth.state().cluster_version >= ELECTIONS_SINCE {
                must(self, "a lock", *at, &mut World::locks);
            }
            must(self, "a read of the holder", *at, &mut |world, at| {
                let read =
                    Operation::Read(Read::Leader("core-lock".into()), Consistency::Linearizable);
                world.probe(at, read).is_ok()
            });
        }
        let others: Vec<MemberNumber> =
            self.numbers().into_iter().filter(|number| !core.contains(number)).collect();
        let gone = others.into_iter().find(|number| self.is_voter(*number));
        if let Some((gone, at)) = gone.zip(voting.first()) {
            must(self, "the removal of a member", *at, &mut |world, at| {
                world.is_done(at, MemberChange::Remove(id(gone)))
            });
            let learner = self.new_member();
            must(self, "a new learner", *at, &mut |world, at| {
                let (id, peer_urls) = (id(learner), vec![peer_url(learner)]);
                world.is_done(at, MemberChange::Add { id, peer_urls, is_learner: true })
            });
        }
    }

    /// A minimal set of voters that is a majority before and after a member change under way.
    fn pick_core(&mut self) -> BTreeSet<MemberNumber> {
        let mut votes: Vec<BTreeSet<MemberNumber>> = self
            .members
            .values()
            .filter_map(|member| member.process.as_ref())
            .map(|process| process.replica.mark())
            .flat_map(|mark| [mark.voters, mark.outgoing])
            .chain([self.truth.state().voters().collect()])
            .map(|voters| voters.into_iter().map(|voter| voter.0).collect())
            .collect();
        votes.retain(|voters| !voters.is_empty());
        let mut core: BTreeSet<MemberNumber> = self.numbers().into_iter().collect();
        let mut order: Vec<MemberNumber> = core.iter().copied().collect();
        self.fate.shuffle(&mut order);
        for number in order {
            core.remove(&number);
            let is_majority = |voters: &BTreeSet<MemberNumber>| {
                2 * voters.intersection(&core).count() > voters.len()
            };
            if !votes.iter().all(is_majority) {
                core.insert(number);
            }
        }
        core
    }

    fn heal_core(&mut self, core: &BTreeSet<MemberNumber>) {
        self.net.links.conditions = Default::default();
        self.snapshot_failures = 0;
        for number in self.numbers() {
            if core.contains(&number) {
                self.mend_member(number);
                core.iter().for_each(|other| self.net.links.mend_link(number, *other));
            } else {
                self.keep_bad(number, core);
            }
        }
        let text = format!("** a majority is well: {core:?}");
        self.trace.event(self.agenda.now(), || TraceEvent::new("heal", text));
    }

    /// Adds a lasting fault to a member outside of the core.
    fn keep_bad(&mut self, number: MemberNumber, core: &BTreeSet<MemberNumber>) {
        let links = |out: bool| {
            core.iter().map(move |other| if out { (number, *other) } else { (*other, number) })
        };
        match self.fate.below(6) {
            0 => {}
            1 => self.crash(number),
            2 => self.stall_disk(number, FOREVER),
            3 => self.pause(number, FOREVER),
            4 => self.cut(links(true).collect(), FOREVER),
            _ => self.cut(links(false).collect(), FOREVER),
        }
    }

    fn is_voter(&self, number: MemberNumber) -> bool {
        self.truth.state().voters().any(|voter| voter == id(number))
    }

    /// Takes a lock at a member and releases it.
    fn locks(&mut self, at: MemberNumber) -> bool {
        let session = LeaseId(FIRST_SESSION + self.clients.len() as i64);
        let election = |command| Operation::Write(Command::Election(command));
        let opened = self.probe(
            at,
            election(ElectionCommand::Open {
                secret: None,
                id: session,
                ttl_ms: 2000,
                identity: format!("core-{}", session.0),
                fast_release: false,
                by: 1,
            }),
        );
        let join =
            SessionRequest::Join(JoinSpec::one(Bytes::from_static(b"core-lock"), Mode::Exclusive));
        let joined = opened.is_ok()
            && matches!(
                self.probe(
                    at,
                    election(ElectionCommand::Request { session, number: 1, request: join })
                ),
                Ok(Reply::Wrote(Outcome::Election(Ok(ElectionOutcome::Candidacies(_)))))
            );
        let how = SessionEnding::Closed { stopped: true };
        joined
            && self
                .probe(at, election(ElectionCommand::End { id: session, how, secret: None }))
                .is_ok()
    }

    /// Changes the members. An earlier attempt may have done it.
    fn is_done(&mut self, at: MemberNumber, change: MemberChange) -> bool {
        let is_removal = matches!(change, MemberChange::Remove(_));
        match self.probe(at, Operation::Write(Command::Members(change))) {
            Ok(_) => true,
            Err(Failure::MemberNotFound) => is_removal,
            Err(Failure::MemberExists | Failure::TooManyLearners) => !is_removal,
            // The member that cannot do it has not been upgraded yet.
            Err(Failure::NotCapable) => self.truth.state().cluster_version < COMMAND_VERSION,
            Err(_) => false,
        }
    }
}

type TryRequest<'a> = dyn FnMut(&mut World, MemberNumber) -> bool + 'a;
