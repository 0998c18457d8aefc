//! The way in: what the gRPC and HTTP services hold of the node.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tenure_api::{ClusterId, Failure, MemberId, Principal};
use tenure_replica::{
    Answer, Operation, Request, Status,
    command::{ELECTIONS_SINCE, USERS_SINCE},
    election::listeners::{Listener, ListenerEvent, ListenerInput},
    watch::{WatchInput, WatchStream},
};
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    streams::{Stamp, StreamNews},
    subscriptions::NEWS_MAX,
};
use crate::{
    Config,
    admission::{Admitted, OpenRequest, OpenRequests},
    audit::Audit,
    auth::{SimpleTokens, TOKEN_TTL},
    metrics::Metrics,
};

/// How long a request waits for a cluster that has just begun to know what it can do.
const CAPABLE_WAIT_MAX: Duration = Duration::from_secs(3);

/// A handle to the node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct NodeHandle {
    pub(super) submissions: mpsc::UnboundedSender<Submission>,
    pub(super) status: watch::Receiver<Arc<Status>>,
    streams: Arc<AtomicU64>,
    /// Requests that have no answer yet.
    open: OpenRequests,
    closed: Arc<watch::Sender<bool>>,
    /// What those that logged in were given.
    pub(crate) tokens: SimpleTokens,
    pub(crate) metrics: Arc<Metrics>,
    /// What is kept of changes that were asked for.
    pub(crate) audit: Audit,
    /// This member.
    pub me: MemberId,
    /// Its cluster.
    pub cluster: ClusterId,
}

/// What the services hand to the core loop.
#[derive(Debug)]
pub enum Submission {
    /// Something is asked, and to be answered there.
    Request(Request, oneshot::Sender<Answer>),
    /// Something is said on a watch stream.
    Watch(WatchInput),
    /// A watch stream opens, and is told there.
    Open(WatchStream, mpsc::UnboundedSender<StreamNews>),
    /// A listener subscribes, and gets its events there.
    Listen(Principal, ListenerInput, mpsc::Sender<(ListenerEvent, Stamp)>),
    /// And does not any more.
    Unsubscribe(Listener),
    /// This member will stop soon.
    HandOver,
}

impl NodeHandle {
    /// A handle to whatever receives its submissions, instead of a node: for simulators.
    pub fn alone(
        me: MemberId,
        cluster: ClusterId,
        status: watch::Receiver<Arc<Status>>,
    ) -> (NodeHandle, mpsc::UnboundedReceiver<Submission>) {
        let (submissions, handed_in) = mpsc::unbounded_channel();
        let metrics = Arc::new(Metrics::new(&Config::default()));
        let tokens = SimpleTokens::new(TOKEN_TTL, status.borrow().auth);
        (NodeHandle::new(me, cluster, (submissions, status), tokens, metrics), handed_in)
    }

    /// A handle without a node to answer it.
    #[cfg(test)]
    pub(crate) fn unanswered() -> NodeHandle {
        use tenure_replica::{HardState, Moment, Recovered, Replica, ReplicaConfig};
        let config = Config::default();
        let members = config.members();
        let me = members[0].id;
        let hard_state = HardState::default();
        let nothing = Recovered { boot: 1, snapshot: None, hard_state, entries: vec![] };
        let replica = Replica::new(Moment::ZERO, ReplicaConfig::new(me, members), nothing);
        let (_, status) = watch::channel(Arc::new(replica.status()));
        NodeHandle::alone(me, config.cluster_id(), status).0
    }

    pub(super) fn new(
        me: MemberId,
        cluster: ClusterId,
        (submissions, status): (mpsc::UnboundedSender<Submission>, watch::Receiver<Arc<Status>>),
        tokens: SimpleTokens,
        metrics: Arc<Metrics>,
    ) -> NodeHandle {
        let (streams, open) = (Arc::default(), OpenRequests::default());
        let closed = Arc::new(watch::Sender::new(false));
        let audit = Audit::default();
        NodeHandle {
            submissions,
            status,
            streams,
            open,
            closed,
            tokens,
            metrics,
            audit,
            me,
            cluster,
        }
    }

    /// The same with an audit log.
    pub(crate) fn audited(self, audit: Audit) -> NodeHandle {
        NodeHandle { audit, ..self }
    }

    /// Asks the node and waits for its one answer.
    pub async fn ask(&self, by: &Admitted, op: Operation) -> Result<Answer, Failure> {
        self.begin(by, op).await
    }

