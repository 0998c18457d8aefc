//! What can happen to lines, and a world it happens in.

use std::sync::Arc;

use bytes::Bytes;
use tenure_api::{
    Compare, CompareResult, CompareTarget, DeleteRange, LeaseId, Member, MemberId, Op, Put,
    Revision, Span, Term, Txn, op::PutLease,
};
use tenure_replica::{
    At, Outcome, State,
    command::{Ask, Command, Ended, Expiry, Join, LineCommand, Overdue, Rule, Successor},
    queue::{Event, Mode, Place, key_of},
    refound::first_revision,
    state::Traces,
};

/// One thing that somebody does. Sessions and clients of etcd's are known by small numbers, which are
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
    /// Somebody deletes a session's key by hand.
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
    /// Somebody's data, which hangs on nothing and happens to lie under the name.
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

/// How somebody stands in line.
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
    pub(crate) events: Vec<Event>,
    /// The deeds so far.
    pub(crate) path: Vec<Deed>,
    /// What was true before the last deed.
    pub(crate) before: Option<State>,
    index: u64,
    request: u64,
}

pub(crate) const NAMES: [&str; 2] = ["x", "y"];
/// Who has only a lease, and stands in line by etcd's means.
pub(crate) const STOCK: [i64; 1] = [4];

impl World {
    /// Everybody has a session or a lease, and nobody stands in line.
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
            Deed::Open(who) => self.line(LineCommand::Open {
                id: LeaseId(*who),
                ttl_ms: 5000,
                identity: format!("s{who}"),
                fast_release: true,
                by: 0,
            }),
            Deed::Attach(who) => self.line(LineCommand::Attach { id: LeaseId(*who), by: 0 }),
            Deed::Expire(who) => {
                let Some(lease) = self.state.leases.get(LeaseId(*who)) else { return false };
                let expiry = Expiry { id: LeaseId(*who), renewed_at: lease.renewed_at };
                self.command(Command::LeaseExpire(Term(1), vec![expiry]));
            }
            Deed::Revoke(who) => self.command(Command::LeaseRevoke(LeaseId(*who))),
            Deed::Close(who) => {
                let how = Ended::Closed { stopped: true };
                self.line(LineCommand::End { id: LeaseId(*who), how });
            }
            Deed::BreakConnection(who) => {
                let session = self.state.queues.session(LeaseId(*who));
                let Some(attachment) = session.map(|session| session.attachment) else {
                    return false;
                };
                let how = Ended::ConnectionLost { attachment };
                self.line(LineCommand::End { id: LeaseId(*who), how });
            }
            // The process had attached its session again elsewhere before.
            Deed::BreakOlderConnection(who) => {
                let session = self.state.queues.session(LeaseId(*who));
                let Some(session) = session.filter(|session| session.attachment > 1) else {
                    return false;
                };
                let how = Ended::ConnectionLost { attachment: session.attachment - 1 };
                self.line(LineCommand::End { id: LeaseId(*who), how });
            }
            Deed::ConfirmStop(who) => {
                if self.state.queues.session(LeaseId(*who)).is_some() {
                    return false;
                }
                let how = Ended::Revoked { stopped: true };
                self.line(LineCommand::End { id: LeaseId(*who), how });
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
                self.ask(*who, Ask::Leave { name: text(name), token: None, stopped: true });
            }
            Deed::Drop { who, name } => {
                self.ask(*who, Ask::Leave { name: text(name), token: None, stopped: false });
            }
            Deed::StockJoin { who, name } => {
                if !stock(who) && self.state.queues.session(LeaseId(*who)).is_none() {
                    return false;
                }
                self.stock_join(*who, name);
            }
            Deed::StockLeave { who, name } | Deed::Strike { who, name } => {
                let key = key_of(name.as_bytes(), LeaseId(*who));
                let line = self.state.queues.line(name.as_bytes());
                let stock = matches!(deed, Deed::StockLeave { .. });
                let is_meant =
                    |place: &Arc<Place>| place.key == key && place.candidate.is_none() == stock;
                if !line.is_some_and(|line| line.places().iter().any(is_meant)) {
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
                self.ask(*who, Ask::Health { name: text(name), unhealthy: *unhealthy });
            }
            Deed::Transfer { to, name } => {
                let to = Successor::Session(LeaseId(*to));
                self.rule(Rule::Transfer { name: text(name), to, within_ms: 1000 });
            }
            Deed::Yield { name, stay } => {
                let line = self.state.queues.line(name.as_bytes());
                let leader = line.and_then(|line| line.leader()).cloned();
                let Some((who, token)) = leader.and_then(|l| Some((l.session()?, l.created)))
                else {
                    return false;
                };
                self.ask(who.0, Ask::Yield { name: text(name), token, stay: *stay });
            }
            Deed::DrainOver(name) => {
                let line = self.state.queues.line(name.as_bytes());
                let successor = line.and_then(|line| line.place_of(line.transfer()?.to));
                let Some(token) = successor.map(|successor| successor.created) else {
                    return false;
                };
                let overdue = vec![Overdue::Drain(text(name), token)];
                self.line(LineCommand::Overdue(Term(1), overdue));
            }
            Deed::DelayOver => {
                let overdue: Vec<_> =
                    self.state.queues.delays().map(|(id, d)| Overdue::Delay(id, d.since)).collect();
                if overdue.is_empty() {
                    return false;
                }
                self.line(LineCommand::Overdue(Term(1), overdue));
            }
            Deed::Evict(name) => self.rule(Rule::Evict { name: text(name), token: None }),
            Deed::Freeze(name) => self.rule(Rule::Freeze(text(name))),
            Deed::Resume(name) => self.rule(Rule::Resume(text(name))),
            Deed::Restore => {
                let first = first_revision(self.state.store.revision(), 0, None).unwrap();
                self.state = self.state.refound([member()], first);
            }
        }
        self.shape() != before
    }

    fn is_stock(&self, who: i64) -> bool {
        self.state.leases.contains(LeaseId(who))
            && self.state.queues.session(LeaseId(who)).is_none()
    }

    /// A client of etcd's stands in line as its recipe does.
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
        let join = Join {
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
        self.ask(who, Ask::Join(join));
    }

    fn ask(&mut self, who: i64, ask: Ask) {
        self.request += 1;
        let (session, request) = (LeaseId(who), self.request);
        self.line(LineCommand::Ask { session, request, ask: ask.clone() });
        // Whatever it was, doing it again must change nothing.
        let once = self.state.clone();
        let told = std::mem::take(&mut self.events);
        self.line(LineCommand::Ask { session, request, ask });
        assert!(
            self.state.queues == once.queues,
            "a repeated request acted twice: {:?}",
            self.path
        );
        assert_eq!(self.state.store.revision(), once.store.revision(), "{:?}", self.path);
        self.events = told;
    }

    fn rule(&mut self, rule: Rule) {
        self.line(LineCommand::Rule(rule));
    }

    fn line(&mut self, command: LineCommand) {
        self.command(Command::Line(command));
    }

    fn command(&mut self, command: Command) {
        self.index += 1;
        let mut traces = Traces::default();
        let at = At { index: self.index, term: Term(1), ms: 0 };
        let _: Result<Outcome, _> = self.state.apply(at, &command, &mut traces);
        self.events.extend(traces.lines);
    }

    /// All that matters, without the numbers that only grow.
    pub(crate) fn shape(&self) -> String {
        use std::fmt::Write;
        let mut shape = String::new();
        for (name, line) in self.state.queues.lines() {
            let _ = write!(shape, "{name:?}:");
            for place in line.places() {
                let mode = place.mode();
                let own = (place.candidate.is_some(), place.slot, place.told, place.unhealthy);
                let lease = place.lease.map_or(0, |lease| lease.0);
                let more = place
                    .candidate
                    .as_ref()
                    .map(|c| (c.priority, c.preempts, c.together.len(), c.no_overlap));
                let _ = write!(shape, "{lease}{mode:?}{own:?}{more:?},");
            }
            let transfer = line.transfer().map(|transfer| {
                let from = line.places().iter().position(|place| place.created == transfer.from);
                (transfer.to, transfer.why, from)
            });
            let _ = write!(shape, "{transfer:?}{}{};", line.leads_by_choice(), line.is_delayed());
        }
        for (id, _) in self.state.leases.iter() {
            let _ = write!(shape, "{id} ");
        }
        // Whether it has left a connection behind, not how many.
        for (id, _) in self.state.queues.sessions().filter(|(_, session)| session.attachment > 1) {
            let _ = write!(shape, "{id}again ");
        }
        for (id, delay) in self.state.queues.delays() {
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
