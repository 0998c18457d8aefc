//! Lines as others see them, and what an operator may do about them.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, future::OptionFuture};
use tenure_api::{Failure, LeaseId, wire::tenure::v1 as pb};
use tenure_replica::{
    Consistency, LineDone, LineView, Read, Reply, Request,
    command::{Command, LineCommand, Rule, Successor},
    queue::{
        Refusal,
        listeners::{LineInput, LineNews, Observed},
    },
};
use tonic::{Response, Status};

use super::{
    Limits,
    reply::{refuse, unexpected},
    stubs::lines_server,
    watch::leader_gone,
    words::{candidate, line_done, refuse_rule, tenure, text, token},
};
use crate::node::{Door, LineOutlet, Stamp};

/// Lines that one answer lists; more specific prefixes find the others.
const LISTED_MAX: usize = 2000;
/// How long a leader may take to drain if nobody says otherwise.
const DRAIN_MS: u64 = 10_000;
/// To an observer that is told nothing more.
const LET_GO: &str = "tenure: the member stops, or the observer took its news too slowly; observe again \
                      after the last revision";

pub(super) struct Lines {
    door: Door,
    /// Without them an observer is never told that this member may know nothing new.
    limits: Option<Limits>,
}

type Header = Option<tenure_api::wire::etcdserverpb::ResponseHeader>;

impl Lines {
    pub(super) fn new(door: Door, limits: Option<Limits>) -> Lines {
        Lines { door, limits }
    }

    async fn view(&self, name: String) -> Result<(Header, LineView), Status> {
        match self.read(Read::Line(named(name)?)).await? {
            (header, Reply::Line(view)) => Ok((header, *view)),
            (_, other) => Err(unexpected(&other)),
        }
    }

    async fn read(&self, read: Read) -> Result<(Header, Reply), Status> {
        self.door.lines_ready().await.map_err(refuse)?;
        let request = Request::Read(read, Consistency::Linearizable);
        self.door.open(self.door.ask(request).await)
    }

    async fn rule(&self, rule: Rule) -> Result<(Header, LineDone), Status> {
        self.door.lines_ready().await.map_err(refuse)?;
        let request = Request::Write(Command::Line(LineCommand::Rule(rule)));
        let (header, reply) = self.door.open(self.door.ask(request).await)?;
        Ok((header, line_done(reply)?.map_err(refuse_rule)?))
    }
}

#[tonic::async_trait]
impl lines_server::Lines for Lines {
    async fn candidates(
        &self,
        request: tonic::Request<pb::CandidatesRequest>,
    ) -> Result<Response<pb::CandidatesResponse>, Status> {
        self.door.admit(request.metadata())?;
        let (header, view) = self.view(request.into_inner().name).await?;
        Ok(Response::new(pb::CandidatesResponse {
            header,
            candidates: view.seats.iter().map(candidate).collect(),
            frozen: view.line.is_frozen(),
            successor: view.line.transfer().map_or(0, |transfer| transfer.to.0),
            delay_ms: view.delay.map(|left| left.as_millis() as u64),
        }))
    }

    type ObserveStream = Pin<Box<dyn Stream<Item = Result<pb::ObserveResponse, Status>> + Send>>;

    async fn observe(
        &self,
        request: tonic::Request<pb::ObserveRequest>,
    ) -> Result<Response<Self::ObserveStream>, Status> {
        self.door.admit(request.metadata())?;
        let request = request.into_inner();
        let (name, after) = (named(request.name)?, token(request.after_revision));
        // What this member has not heard of yet must not be taken for nothing.
        self.read(Read::Freshness).await?;
        let outlet = self.door.listen(|listener| LineInput::Observe { listener, name, after });
        Ok(Response::new(Box::pin(observed(self.door.clone(), outlet, self.limits))))
    }

    async fn history(
        &self,
        request: tonic::Request<pb::HistoryRequest>,
    ) -> Result<Response<pb::HistoryResponse>, Status> {
        self.door.admit(request.metadata())?;
        let name = named(request.into_inner().name)?;
        // The whole state, whose clone is O(1): this line may have been forgotten altogether before it came
        // anew, and up to where that can be only the queues know.
        let (header, state) = match self.read(Read::State).await? {
            (header, Reply::State(frozen)) => (header, frozen.state),
            (_, other) => return Err(unexpected(&other)),
        };
        let line = state.queues.line(&name).cloned().unwrap_or_default();
        let tenures = line.tenures().map(tenure).collect();
        let forgotten = state.queues.forgotten_of(&name).0;
        Ok(Response::new(pb::HistoryResponse { header, tenures, forgotten }))
    }

    async fn list(
        &self,
        request: tonic::Request<pb::ListLinesRequest>,
    ) -> Result<Response<pb::ListLinesResponse>, Status> {
        self.door.admit(request.metadata())?;
        let prefix = Bytes::from(request.into_inner().prefix);
        let (header, lines) = match self.read(Read::Lines(prefix, LISTED_MAX)).await? {
            (header, Reply::Lines(lines, _)) => (header, lines),
            (_, other) => return Err(unexpected(&other)),
        };
        let lines = lines
            .iter()
            .map(|line| pb::LineInfo {
                name: text(&line.name),
                holders: line.holders as u32,
                waiting: line.waiting as u32,
                frozen: line.frozen,
                leader: line.leader.as_ref().map(candidate),
            })
            .collect();
        Ok(Response::new(pb::ListLinesResponse { header, lines }))
    }

