//! The language of the stories. Sessions and stock clients are known by names of one's choice.
//!
//! ```text
//! open WHO                           a session
//! stock WHO                          a stock client, with a lease
//! join WHO NAME… [shared] [permits=N] [priority=N] [preempts] [no-overlap] [try] [unhealthy]
//! lock WHO NAME                      a stock client is a candidate
//! leave WHO NAME                     gives up its candidacy, its work has ended
//! strike WHO NAME                    its key is deleted by hand
//! retie WHO NAME to=OTHER            its key is put under the lease of another
//! yield WHO NAME [stay]              makes room for the successor
//! well WHO NAME   unwell WHO NAME    says how it is
//! expire WHO   revoke WHO   die WHO  the lease runs out, is revoked; the process dies (fast release)
//! stopped WHO                        confirms that its work has ended
//! patience                           the raft leader's clock says that all waits are over
//! judge … verdict                    it says so, and that is applied only later
//! transfer NAME to=WHO   evict NAME   freeze NAME   resume NAME
//! write WHO NAME                     a write that counts only with the token WHO was told last
//! line NAME   history NAME
//! ```

use std::{collections::BTreeMap, error::Error, fmt::Write as _};

use bytes::Bytes;
use goldenscript::{Command as Election, Runner};
use tenure_api::{
    Compare, CompareResult, CompareTarget, DeleteRange, LeaseId, Op, Principal, Put, Revision,
    Span, Term, Txn, op::PutLease,
};
use tenure_replica::{
    ElectionOutcome, EntryContext, Outcome, State,
    command::{
        AdminCommand, Command, ElectionCommand, Expiry, JoinSpec, Overdue, SessionEnding,
        SessionRequest, Successor,
    },
    election::{ElectionEvent, Mode, Refusal, key_of},
    state::ApplyEffects,
};

type Answer<T> = Result<T, Box<dyn Error>>;

pub struct Script {
    state: State,
    names: BTreeMap<LeaseId, String>,
    /// The token that each was told last, for each name.
    told: BTreeMap<(LeaseId, Bytes), Revision>,
    /// What the raft leader found to be over, and has not been applied.
    judged: Vec<Overdue>,
    index: u64,
    request: u64,
}

impl Script {
    pub fn new() -> Script {
        let mut script = Script {
            state: State::new([tenure_api::Member {
                id: tenure_api::MemberId(1),
                name: String::new(),
                peer_urls: vec![],
                client_urls: vec![],
                is_learner: false,
            }]),
            names: BTreeMap::new(),
            told: BTreeMap::new(),
            judged: vec![],
            index: 0,
            request: 0,
        };
        let _ = script.apply(Command::ClusterVersion(3));
        script
    }

    fn who(&self, name: &str) -> Answer<LeaseId> {
        let known = self.names.iter().find(|(_, known)| *known == name);
        known.map(|(id, _)| *id).ok_or_else(|| format!("nobody is called {name}").into())
    }

    fn newcomer(&mut self, name: &str) -> LeaseId {
        let id = LeaseId(self.names.len() as i64 + 10);
        self.names.retain(|_, known| known != name);
        self.names.insert(id, name.to_owned());
        id
    }

    fn called(&self, id: LeaseId) -> &str {
        self.names.get(&id).map_or("?", String::as_str)
    }

    fn apply(&mut self, command: Command) -> String {
        self.index += 1;
        let mut effects = ApplyEffects::default();
        let at = EntryContext { index: self.index, term: Term(1), ms: 0 };
        let outcome = self.state.apply(at, &Principal::System, &command, &mut effects);
        let mut out = String::new();
        match outcome {
            Ok(Outcome::Election(Err(refusal))) => {
                let _ = writeln!(out, "refused: {refusal}");
            }
            Ok(Outcome::Election(Ok(ElectionOutcome::Candidacies(candidates)))) => {
                for info in candidates.iter().filter(|info| !info.candidate.told) {
                    let (name, ahead) = (text(&info.name), info.ahead);
                    let _ = writeln!(
                        out,
                        "waits for {name} behind {ahead}, token {}",
                        info.candidate.created
                    );
                }
            }
            Ok(_) => {}
            Err(failure) => {
                let _ = writeln!(out, "refused: {failure}");
            }
        }
        for event in &effects.elections {
            self.tell(event, &mut out);
        }
        out
    }

