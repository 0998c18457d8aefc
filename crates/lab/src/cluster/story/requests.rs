//! What clients ask, what they are answered, and what members tell those who listen.

use tenure_api::LeaseId;
use tenure_replica::{
    Answer, Outcome, Read, Reply, Request, RequestId,
    command::{Ask, Command, LineCommand},
    queue::listeners::LineNews,
    watch::WatchNews,
};

use crate::{
    cluster::{World, member::Number},
    engine::Event,
    invariants::one_answer::Open,
};

impl World {
    pub(in crate::cluster) fn tell_ask(
        &mut self,
        client: usize,
        member: Number,
        id: RequestId,
        request: &Request,
    ) {
        self.tell_event(|| {
            Event::new("ask", format!("asks m{member} #{id} {request:?}"))
                .of(format!("c{client}"))
                .with("to", format!("m{member}"))
                .with("request", id)
                .with("kind", kind(request))
                .with("lease", lease(request).map(|lease| lease.0))
        });
    }

    pub(in crate::cluster) fn tell_answer(&mut self, member: Number, open: &Open, answer: &Answer) {
        self.tell_event(|| {
            let (ok, outcome) = outcome(answer);
            Event::new("answer", format!("answers #{} {:?}", answer.to, answer.result))
                .of(format!("m{member}"))
                .with("to", format!("c{}", open.client))
                .with("request", answer.to)
                .with("kind", kind(&open.request))
                .with("ok", ok)
                .with("outcome", outcome)
                .with("revision", answer.revision.0)
        });
    }

    /// The member that was asked is dead, and with it the answer.
    pub(in crate::cluster) fn tell_unanswered(&mut self, id: RequestId, open: &Open) {
        let Open { client, member, .. } = *open;
        self.tell_event(|| {
            Event::new("unanswered", format!("gets no answer to #{id}: m{member} is gone"))
                .of(format!("c{client}"))
                .with("from", format!("m{member}"))
                .with("request", id)
        });
    }

    /// Word of a line.
    pub(in crate::cluster) fn tell_line_news(
        &mut self,
        member: Number,
        listener: u64,
        news: &LineNews,
    ) {
        let client = self.streams.get(&listener).map(|(client, _)| *client);
        self.tell_event(|| {
            let kind = match news {
                LineNews::Held => "held",
                LineNews::Gone(_) => "gone",
                LineNews::Observed(_) => "observed",
                LineNews::Session(_) => "session",
                LineNews::Places(_) => "places",
            };
            Event::new("news", format!("tells #{listener} {news:?}"))
                .of(format!("m{member}"))
                .with("to", client.map(|client| format!("c{client}")))
                .with("stream", listener)
                .with("kind", kind)
        });
    }

    /// Word to a watcher.
    pub(in crate::cluster) fn tell_watch_news(
        &mut self,
        member: Number,
        (client, stream): (usize, u64),
        news: &WatchNews,
    ) {
        // There is much of it.
        if !self.trace.is_drawn() {
            return;
        }
        self.tell_event(|| {
            let kind = match news {
                WatchNews::Created { .. } => "created",
                WatchNews::Refused { .. } => "refused",
                WatchNews::Cancelled { .. } => "cancelled",
                WatchNews::Events { .. } => "events",
                WatchNews::Progress { .. } => "progress",
            };
            Event::new("news", format!("tells watch stream {stream}: {kind}"))
                .of(format!("m{member}"))
                .with("to", format!("c{client}"))
                .with("stream", stream)
                .with("kind", kind)
        });
    }
}

/// A request in a word or two.
fn kind(request: &Request) -> &'static str {
    match request {
        Request::Write(command) => kind_of_write(command),
        Request::CompactPhysically(_) => "compact",
        Request::Read(read, _) => kind_of_read(read),
        Request::MoveLeader(_) => "move leader",
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
        Command::LeaseRenew(_) => "renew",
        Command::Members(_) => "change members",
        Command::Line(line) => match line {
            LineCommand::Open { .. } => "open session",
            LineCommand::Attach { .. } => "attach",
            LineCommand::End { .. } => "end session",
            LineCommand::Ask { ask, .. } => match ask {
                Ask::Join(_) => "join",
                Ask::Leave { .. } => "leave",
                Ask::Proclaim { .. } => "proclaim",
                Ask::Health { .. } => "health",
                Ask::Yield { .. } => "yield",
            },
            LineCommand::Rule(_) => "rule",
            _ => "lines",
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
        Read::Line(_) => "line",
        Read::Lines(..) => "lines",
        Read::Sessions => "sessions",
        _ => "read",
    }
}

/// The lease or session that a request is about.
fn lease(request: &Request) -> Option<LeaseId> {
    match request {
        Request::Write(
            Command::LeaseGrant { id, .. }
            | Command::LeaseRevoke(id)
            | Command::LeaseRenew(id)
            | Command::Line(
                LineCommand::Open { id, .. }
                | LineCommand::Attach { id, .. }
                | LineCommand::End { id, .. }
                | LineCommand::Ask { session: id, .. },
            ),
        )
        | Request::Read(Read::Lease(id, _), _) => Some(*id),
        _ => None,
    }
}

/// Whether it was done, and what came of it or why not.
fn outcome(answer: &Answer) -> (bool, String) {
    match &answer.result {
        Err(failure) => (false, failure.to_string()),
        Ok(Reply::Wrote(Outcome::Line(Err(refusal)))) => (false, refusal.to_string()),
        Ok(Reply::Wrote(Outcome::Txn(done)) | Reply::Txn(done)) if !done.succeeded => {
            (true, "otherwise".into())
        }
        Ok(_) => (true, "done".into()),
    }
}