    async fn transfer(
        &self,
        request: tonic::Request<pb::TransferRequest>,
    ) -> Result<Response<pb::TransferResponse>, Status> {
        self.door.admit(request.metadata())?;
        let request = request.into_inner();
        let to = match LeaseId::from_wire(request.session) {
            Some(session) => Successor::Session(session),
            None => Successor::Identity(request.identity),
        };
        let within_ms = if request.within_ms == 0 { DRAIN_MS } else { request.within_ms };
        let rule = Rule::Transfer { name: named(request.name)?, to, within_ms };
        let (header, done) = self.rule(rule).await?;
        let token = if let LineDone::Token(token) = done { token.0 } else { 0 };
        Ok(Response::new(pb::TransferResponse { header, token }))
    }

    async fn evict(
        &self,
        request: tonic::Request<pb::EvictRequest>,
    ) -> Result<Response<pb::EvictResponse>, Status> {
        self.door.admit(request.metadata())?;
        let request = request.into_inner();
        let rule = Rule::Evict { name: named(request.name)?, token: token(request.token) };
        let (header, done) = self.rule(rule).await?;
        let evicted = match done {
            LineDone::Evicted(Some((place, identity))) => Some(pb::Candidate {
                identity,
                session: LeaseId::to_wire(place.lease),
                token: place.created.0,
                key: place.key.clone(),
                holds: place.holds(),
                stock: place.candidate.is_none(),
                ..Default::default()
            }),
            _ => None,
        };
        Ok(Response::new(pb::EvictResponse { header, evicted }))
    }

    async fn freeze(
        &self,
        request: tonic::Request<pb::FreezeRequest>,
    ) -> Result<Response<pb::FreezeResponse>, Status> {
        self.door.admit(request.metadata())?;
        let (header, _) = self.rule(Rule::Freeze(named(request.into_inner().name)?)).await?;
        Ok(Response::new(pb::FreezeResponse { header }))
    }

    async fn resume(
        &self,
        request: tonic::Request<pb::ResumeRequest>,
    ) -> Result<Response<pb::ResumeResponse>, Status> {
        self.door.admit(request.metadata())?;
        let (header, _) = self.rule(Rule::Resume(named(request.into_inner().name)?)).await?;
        Ok(Response::new(pb::ResumeResponse { header }))
    }
}

/// A name that is none stands for no line. Other odd names may be those of clients of etcd's.
fn named(name: String) -> Result<Bytes, Status> {
    if name.is_empty() { Err(refuse_rule(Refusal::BadName)) } else { Ok(name.into()) }
}

/// What an observer is told, until this member stops or has missed the raft leader for too long, or the
/// observer lags too far behind.
fn observed(
    door: Door,
    outlet: LineOutlet,
    limits: Option<Limits>,
) -> impl Stream<Item = Result<pb::ObserveResponse, Status>> + Send {
    futures_util::stream::unfold(Some((door, outlet)), move |told| async move {
        let (door, mut outlet) = told?;
        let cut_off = OptionFuture::from(limits.map(|limits| leader_gone(door.clone(), limits)));
        let mut cut_off = std::pin::pin!(cut_off);
        loop {
            let news = tokio::select! {
                biased;
                news = outlet.news.recv() => news,
                Some(()) = &mut cut_off, if limits.is_some() => {
                    return Some((Err(refuse(Failure::NoLeader)), None));
                }
            };
            match news {
                Some((LineNews::Observed(seen), stamp)) => {
                    return Some((Ok(observation(&door, &seen, stamp)), Some((door, outlet))));
                }
                Some(_) => {}
                None => return Some((Err(Status::unavailable(LET_GO)), None)),
            }
        }
    })
}

fn observation(door: &Door, seen: &Observed, stamp: Stamp) -> pb::ObserveResponse {
    use pb::observe_response::What;
    let what = match seen {
        Observed::Began(began, kv) => {
            let mut began = tenure(began);
            if let Some(kv) = kv {
                began.value = kv.value.clone();
            }
            What::Began(began)
        }
        Observed::Proclaimed(proclaimed, kv) => {
            What::Proclaimed(pb::Tenure { value: kv.value.clone(), ..tenure(proclaimed) })
        }
        Observed::Ended(ended) => What::Ended(tenure(ended)),
        Observed::Vacant { frozen, .. } => What::NoLeader(pb::NoLeader { frozen: *frozen }),
        Observed::Forgotten(_) => What::Forgotten(pb::Forgotten {}),
    };
    // What follows an end happens at the same revision. Whoever heard only of the end and resumes must
    // hear what followed, so the end is said to be a revision older.
    let revision = match seen {
        Observed::Ended(_) => seen.revision().0 - 1,
        _ => seen.revision().0,
    };
    pb::ObserveResponse { header: Some(door.header(stamp)), revision, what: Some(what) }
}
