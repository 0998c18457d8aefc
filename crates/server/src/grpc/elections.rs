//! Lines as others see them, and what an operator may do about them.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::{Stream, future::OptionFuture};
use tenure_api::{Failure, LeaseId, Principal, wire::tenure::v1 as pb};
use tenure_replica::{
    Consistency, ElectionOutcome, ElectionView, Operation, Read, Reply, State,
    auth::Need,
    command::{AdminCommand, Command, ElectionCommand, Successor},
    election::{
        Refusal,
        listeners::{ListenerEvent, ListenerInput, Observed},
    },
};
use tonic::{Response, Status};

use super::{
    RequestLimits,
    blocking::BlockingPool,
    convert::{candidate, election_outcome, refuse_rule, tenure, text, token},
    follow::Feed,
    overview::{self, LISTED_MAX},
    reply::{refuse, unexpected},
    stubs::elections_server,
    watch::leader_gone,
};
use crate::{
    admission::Admitted,
    node::{NodeHandle, Stamp, Subscription},
};

/// How long a leader may take to drain unless the request says otherwise.
const DRAIN_MS: u64 = 10_000;
/// To an observer that is told nothing more.
const LET_GO: &str = "tenure: the member stops, or the observer took its news too slowly; observe again \
                      after the last revision";

pub(super) struct Elections {
    node: NodeHandle,
    /// Without them an observer is never told that this member may know nothing new.
    limits: Option<RequestLimits>,
    feed: Feed,
    lists: BlockingPool,
    /// Answers to share, with when each was asked for; the oldest first.
    shared: Mutex<VecDeque<(Instant, pb::ListElectionsRequest, pb::ListElectionsResponse)>>,
}

/// Answers of [`Elections::overview`] that are kept to be shared.
const SHARED_MAX: usize = 16;

type Header = Option<tenure_api::wire::etcdserverpb::ResponseHeader>;

impl Elections {
    pub(super) fn new(node: NodeHandle, limits: Option<RequestLimits>) -> Elections {
        let (feed, lists) = (Feed::new(node.clone()), BlockingPool::reads());
        Elections { node, limits, feed, lists, shared: Mutex::default() }
    }

    /// Part of all elections, with what is to be said of each. Chosen and counted beside the core loop.
    async fn overview(
        &self,
        by: &Admitted,
        request: pb::ListElectionsRequest,
    ) -> Result<pb::ListElectionsResponse, Status> {
        let (header, state) = self.state(&Need::User, by).await?;
        let with_tenures = request.with_tenures;
        let (asked, key) = (Instant::now(), request.clone());
        let principal = by.principal().clone();
        let page = move || overview::page(&state, &principal, &request, overview::unix_ms());
        let mut response = self.lists.run(page).await.map_err(refuse)?;
        response.header = header;
        if with_tenures {
            let leases = overview::leases(&response.elections);
            let read = Operation::Read(Read::LeaseTimes(leases), Consistency::Serializable);
            if let (_, Reply::LeaseTimes(times)) = self.node.open(self.node.ask(by, read).await)? {
                for (election, times) in response.elections.iter_mut().zip(times) {
                    let (ttl, remaining) = times.unwrap_or_default();
                    election.ttl_ms = ttl.as_millis() as u64;
                    election.remaining_ms = remaining.as_millis() as u64;
                }
            }
        }
        if key.age_max_ms > 0 && !self.node.tokens.is_enabled() {
            let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            shared.push_back((asked, key, response.clone()));
            while shared.len() > SHARED_MAX {
                shared.pop_front();
            }
        }
        Ok(response)
    }

    /// An answer to the same request that is young enough. Of two that ask at the same time each may still be the first.
    fn shared(&self, request: &pb::ListElectionsRequest) -> Option<pb::ListElectionsResponse> {
        let age_max = Duration::from_millis(request.age_max_ms.into());
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let fits =
            |(asked, other, _): &&(Instant, _, _)| asked.elapsed() < age_max && other == request;
        shared.iter().rev().find(fits).map(|(_, _, response)| response.clone())
    }

    async fn view(&self, by: &Admitted, name: String) -> Result<(Header, ElectionView), Status> {
        match self.read(by, Read::Election(named(name)?)).await? {
            (header, Reply::Election(view)) => Ok((header, *view)),
            (_, other) => Err(unexpected(&other)),
        }
    }

    async fn read(&self, by: &Admitted, read: Read) -> Result<(Header, Reply), Status> {
        self.node.elections_ready().await.map_err(refuse)?;
        let request = Operation::Read(read, Consistency::Linearizable);
        self.node.open(self.node.ask(by, request).await)
    }