    fn election(&mut self, command: ElectionCommand) -> String {
        self.apply(Command::Election(command))
    }

    fn overdue(&self) -> Vec<Overdue> {
        let delays = self.state.elections.delays().map(|(id, d)| Overdue::Delay(id, d.since));
        let transfers = self.state.elections.elections().filter_map(|(name, election)| {
            let successor = election.candidate_of(election.transfer()?.to)?;
            Some(Overdue::Drain(name.clone(), successor.created))
        });
        delays.chain(transfers).collect()
    }

    fn ask(&mut self, who: &str, ask: SessionRequest) -> Answer<String> {
        self.request += 1;
        let (session, request) = (self.who(who)?, self.request);
        Ok(self.election(ElectionCommand::Request { session, number: request, request: ask }))
    }

    fn tell(&mut self, event: &ElectionEvent, out: &mut String) {
        let owner = |candidate: &tenure_replica::election::Candidate| {
            candidate.lease.map_or("?", |id| self.called(id)).to_owned()
        };
        let said = match event {
            ElectionEvent::Granted { name, candidate, predecessor } => {
                let who = owner(candidate);
                if let Some(id) = candidate.lease {
                    self.told.insert((id, name.clone()), candidate.created);
                }
                let after = if predecessor.is_empty() {
                    String::new()
                } else {
                    format!(" after {predecessor}")
                };
                let slot = match candidate.mode() {
                    Mode::Permit(_) => format!(" in slot {}", candidate.slot.unwrap_or_default()),
                    _ => String::new(),
                };
                format!("{who} holds {}{slot}, token {}{after}", text(name), candidate.created)
            }
            ElectionEvent::Gone { name, candidate, why } if candidate.lease.is_some() => {
                format!("{} is out of {}: {why:?}", owner(candidate), text(name)).to_lowercase()
            }
            ElectionEvent::Moved { name, candidate, old, why } => {
                let lost = if old.told { " and holds it no more" } else { "" };
                let who = owner(candidate);
                format!(
                    "{who} lets others pass in {} ({why:?}), token {}{lost}",
                    text(name),
                    candidate.created
                )
            }
            ElectionEvent::Drain { name, candidate, successor, .. } => {
                format!(
                    "{} is asked to make room in {} for {successor}",
                    owner(candidate),
                    text(name)
                )
            }
            ElectionEvent::DrainCancelled { name, candidate } => {
                format!("{} may stay in {}", owner(candidate), text(name))
            }
            ElectionEvent::Vacant { name, frozen, .. } => {
                let why = if *frozen { ": it is frozen" } else { "" };
                format!("nobody holds {}{why}", text(name))
            }
            ElectionEvent::Delayed { session } => {
                format!("{} may not have stopped yet", self.called(*session))
            }
            ElectionEvent::DelayOver { session } => {
                format!("{} has surely stopped", self.called(*session))
            }
            _ => return,
        };
        let _ = writeln!(out, "{said}");
    }

    fn candidates(&self, name: &str) -> String {
        let Some(election) = self.state.elections.election(name.as_bytes()) else {
            return "nobody\n".into();
        };
        let mut out = String::new();
        for candidate in election.candidates() {
            let last = candidate.key.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            let key = String::from_utf8_lossy(last);
            let who = candidate.lease.map_or(&*key, |id| self.called(id));
            let does = match (candidate.told, candidate.holds()) {
                (true, _) => "holds",
                (false, true) => "is next, and waits for a stop",
                (false, false) => "waits",
            };
            let _ = writeln!(out, "{who} {does}, token {}", candidate.created);
        }
        if out.is_empty() { "nobody\n".into() } else { out }
    }