    /// Asks the node at once; its one answer can be waited for, and comes about whether or not it is.
    pub fn begin(
        &self,
        by: &Admitted,
        op: Operation,
    ) -> impl Future<Output = Result<Answer, Failure>> + Send + use<> {
        let pending = self.audit.begin(by, &op);
        let begun = self.submit(by, op);
        async {
            let answered = match begun {
                Ok((_open, answer)) => answer.await.map_err(|_| Failure::Stopped),
                Err(failure) => Err(failure),
            };
            if let Some(pending) = pending {
                pending.came_to(&answered);
            }
            answered
        }
    }

    fn submit(
        &self,
        by: &Admitted,
        op: Operation,
    ) -> Result<(OpenRequest, oneshot::Receiver<Answer>), Failure> {
        let open = self.open.begin(&op)?;
        let request = Request { by: by.principal().clone(), op };
        let (sender, receiver) = oneshot::channel();
        self.submissions
            .send(Submission::Request(request, sender))
            .map_err(|_| Failure::Stopped)?;
        Ok((open, receiver))
    }

    /// Opens a watch stream.
    pub fn open_watch(&self) -> WatchSubscription {
        let (sender, news) = mpsc::unbounded_channel();
        let stream = self.streams.fetch_add(1, Ordering::Relaxed);
        let _ = self.submissions.send(Submission::Open(stream, sender));
        WatchSubscription { stream, news, node: self.clone() }
    }

    /// Listens to an election, a candidate in it or a session.
    pub fn listen(
        &self,
        by: &Admitted,
        ask: impl FnOnce(Listener) -> ListenerInput,
    ) -> Subscription {
        let (sender, news) = mpsc::channel(NEWS_MAX);
        let listener = self.streams.fetch_add(1, Ordering::Relaxed);
        let _ = self.submissions.send(Submission::Listen(
            by.principal().clone(),
            ask(listener),
            sender,
        ));
        Subscription { listener, news, submissions: self.submissions.clone() }
    }

    /// Waits until every member can do elections and locks: moments after a cluster's first start, or
    /// when the last member of an old one was replaced.
    pub async fn elections_ready(&self) -> Result<(), Failure> {
        self.is_capable_of(ELECTIONS_SINCE).await
    }

    /// The same for users and roles.
    pub(crate) async fn users_ready(&self) -> Result<(), Failure> {
        self.is_capable_of(USERS_SINCE).await
    }

    async fn is_capable_of(&self, version: u32) -> Result<(), Failure> {
        let ready = |status: &Arc<Status>| status.cluster_version >= version;
        if ready(&self.status.borrow()) {
            return Ok(());
        }
        let waited = tokio::time::timeout(CAPABLE_WAIT_MAX, self.status_when(ready)).await;
        waited.map(|_| ()).map_err(|_| Failure::NotCapable)
    }

    /// Says something on a watch stream.
    pub fn watch(&self, input: WatchInput) {
        let _ = self.submissions.send(Submission::Watch(input));
    }

    /// Ends all waiting for a turn: this member stops.
    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Whether it was closed.
    pub(crate) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Waits until it is closed.
    pub(crate) async fn closed(&self) {
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    /// This member will stop soon: another member shall lead.
    pub fn hand_over(&self) {
        let _ = self.submissions.send(Submission::HandOver);
    }

    /// How the member stands, a few milliseconds ago at the most.
    pub fn status(&self) -> Arc<Status> {
        self.status.borrow().clone()
    }

    /// Waits until the member's status is as asked for.
    pub async fn status_when(&self, wanted: impl FnMut(&Arc<Status>) -> bool) -> Arc<Status> {
        let mut status = self.status.clone();
        match status.wait_for(wanted).await {
            Ok(status) => status.clone(),
            Err(_) => self.status(),
        }
    }
}

/// The receiving end of a watch stream. Dropping it closes the stream.
#[derive(Debug)]
pub struct WatchSubscription {
    /// The stream's number.
    pub stream: WatchStream,
    /// What it is told.
    pub news: mpsc::UnboundedReceiver<StreamNews>,
    node: NodeHandle,
}

impl Drop for WatchSubscription {
    fn drop(&mut self) {
        self.news.close();
        while let Ok(news) = self.news.try_recv() {
            if let StreamNews::Events(_, events, _) = news {
                self.node.metrics.mvcc.events_pending.sub(events.ends.len() as i64);
            }
        }
        self.node.watch(WatchInput::Closed(self.stream));
    }
}

/// The receiving end of a listener. Dropping it ends the listening.
#[derive(Debug)]
pub struct Subscription {
    listener: Listener,
    /// What it is told. Ends when this member stops, or when too much was told and not taken.
    pub news: mpsc::Receiver<(ListenerEvent, Stamp)>,
    submissions: mpsc::UnboundedSender<Submission>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let _ = self.submissions.send(Submission::Unsubscribe(self.listener));
    }
}