    /// The whole state, for one that has what is needed in just that state.
    async fn state(&self, need: &Need, by: &Admitted) -> Result<(Header, State), Status> {
        let itself = Admitted::in_process(Principal::System);
        match self.read(&itself, Read::State).await? {
            (header, Reply::State(snapshot)) => {
                snapshot.state.may(by.principal(), need).map_err(refuse)?;
                Ok((header, snapshot.state))
            }
            (_, other) => Err(unexpected(&other)),
        }
    }

    async fn rule(
        &self,
        by: &Admitted,
        rule: AdminCommand,
    ) -> Result<(Header, ElectionOutcome), Status> {
        self.node.elections_ready().await.map_err(refuse)?;
        let request = Operation::Write(Command::Election(ElectionCommand::Admin(rule)));
        let (header, reply) = self.node.open(self.node.ask(by, request).await)?;
        Ok((header, election_outcome(reply)?.map_err(refuse_rule)?))
    }
}

#[tonic::async_trait]
impl elections_server::Elections for Elections {
    async fn candidates(
        &self,
        request: tonic::Request<pb::CandidatesRequest>,
    ) -> Result<Response<pb::CandidatesResponse>, Status> {
        let (by, request) = self.node.admit(request)?;
        let (header, view) = self.view(&by, request.name).await?;
        Ok(Response::new(pb::CandidatesResponse {
            header,
            candidates: view.candidates.iter().map(candidate).collect(),
            frozen: view.election.is_frozen(),
            successor: view.election.transfer().map_or(0, |transfer| transfer.to.0),
            delay_ms: view.delay.map(|left| left.as_millis() as u64),
        }))
    }

    type ObserveStream = Pin<Box<dyn Stream<Item = Result<pb::ObserveResponse, Status>> + Send>>;

    async fn observe(
        &self,
        request: tonic::Request<pb::ObserveRequest>,
    ) -> Result<Response<Self::ObserveStream>, Status> {
        let (by, request) = self.node.admit(request)?;
        let (name, after) = (named(request.name)?, token(request.after_revision));
        // What this member has not heard of yet must not be taken for nothing.
        self.read(&by, Read::Freshness).await?;
        let subscription =
            self.node.listen(&by, |listener| ListenerInput::Observe { listener, name, after });
        Ok(Response::new(Box::pin(observed(self.node.clone(), subscription, self.limits))))
    }

    async fn history(
        &self,
        request: tonic::Request<pb::HistoryRequest>,
    ) -> Result<Response<pb::HistoryResponse>, Status> {
        let (by, request) = self.node.admit(request)?;
        let name = named(request.name)?;
        // The whole state, whose clone is O(1): this election may have been forgotten altogether before it came
        // anew, and up to where that can be, only the elections' state knows.
        let (header, state) = self.state(&Need::Observe(name.clone()), &by).await?;
        let election = state.elections.election(&name).cloned().unwrap_or_default();
        let tenures = election.tenures().map(tenure).collect();
        let forgotten = state.elections.forgotten_of(&name).0;
        Ok(Response::new(pb::HistoryResponse { header, tenures, forgotten }))
    }

    async fn list(
        &self,
        request: tonic::Request<pb::ListElectionsRequest>,
    ) -> Result<Response<pb::ListElectionsResponse>, Status> {
        let (by, request) = self.node.admit(request)?;
        let only_prefix =
            pb::ListElectionsRequest { prefix: request.prefix.clone(), ..Default::default() };
        // What each principal may see differs where there are users.
        let has_users = self.node.tokens.is_enabled();
        if !has_users && let Some(response) = self.shared(&request) {
            return Ok(Response::new(response));
        }
        if has_users || request != only_prefix {
            return Ok(Response::new(self.overview(&by, request).await?));
        }
        let prefix = Bytes::from(request.prefix);
        let (header, elections) = match self.read(&by, Read::Elections(prefix, LISTED_MAX)).await? {
            (header, Reply::Elections(elections, _)) => (header, elections),
            (_, other) => return Err(unexpected(&other)),
        };
        let elections = elections
            .iter()
            .map(|election| pb::ElectionInfo {
                name: text(&election.name),
                holders: election.holders as u32,
                waiting: election.waiting as u32,
                frozen: election.frozen,
                leader: election.leader.as_ref().map(candidate),
                ..Default::default()
            })
            .collect();
        Ok(Response::new(pb::ListElectionsResponse { header, elections, ..Default::default() }))
    }

    type FollowStream = Pin<Box<dyn Stream<Item = Result<pb::FollowResponse, Status>> + Send>>;

    async fn follow(
        &self,
        request: tonic::Request<pb::FollowRequest>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let (by, request) = self.node.admit(request)?;
        // What this member has not heard of yet must not be missing.
        let (header, _) = self.read(&by, Read::Judged(Need::User)).await?;
        let fresh = header.map_or(0, |header| header.revision);
        let principal = by.principal().clone();
        Ok(Response::new(Box::pin(self.feed.follow(principal, request, fresh, self.limits))))
    }

