//! What can happen to elections, and a world it happens in.

use std::sync::Arc;

use bytes::Bytes;
use tenure_api::{
    Compare, CompareResult, CompareTarget, DeleteRange, LeaseId, Member, MemberId, Op, Principal,
    Put, Revision, Span, Term, Txn, op::PutLease,
};
use tenure_replica::{
    EntryContext, Outcome, State,
    command::{
        AdminCommand, Command, ElectionCommand, Expiry, JoinSpec, Overdue, SessionEnding,
        SessionRequest, Successor,
    },
    election::{Candidate, ElectionEvent, Mode, key_of},
    new_cluster::first_revision,
    state::ApplyEffects,
};

/// One action. Sessions and stock clients are known by small numbers, which are
/// those of their leases.
#[derive(Clone, Copy, Debug)]
#[allow(
    dead_code,
    reason = "the search and the stories each have deeds that the other does not do"
)]
pub(crate) enum Deed {
    Open(i64),
    Attach(i64),
    Expire(i64),
    Revoke(i64),
    Close(i64),
    BreakConnection(i64),
    BreakOlderConnection(i64),
    ConfirmStop(i64),
    Join {
        who: i64,
        name: &'static str,
        priority: u32,
        preempts: bool,
    },
    JoinAfterStop {
        who: i64,
        name: &'static str,
    },
    JoinShared {
        who: i64,
        name: &'static str,
    },
    JoinPermit {
        who: i64,
        name: &'static str,
        permits: u32,
    },
    JoinAs {
        who: i64,
        name: &'static str,
        manner: Manner,
    },
    JoinBoth(i64),
    Leave {
        who: i64,
        name: &'static str,
    },
    /// Leaves, and its work goes on for some time.
    Drop {
        who: i64,
        name: &'static str,
    },
    /// A session's key is deleted by hand.
    Strike {
        who: i64,
        name: &'static str,
    },
    StockJoin {
        who: i64,
        name: &'static str,
    },
    StockLeave {
        who: i64,
        name: &'static str,
    },
    /// Data without a lease that happens to lie under the name.
    Data(&'static str),
    NoData(&'static str),
    Health {
        who: i64,
        name: &'static str,
        unhealthy: bool,
    },
    Transfer {
        to: i64,
        name: &'static str,
    },
    Yield {
        name: &'static str,
        stay: bool,
    },
    DrainOver(&'static str),
    DelayOver,
    Evict(&'static str),
    Freeze(&'static str),
    Resume(&'static str),
    Restore,
}

/// How a session is a candidate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    pub(crate) mode: Mode,
    pub(crate) priority: u32,
    pub(crate) preempts: bool,
    pub(crate) no_overlap: bool,
    pub(crate) try_only: bool,
    pub(crate) unhealthy: bool,
}

impl Default for Manner {
    fn default() -> Manner {
        Manner {
            mode: Mode::Exclusive,
            priority: 0,
            preempts: false,
            no_overlap: false,
            try_only: false,
            unhealthy: false,
        }
    }
}

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) state: State,
    /// What the last deed brought about.
    pub(crate) events: Vec<ElectionEvent>,
    /// The deeds so far.
    pub(crate) path: Vec<Deed>,
    /// What was true before the last deed.
    pub(crate) before: Option<State>,
    index: u64,
    request: u64,
}

pub(crate) const NAMES: [&str; 2] = ["x", "y"];
/// Stock clients: they have only a lease.
pub(crate) const STOCK: [i64; 1] = [4];

impl World {
    /// All have a session or a lease, and there are no candidates.
    pub(crate) fn new() -> World {
        let mut world = World {
            state: State::new([member()]),
            events: vec![],
            path: vec![],
            before: None,
            index: 0,
            request: 0,
        };
        world.command(Command::ClusterVersion(3));
        for who in 1..=4 {
            world.does(&Deed::Open(who));
        }
        world.path.clear();
        world
    }

    /// Does it; false if it made no difference.
    pub(crate) fn does(&mut self, deed: &Deed) -> bool {
        let before = self.shape();
        self.before = Some(self.state.clone());
        self.events.clear();
        self.path.push(*deed);
        let plain = Manner::default();
        let stock = |who: &i64| STOCK.contains(who) || self.is_stock(*who);
        match deed {
            Deed::Open(who) if self.state.leases.contains(LeaseId(*who)) => return false,
            Deed::Open(who) if STOCK.contains(who) => {
                self.command(Command::LeaseGrant { id: LeaseId(*who), ttl_secs: 5 });
            }
            Deed::Open(who) => self.election(ElectionCommand::Open {
                id: LeaseId(*who),
                ttl_ms: 5000,
                identity: format!("s{who}"),
                fast_release: true,
                by: 0,
                secret: None,
            }),
            Deed::Attach(who) => {
                self.election(ElectionCommand::Attach { id: LeaseId(*who), by: 0, secret: None })
            }
            Deed::Expire(who) => {
                let Some(lease) = self.state.leases.get(LeaseId(*who)) else { return false };
                let expiry = Expiry { id: LeaseId(*who), renewed_at: lease.renewed_at };
                self.command(Command::LeaseExpire(Term(1), vec![expiry]));
            }
            Deed::Revoke(who) => self.command(Command::LeaseRevoke(LeaseId(*who))),
            Deed::Close(who) => {
                let how = SessionEnding::Closed { stopped: true };
                self.election(ElectionCommand::End { id: LeaseId(*who), how, secret: None });
            }
            Deed::BreakConnection(who) => {
                let session = self.state.elections.session(LeaseId(*who));
                let Some(attachment) = session.map(|session| session.attachment) else {
                    return false;
                };
                let how = SessionEnding::ConnectionLost { attachment };
                self.election(ElectionCommand::End { id: LeaseId(*who), how, secret: None });
            }
            // The process had attached its session again elsewhere before.
            Deed::BreakOlderConnection(who) => {
                let session = self.state.elections.session(LeaseId(*who));
                let Some(session) = session.filter(|session| session.attachment > 1) else {
                    return false;
                };
                let how = SessionEnding::ConnectionLost { attachment: session.attachment - 1 };
                self.election(ElectionCommand::End { id: LeaseId(*who), how, secret: None });
            }
            Deed::ConfirmStop(who) => {
                if self.state.elections.session(LeaseId(*who)).is_some() {
                    return false;
                }
                let how = SessionEnding::Revoked { stopped: true };
                self.election(ElectionCommand::End { id: LeaseId(*who), how, secret: None });
            }
            Deed::Join { who, name, priority, preempts } => {
                let manner = Manner { priority: *priority, preempts: *preempts, ..plain };
                self.join(*who, &[name], manner);
            }
            Deed::JoinAfterStop { who, name } => {
                self.join(*who, &[name], Manner { no_overlap: true, ..plain });
            }
            Deed::JoinShared { who, name } => {
                self.join(*who, &[name], Manner { mode: Mode::Shared, ..plain });
            }
            Deed::JoinPermit { who, name, permits } => {
                self.join(*who, &[name], Manner { mode: Mode::Permit(*permits), ..plain });
            }
            Deed::JoinAs { who, name, manner } => self.join(*who, &[name], *manner),
            Deed::JoinBoth(who) => self.join(*who, &NAMES, plain),
            Deed::Leave { who, name } => {
                self.ask(
                    *who,
                    SessionRequest::Leave { name: text(name), token: None, stopped: true },
                );
            }
            Deed::Drop { who, name } => {
                self.ask(
                    *who,
                    SessionRequest::Leave { name: text(name), token: None, stopped: false },
                );
            }
            Deed::StockJoin { who, name } => {
                if !stock(who) && self.state.elections.session(LeaseId(*who)).is_none() {
                    return false;
                }
                self.stock_join(*who, name);
            }
            Deed::StockLeave { who, name } | Deed::Strike { who, name } => {
                let key = key_of(name.as_bytes(), LeaseId(*who));
                let election = self.state.elections.election(name.as_bytes());
                let stock = matches!(deed, Deed::StockLeave { .. });
                let is_meant = |candidate: &Arc<Candidate>| {
                    candidate.key == key && candidate.spec.is_none() == stock
                };
                if !election.is_some_and(|election| election.candidates().iter().any(is_meant)) {
                    return false;
                }
                let delete = DeleteRange { span: Span::One(key), prev_kv: false };
                self.command(Command::DeleteRange(delete));
            }
            Deed::Data(name) => {
                let (key, value) = (data(name), Some(Bytes::new()));
                let put = Put { key, value, lease: PutLease::Set(None), prev_kv: false };
                self.command(Command::Put(put));
            }
            Deed::NoData(name) => {
                let delete = DeleteRange { span: Span::One(data(name)), prev_kv: false };
                self.command(Command::DeleteRange(delete));
            }
            Deed::Health { who, name, unhealthy } => {
                self.ask(*who, SessionRequest::Health { name: text(name), unhealthy: *unhealthy });
            }
            Deed::Transfer { to, name } => {
                let to = Successor::Session(LeaseId(*to));
                self.rule(AdminCommand::Transfer { name: text(name), to, within_ms: 1000 });
            }
            Deed::Yield { name, stay } => {
                let election = self.state.elections.election(name.as_bytes());
                let leader = election.and_then(|election| election.leader()).cloned();
                let Some((who, token)) = leader.and_then(|l| Some((l.session()?, l.created)))
                else {
                    return false;
                };
                self.ask(who.0, SessionRequest::Yield { name: text(name), token, stay: *stay });
            }
            Deed::DrainOver(name) => {
                let election = self.state.elections.election(name.as_bytes());
                let successor =
                    election.and_then(|election| election.candidate_of(election.transfer()?.to));
                let Some(token) = successor.map(|successor| successor.created) else {
                    return false;
                };
                let overdue = vec![Overdue::Drain(text(name), token)];
                self.election(ElectionCommand::Overdue(Term(1), overdue));
            }
            Deed::DelayOver => {
                let overdue: Vec<_> = self
                    .state
                    .elections
                    .delays()
                    .map(|(id, d)| Overdue::Delay(id, d.since))
                    .collect();
                if overdue.is_empty() {
                    return false;
                }
                self.election(ElectionCommand::Overdue(Term(1), overdue));
            }
            Deed::Evict(name) => self.rule(AdminCommand::Evict { name: text(name), token: None }),
            Deed::Freeze(name) => self.rule(AdminCommand::Freeze(text(name))),
            Deed::Resume(name) => self.rule(AdminCommand::Resume(text(name))),
            Deed::Restore => {
                let first = first_revision(self.state.store.revision(), 0, None).unwrap();
                self.state = self.state.new_cluster([member()], first);
            }
        }
        self.shape() != before
    }

    fn is_stock(&self, who: i64) -> bool {
        self.state.leases.contains(LeaseId(who))
            && self.state.elections.session(LeaseId(who)).is_none()
    }

    /// A client of etcd's is a candidate as its recipe does.
    fn stock_join(&mut self, who: i64, name: &str) {
        let key = key_of(name.as_bytes(), LeaseId(who));
        let put = Put {
            key: key.clone(),
            value: Some(format!("stock{who}").into()),
            lease: PutLease::Set(Some(LeaseId(who))),
            prev_kv: false,
        };
        let absent = Compare {
            span: Span::One(key),
            result: CompareResult::Equal,
            target: CompareTarget::Create(Revision(0)),
        };
        let txn = Txn { compare: vec![absent], success: vec![Op::Put(put)], failure: vec![] };
        self.command(Command::Txn(txn));
    }

    fn join(&mut self, who: i64, names: &[&str], manner: Manner) {
        let Manner { mode, priority, preempts, no_overlap, try_only, unhealthy } = manner;
        let join = JoinSpec {
            names: names.iter().map(|name| text(name)).collect(),
            value: Bytes::new(),
            mode,
            priority,
            preempts,
            no_overlap,
            try_only,
            unhealthy,
            metadata: vec![],
        };
        self.ask(who, SessionRequest::Join(join));
    }

    fn ask(&mut self, who: i64, ask: SessionRequest) {
        self.request += 1;
        let (session, request) = (LeaseId(who), self.request);
        self.election(ElectionCommand::Request { session, number: request, request: ask.clone() });
        // Whatever it was, doing it again must change nothing.
        let once = self.state.clone();
        let told = std::mem::take(&mut self.events);
        self.election(ElectionCommand::Request { session, number: request, request: ask });
        assert!(
            self.state.elections == once.elections,
            "a repeated request acted twice: {:?}",
            self.path
        );
        assert_eq!(self.state.store.revision(), once.store.revision(), "{:?}", self.path);
        self.events = told;
    }

    fn rule(&mut self, rule: AdminCommand) {
        self.election(ElectionCommand::Admin(rule));
    }

    fn election(&mut self, command: ElectionCommand) {
        self.command(Command::Election(command));
    }

    fn command(&mut self, command: Command) {
        self.index += 1;
        let mut effects = ApplyEffects::default();
        let at = EntryContext { index: self.index, term: Term(1), ms: 0 };
        let _: Result<Outcome, _> =
            self.state.apply(at, &Principal::System, &command, &mut effects);
        self.events.extend(effects.elections);
    }

    /// All that matters, without the numbers that only grow.
    pub(crate) fn shape(&self) -> String {
        use std::fmt::Write;
        let mut shape = String::new();
        for (name, election) in self.state.elections.elections() {
            let _ = write!(shape, "{name:?}:");
            for candidate in election.candidates() {
                let mode = candidate.mode();
                let own =
                    (candidate.spec.is_some(), candidate.slot, candidate.told, candidate.unhealthy);
                let lease = candidate.lease.map_or(0, |lease| lease.0);
                let more = candidate
                    .spec
                    .as_ref()
                    .map(|c| (c.priority, c.preempts, c.together.len(), c.no_overlap));
                let _ = write!(shape, "{lease}{mode:?}{own:?}{more:?},");
            }
            let transfer = election.transfer().map(|transfer| {
                let from = election
                    .candidates()
                    .iter()
                    .position(|candidate| candidate.created == transfer.from);
                (transfer.to, transfer.why, from)
            });
            let _ = write!(
                shape,
                "{transfer:?}{}{};",
                election.leads_by_choice(),
                election.is_delayed()
            );
        }
        for (id, _) in self.state.leases.iter() {
            let _ = write!(shape, "{id} ");
        }
        // Whether it has left a connection behind, not how many.
        for (id, _) in self.state.elections.sessions().filter(|(_, session)| session.attachment > 1)
        {
            let _ = write!(shape, "{id}again ");
        }
        for (id, delay) in self.state.elections.delays() {
            let names: Vec<_> = delay.names.iter().map(|(name, _)| name).collect();
            let _ = write!(shape, "{id}{names:?}");
        }
        shape
    }
}

fn data(name: &str) -> Bytes {
    format!("{name}/data").into()
}

fn text(name: &str) -> Bytes {
    Bytes::copy_from_slice(name.as_bytes())
}

fn member() -> Member {
    Member {
        id: MemberId(1),
        name: String::new(),
        peer_urls: vec![],
        client_urls: vec![],
        is_learner: false,
    }
}
