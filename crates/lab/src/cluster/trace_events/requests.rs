//! Requests, answers, and events for listeners and watchers.

use tenure_api::LeaseId;
use tenure_replica::{
    Answer, Operation, Outcome, Read, Reply, RequestId,
    command::{Command, ElectionCommand, SessionRequest},
    election::listeners::ListenerEvent,
    watch::WatchNews,
};

use crate::{
    cluster::{World, member::MemberNumber},
    engine::TraceEvent,
    invariants::one_answer::OpenRequest,
};

impl World {
    pub(in crate::cluster) fn trace_ask(
        &mut self,
        client: usize,
        member: MemberNumber,
        id: RequestId,
        request: &Operation,
    ) {
        self.trace_event(|| {
            TraceEvent::new("ask", format!("asks m{member} #{id} {request:?}"))
                .of(format!("c{client}"))
                .with("to", format!("m{member}"))
                .with("request", id)
                .with("kind", kind(request))
                .with("lease", lease(request).map(|lease| lease.0))
        });
    }

    pub(in crate::cluster) fn trace_answer(
        &mut self,
        member: MemberNumber,
        open: &OpenRequest,
        answer: &Answer,
    ) {
        self.trace_event(|| {
            let (ok, outcome) = outcome(answer);
            TraceEvent::new("answer", format!("answers #{} {:?}", answer.to, answer.result))
                .of(format!("m{member}"))
                .with("to", format!("c{}", open.client))
                .with("request", answer.to)
                .with("kind", kind(&open.request))
                .with("ok", ok)
                .with("outcome", outcome)
                .with("revision", answer.revision.0)
        });
    }

    /// Traces that the member has died, and with it the answer.
    pub(in crate::cluster) fn trace_unanswered(&mut self, id: RequestId, open: &OpenRequest) {
        let OpenRequest { client, member, .. } = *open;
        self.trace_event(|| {
            TraceEvent::new("unanswered", format!("gets no answer to #{id}: m{member} is gone"))
                .of(format!("c{client}"))
                .with("from", format!("m{member}"))
                .with("request", id)
        });
    }

    /// Traces an event for a listener.
    pub(in crate::cluster) fn trace_election_news(
        &mut self,
        member: MemberNumber,
        listener: u64,
        news: &ListenerEvent,
    ) {
        let client = self.streams.get(&listener).map(|(client, _)| *client);
        self.trace_event(|| {
            let kind = match news {
                ListenerEvent::Held => "held",
                ListenerEvent::Gone(_) => "gone",
                ListenerEvent::Observed(_) => "observed",
                ListenerEvent::Session(_) => "session",
                ListenerEvent::Candidacies(_) => "candidates",
                ListenerEvent::Denied(_) => "denied",
            };
            TraceEvent::new("news", format!("tells #{listener} {news:?}"))
                .of(format!("m{member}"))
                .with("to", client.map(|client| format!("c{client}")))
                .with("stream", listener)
                .with("kind", kind)
        });
    }

    /// Traces an event for a watcher.
    pub(in crate::cluster) fn trace_watch_news(
        &mut self,
        member: MemberNumber,
        (client, stream): (usize, u64),
        news: &WatchNews,
    ) {
        // JSON only: there are many.
        if !self.trace.is_drawn() {
            return;
        }
        self.trace_event(|| {
            let kind = match news {
                WatchNews::Created { .. } => "created",
                WatchNews::Refused { .. } => "refused",
                WatchNews::Cancelled { .. } => "cancelled",
                WatchNews::Events { .. } => "events",
                WatchNews::Progress { .. } => "progress",
            };
            TraceEvent::new("news", format!("tells watch stream {stream}: {kind}"))
                .of(format!("m{member}"))
                .with("to", format!("c{client}"))
                .with("stream", stream)
                .with("kind", kind)
        });
    }
}

/// The kind of a request, in a word or two.
fn kind(request: &Operation) -> &'static str {
    match request {
        Operation::Write(command) => kind_of_write(command),
        Operation::CompactPhysically(_) => "compact",
        Operation::Read(read, _) => kind_of_read(read),
        Operation::MoveLeader(_) => "move leader",
    }
}

fn kind_of_write(command: &Command) -> &'static str {
    match command {
        Command::Put(_) => "put",
        Command::DeleteRange(_) => "delete",
        Command::Txn(_) => "transaction",
        Command::Compact(_) => "compact",
        Command::LeaseGrant { .. } => "grant",
        Command::LeaseRevoke(_) => "revoke",
        Command::LeaseEndUnused { .. } => "end unused lease",
        Command::LeaseRenew(_) => "renew",
        Command::Members(_) => "change members",
        Command::Election(election) => match election {
            ElectionCommand::Open { .. } => "open session",
            ElectionCommand::Attach { .. } => "attach",
            ElectionCommand::End { .. } => "end session",
            ElectionCommand::Request { request: ask, .. } => match ask {
                SessionRequest::Join(_) => "join",
                SessionRequest::Leave { .. } => "leave",
                SessionRequest::Proclaim { .. } => "proclaim",
                SessionRequest::Health { .. } => "health",
                SessionRequest::Yield { .. } => "yield",
            },
            ElectionCommand::Admin(_) => "rule",
            _ => "elections",
        },
        _ => "write",
    }
}

fn kind_of_read(read: &Read) -> &'static str {
    match read {
        Read::Range(_) => "range",
        Read::Txn(_) => "transaction",
        Read::Lease(..) => "lease",
        Read::Leases => "leases",
        Read::Members => "members",
        Read::Leader(_) => "leader",
        Read::Election(_) => "election",
        Read::Elections(..) => "elections",
        Read::Sessions => "sessions",
        _ => "read",
    }
}

/// The lease or session that a request is about.
fn lease(request: &Operation) -> Option<LeaseId> {
    match request {
        Operation::Write(
            Command::LeaseGrant { id, .. }
            | Command::LeaseEndUnused { id, .. }
            | Command::LeaseRevoke(id)
            | Command::LeaseRenew(id)
            | Command::Election(
                ElectionCommand::Open { id, .. }
                | ElectionCommand::Attach { id, .. }
                | ElectionCommand::End { id, .. }
                | ElectionCommand::Request { session: id, .. },
            ),
        )
        | Operation::Read(Read::Lease(id, _), _) => Some(*id),
        _ => None,
    }
}

/// Whether it was done, and its outcome or the reason.
fn outcome(answer: &Answer) -> (bool, String) {
    match &answer.result {
        Err(failure) => (false, failure.to_string()),
        Ok(Reply::Wrote(Outcome::Election(Err(refusal)))) => (false, refusal.to_string()),
        Ok(Reply::Wrote(Outcome::Txn(done)) | Reply::Txn(done)) if !done.succeeded => {
            (true, "otherwise".into())
        }
        Ok(_) => (true, "done".into()),
    }
}
