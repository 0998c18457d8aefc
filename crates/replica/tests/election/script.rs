//! The language of the election scripts. Sessions and stock clients have any names.
//!
//! ```text
//! open CLIENT                                  a session
//! stock CLIENT                                 a stock client, with a lease
//! join CLIENT NAME… [shared] [permits=N] [priority=N] [preempts] [no-overlap] [try] [unhealthy]
//! lock CLIENT NAME                             a stock client is a candidate
//! leave CLIENT NAME                            gives up its candidacy, its work has ended
//! delete-key CLIENT NAME                       its key is deleted by hand
//! retie CLIENT NAME to=OTHER                   its key is put under the lease of another
//! yield CLIENT NAME [stay]                     makes room for the successor
//! well CLIENT NAME   unwell CLIENT NAME        reports its health
//! expire CLIENT   revoke CLIENT   die CLIENT   the lease runs out, is revoked; the process dies (fast release)
//! stopped CLIENT                               confirms that its work has ended
//! patience                                     the raft leader's clock says that all waits are over
//! judge … verdict                              it says so, and that is applied only later
//! transfer NAME to=CLIENT   evict NAME   freeze NAME   resume NAME
//! write CLIENT NAME                            a write that counts only with the token that CLIENT was told last
//! candidates NAME   history NAME
//! ```

use std::{collections::BTreeMap, error::Error, fmt::Write as _};

use bytes::Bytes;
use goldenscript::{Command as ScriptCommand, Runner};
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

pub struct ElectionScript {
    state: State,
    names: BTreeMap<LeaseId, String>,
    /// The token that each was told last, for each name.
    told: BTreeMap<(LeaseId, Bytes), Revision>,
    /// What the raft leader found to be over, and has not been applied.
    judged: Vec<Overdue>,
    index: u64,
    request: u64,
}