    fn write(&mut self, who: &str, name: &str) -> Answer<String> {
        let id = self.who(who)?;
        let Some(token) = self.told.get(&(id, text_bytes(name))).copied() else {
            return Ok(format!("{who} was never told that it holds {name}\n"));
        };
        let leads = Compare {
            span: Span::One(key_of(name.as_bytes(), id)),
            result: CompareResult::Equal,
            target: CompareTarget::Create(token),
        };
        let put = put("data", who, None);
        let txn = Txn { compare: vec![leads], success: vec![Op::Put(put)], failure: vec![] };
        let at = EntryContext { index: self.index + 1, term: Term(1), ms: 0 };
        self.index += 1;
        match self.state.apply(
            at,
            &Principal::System,
            &Command::Txn(txn),
            &mut ApplyEffects::default(),
        )? {
            Outcome::Txn(done) if done.succeeded => {
                Ok(format!("{who} writes with token {token}\n"))
            }
            _ => Ok(format!("{who} is refused: token {token} is not in force\n")),
        }
    }
}

impl Runner for Script {
    fn run(&mut self, command: &Election) -> Answer<String> {
        let words: Vec<&str> = command
            .args
            .iter()
            .filter(|arg| arg.key.is_none())
            .map(|arg| arg.value.as_str())
            .collect();
        let value = |key: &str| {
            command
                .args
                .iter()
                .find(|arg| arg.key.as_deref() == Some(key))
                .map(|arg| arg.value.clone())
        };
        let has = |word: &str| words.contains(&word);
        Ok(match (command.name.as_str(), &words[..]) {
            ("open", [who]) => {
                let id = self.newcomer(who);
                let identity = (*who).to_owned();
                self.election(ElectionCommand::Open {
                    id,
                    ttl_ms: 5000,
                    identity,
                    fast_release: true,
                    by: 0,
                })
            }
            ("stock", [who]) => {
                let id = self.newcomer(who);
                self.apply(Command::LeaseGrant { id, ttl_secs: 5 })
            }
            ("join", [who, rest @ ..]) => {
                let flags = ["shared", "preempts", "no-overlap", "try", "unhealthy"];
                let names = rest.iter().filter(|word| !flags.contains(word));
                let mode = match (has("shared"), value("permits")) {
                    (true, _) => Mode::Shared,
                    (false, Some(permits)) => Mode::Permit(permits.parse()?),
                    (false, None) => Mode::Exclusive,
                };
                let join = JoinSpec {
                    names: names.map(|name| text_bytes(name)).collect(),
                    value: Bytes::new(),
                    mode,
                    priority: value("priority").map_or(Ok(0), |priority| priority.parse())?,
                    preempts: has("preempts"),
                    no_overlap: has("no-overlap"),
                    try_only: has("try"),
                    unhealthy: has("unhealthy"),
                    metadata: vec![],
                };
                self.ask(who, SessionRequest::Join(join))?
            }
            ("lock", [who, name]) => {
                let id = self.who(who)?;
                let key = key_of(name.as_bytes(), id);
                let put = put(std::str::from_utf8(&key)?, who, Some(id));
                let said = self.apply(Command::Put(put));
                if said.is_empty() { format!("{who} waits for {name}\n") } else { said }
            }
            ("strike", [who, name]) => {
                let span = Span::One(key_of(name.as_bytes(), self.who(who)?));
                self.apply(Command::DeleteRange(DeleteRange { span, prev_kv: false }))
            }
            ("retie", [who, name]) => {
                let key = key_of(name.as_bytes(), self.who(who)?);
                let to = self.who(&value("to").ok_or("to whom?")?)?;
                self.apply(Command::Put(put(std::str::from_utf8(&key)?, who, Some(to))))
            }
            // Data that happens to lie under the name.
            ("put", [name, key]) => {
                self.apply(Command::Put(put(&format!("{name}/{key}"), "data", None)))
            }
            ("leave", [who, name]) => {
                let id = self.who(who)?;
                if self.state.elections.session(id).is_none() && self.state.leases.contains(id) {
                    let span = Span::One(key_of(name.as_bytes(), id));
                    return Ok(
                        self.apply(Command::DeleteRange(DeleteRange { span, prev_kv: false }))
                    );
                }
                let token = self.told.get(&(id, text_bytes(name))).copied();
                self.ask(
                    who,
                    SessionRequest::Leave { name: text_bytes(name), token, stopped: true },
                )?
            }
            ("yield", [who, name, ..]) => {
                let id = self.who(who)?;
                let token = *self.told.get(&(id, text_bytes(name))).ok_or("it never held that")?;
                self.ask(
                    who,
                    SessionRequest::Yield { name: text_bytes(name), token, stay: has("stay") },
                )?
            }
            ("well" | "unwell", [who, name]) => {
                let unhealthy = command.name == "unwell";
                self.ask(who, SessionRequest::Health { name: text_bytes(name), unhealthy })?
            }
            ("expire", [who]) => {
                let id = self.who(who)?;
                let renewed_at = self.state.leases.get(id).ok_or("it has no lease")?.renewed_at;
                self.apply(Command::LeaseExpire(Term(1), vec![Expiry { id, renewed_at }]))
            }
            ("revoke", [who]) => self.apply(Command::LeaseRevoke(self.who(who)?)),
            ("die", [who]) => {
                let how = SessionEnding::ConnectionLost { attachment: 1 };
                self.election(ElectionCommand::End { id: self.who(who)?, how })
            }
            ("stopped", [who]) => {
                let how = SessionEnding::Revoked { stopped: true };
                self.election(ElectionCommand::End { id: self.who(who)?, how })
            }
            ("patience", []) => {
                let overdue = self.overdue();
                self.election(ElectionCommand::Overdue(Term(1), overdue))
            }
            ("judge", []) => {
                self.judged = self.overdue();
                String::new()
            }
            ("verdict", []) => {
                let judged = std::mem::take(&mut self.judged);
                self.election(ElectionCommand::Overdue(Term(1), judged))
            }
            ("transfer", [name]) => {
                let to = Successor::Identity(value("to").ok_or("to whom?")?);
                self.election(ElectionCommand::Admin(AdminCommand::Transfer {
                    name: text_bytes(name),
                    to,
                    within_ms: 1000,
                }))
            }
            ("evict", [name]) => self.election(ElectionCommand::Admin(AdminCommand::Evict {
                name: text_bytes(name),
                token: None,
            })),
            ("freeze", [name]) => {
                self.election(ElectionCommand::Admin(AdminCommand::Freeze(text_bytes(name))))
            }
            ("resume", [name]) => {
                self.election(ElectionCommand::Admin(AdminCommand::Resume(text_bytes(name))))
            }
            ("write", [who, name]) => self.write(who, name)?,
            ("line", [name]) => self.candidates(name),
            ("history", [name]) => {
                let election =
                    self.state.elections.election(name.as_bytes()).ok_or("nobody ever led")?;
                let mut out = String::new();
                for tenure in election.tenures() {
                    let end = tenure
                        .end
                        .map_or("lasts".into(), |end| format!("{:?}", end.why).to_lowercase());
                    let _ = writeln!(out, "{} with token {}: {end}", tenure.identity, tenure.token);
                }
                out
            }
            _ => return Err(format!("what is {} {words:?}?", command.name).into()),
        })
    }
}

fn put(key: &str, value: &str, lease: Option<LeaseId>) -> Put {
    let value = Some(Bytes::copy_from_slice(value.as_bytes()));
    Put { key: text_bytes(key), value, lease: PutLease::Set(lease), prev_kv: false }
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn text_bytes(name: &str) -> Bytes {
    Bytes::copy_from_slice(name.as_bytes())
}

/// Only to be sure that every refusal has a word of its own.
#[test]
fn refusals_have_different_words() {
    let mut words: Vec<String> = Refusal::ALL.iter().map(ToString::to_string).collect();
    words.sort();
    words.dedup();
    assert_eq!(words.len(), Refusal::ALL.len());
}