    async fn transfer(
        &self,
        request: tonic::Request<pb::TransferRequest>,
    ) -> Result<Response<pb::TransferResponse>, Status> {
        let (by, request) = self.node.admit(request)?;
        let to = match LeaseId::from_wire(request.session) {
            Some(session) => Successor::Session(session),
            None => Successor::Identity(request.identity),
        };
        let within_ms = if request.within_ms == 0 { DRAIN_MS } else { request.within_ms };
        let rule = AdminCommand::Transfer { name: named(request.name)?, to, within_ms };
        let (header, done) = self.rule(&by, rule).await?;
        let token = if let ElectionOutcome::Token(token) = done { token.0 } else { 0 };
        Ok(Response::new(pb::TransferResponse { header, token }))
    }

    async fn evict(
        &self,
        request: tonic::Request<pb::EvictRequest>,
    ) -> Result<Response<pb::EvictResponse>, Status> {
        let (by, request) = self.node.admit(request)?;
        let rule = AdminCommand::Evict { name: named(request.name)?, token: token(request.token) };
        let (header, done) = self.rule(&by, rule).await?;
        let evicted = match done {
            ElectionOutcome::Evicted(Some((candidate, identity))) => Some(pb::Candidate {
                identity,
                session: LeaseId::to_wire(candidate.lease),
                token: candidate.created.0,
                key: candidate.key.clone(),
                holds: candidate.holds(),
                stock: candidate.spec.is_none(),
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
        let (by, request) = self.node.admit(request)?;
        let (header, _) = self.rule(&by, AdminCommand::Freeze(named(request.name)?)).await?;
        Ok(Response::new(pb::FreezeResponse { header }))
    }

    async fn resume(
        &self,
        request: tonic::Request<pb::ResumeRequest>,
    ) -> Result<Response<pb::ResumeResponse>, Status> {
        let (by, request) = self.node.admit(request)?;
        let (header, _) = self.rule(&by, AdminCommand::Resume(named(request.name)?)).await?;
        Ok(Response::new(pb::ResumeResponse { header }))
    }
}

/// An empty name is refused. Other odd names may be those of stock clients.
fn named(name: String) -> Result<Bytes, Status> {
    if name.is_empty() { Err(refuse_rule(Refusal::BadName)) } else { Ok(name.into()) }
}

/// What an observer is told, until this member stops or has missed the raft leader for too long, or the
/// observer lags too far behind.
fn observed(
    node: NodeHandle,
    subscription: Subscription,
    limits: Option<RequestLimits>,
) -> impl Stream<Item = Result<pb::ObserveResponse, Status>> + Send {
    futures_util::stream::unfold(Some((node, subscription)), move |told| async move {
        let (node, mut subscription) = told?;
        let cut_off = OptionFuture::from(limits.map(|limits| leader_gone(node.clone(), limits)));
        let mut cut_off = std::pin::pin!(cut_off);
        loop {
            let news = tokio::select! {
                biased;
                news = subscription.news.recv() => news,
                Some(()) = &mut cut_off, if limits.is_some() => {
                    return Some((Err(refuse(Failure::NoLeader)), None));
                }
            };
            match news {
                Some((ListenerEvent::Observed(seen), stamp)) => {
                    return Some((
                        Ok(observation(&node, &seen, stamp)),
                        Some((node, subscription)),
                    ));
                }
                Some((ListenerEvent::Denied(failure), _)) => {
                    return Some((Err(refuse(failure)), None));
                }
                Some(_) => {}
                None => return Some((Err(Status::unavailable(LET_GO)), None)),
            }
        }
    })
}

fn observation(node: &NodeHandle, seen: &Observed, stamp: Stamp) -> pb::ObserveResponse {
    use pb::observe_response::Event;
    let event = match seen {
        Observed::Began(began, kv) => {
            let mut began = tenure(began);
            if let Some(kv) = kv {
                began.value = kv.value.clone();
            }
            Event::Began(began)
        }
        Observed::Proclaimed(proclaimed, kv) => {
            Event::Proclaimed(pb::Tenure { value: kv.value.clone(), ..tenure(proclaimed) })
        }
        Observed::Ended(ended) => Event::Ended(tenure(ended)),
        Observed::Vacant { frozen, .. } => Event::NoLeader(pb::NoLeader { frozen: *frozen }),
        Observed::Forgotten(_) => Event::Forgotten(pb::Forgotten {}),
    };
    // What follows an end happens at the same revision. An observer that heard only of the end and resumes must
    // hear what followed, so the end is said to be a revision older.
    let revision = match seen {
        Observed::Ended(_) => seen.revision().0 - 1,
        _ => seen.revision().0,
    };
    pb::ObserveResponse { header: Some(node.header(stamp)), revision, event: Some(event) }
}