impl ElectionScript {
    pub fn new() -> ElectionScript {
        let mut script = ElectionScript {
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

    fn session(&self, name: &str) -> Answer<LeaseId> {
        let known = self.names.iter().find(|(_, known)| *known == name);
        known.map(|(id, _)| *id).ok_or_else(|| format!("there is no session {name}").into())
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

    fn ask(&mut self, client: &str, ask: SessionRequest) -> Answer<String> {
        self.request += 1;
        let (session, request) = (self.session(client)?, self.request);
        Ok(self.election(ElectionCommand::Request { session, number: request, request: ask }))
    }

    fn tell(&mut self, event: &ElectionEvent, out: &mut String) {
        let owner = |candidate: &tenure_replica::election::Candidate| {
            candidate.lease.map_or("?", |id| self.called(id)).to_owned()
        };
        let said = match event {
            ElectionEvent::Granted { name, candidate, predecessor } => {
                let client = owner(candidate);
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
                format!("{client} holds {}{slot}, token {}{after}", text(name), candidate.created)
            }
            ElectionEvent::Gone { name, candidate, why } if candidate.lease.is_some() => {
                format!("{} is out of {}: {why:?}", owner(candidate), text(name)).to_lowercase()
            }
            ElectionEvent::Moved { name, candidate, old, why } => {
                let lost = if old.told { " and holds it no more" } else { "" };
                let client = owner(candidate);
                format!(
                    "{client} lets others pass in {} ({why:?}), token {}{lost}",
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
                format!("{} has no holder{why}", text(name))
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
            return "none\n".into();
        };
        let mut out = String::new();
        for candidate in election.candidates() {
            let last = candidate.key.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            let key = String::from_utf8_lossy(last);
            let client = candidate.lease.map_or(&*key, |id| self.called(id));
            let does = match (candidate.told, candidate.holds()) {
                (true, _) => "holds",
                (false, true) => "is next, and waits for a stop",
                (false, false) => "waits",
            };
            let _ = writeln!(out, "{client} {does}, token {}", candidate.created);
        }
        if out.is_empty() { "none\n".into() } else { out }
    }

    fn write(&mut self, client: &str, name: &str) -> Answer<String> {
        let id = self.session(client)?;
        let Some(token) = self.told.get(&(id, text_bytes(name))).copied() else {
            return Ok(format!("{client} was never told that it holds {name}\n"));
        };
        let leads = Compare {
            span: Span::One(key_of(name.as_bytes(), id)),
            result: CompareResult::Equal,
            target: CompareTarget::Create(token),
        };
        let put = put("data", client, None);
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
                Ok(format!("{client} writes with token {token}\n"))
            }
            _ => Ok(format!("{client} is refused: token {token} is not in force\n")),
        }
    }
}

impl Runner for ElectionScript {
    fn run(&mut self, command: &ScriptCommand) -> Answer<String> {
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
            ("open", [client]) => {
                let id = self.newcomer(client);
                let identity = (*client).to_owned();
                self.election(ElectionCommand::Open {
                    id,
                    ttl_ms: 5000,
                    identity,
                    fast_release: true,
                    by: 0,
                    secret: None,
                })
            }
            ("stock", [client]) => {
                let id = self.newcomer(client);
                self.apply(Command::LeaseGrant { id, ttl_secs: 5 })
            }
            ("join", [client, rest @ ..]) => {
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
                self.ask(client, SessionRequest::Join(join))?
            }
            ("lock", [client, name]) => {
                let id = self.session(client)?;
                let key = key_of(name.as_bytes(), id);
                let put = put(std::str::from_utf8(&key)?, client, Some(id));
                let said = self.apply(Command::Put(put));
                if said.is_empty() { format!("{client} waits for {name}\n") } else { said }
            }
            ("delete-key", [client, name]) => {
                let span = Span::One(key_of(name.as_bytes(), self.session(client)?));
                self.apply(Command::DeleteRange(DeleteRange { span, prev_kv: false }))
            }
            ("retie", [client, name]) => {
                let key = key_of(name.as_bytes(), self.session(client)?);
                let to = self.session(&value("to").ok_or("to which session?")?)?;
                self.apply(Command::Put(put(std::str::from_utf8(&key)?, client, Some(to))))
            }
            // Data that happens to lie under the name.
            ("put", [name, key]) => {
                self.apply(Command::Put(put(&format!("{name}/{key}"), "data", None)))
            }
            ("leave", [client, name]) => {
                let id = self.session(client)?;
                if self.state.elections.session(id).is_none() && self.state.leases.contains(id) {
                    let span = Span::One(key_of(name.as_bytes(), id));
                    return Ok(
                        self.apply(Command::DeleteRange(DeleteRange { span, prev_kv: false }))
                    );
                }
                let token = self.told.get(&(id, text_bytes(name))).copied();
                self.ask(
                    client,
                    SessionRequest::Leave { name: text_bytes(name), token, stopped: true },
                )?
            }
            ("yield", [client, name, ..]) => {
                let id = self.session(client)?;
                let token = *self.told.get(&(id, text_bytes(name))).ok_or("it never held that")?;
                self.ask(
                    client,
                    SessionRequest::Yield { name: text_bytes(name), token, stay: has("stay") },
                )?
            }
            ("well" | "unwell", [client, name]) => {
                let unhealthy = command.name == "unwell";
                self.ask(client, SessionRequest::Health { name: text_bytes(name), unhealthy })?
            }
            ("expire", [client]) => {
                let id = self.session(client)?;
                let renewed_at = self.state.leases.get(id).ok_or("it has no lease")?.renewed_at;
                self.apply(Command::LeaseExpire(Term(1), vec![Expiry { id, renewed_at }]))
            }
            ("revoke", [client]) => self.apply(Command::LeaseRevoke(self.session(client)?)),
            ("die", [client]) => {
                let how = SessionEnding::ConnectionLost { attachment: 1 };
                self.election(ElectionCommand::End { id: self.session(client)?, how, secret: None })
            }
            ("stopped", [client]) => {
                let how = SessionEnding::Revoked { stopped: true };
                self.election(ElectionCommand::End { id: self.session(client)?, how, secret: None })
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
                let to = Successor::Identity(value("to").ok_or("to which session?")?);
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
            ("write", [client, name]) => self.write(client, name)?,
            ("candidates", [name]) => self.candidates(name),
            ("history", [name]) => {
                let election = self
                    .state
                    .elections
                    .election(name.as_bytes())
                    .ok_or("no candidate ever led")?;
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
fn election_refusals_have_different_texts() {
    let mut words: Vec<String> = Refusal::ALL.iter().map(ToString::to_string).collect();
    words.sort();
    words.dedup();
    assert_eq!(words.len(), Refusal::ALL.len());
}
