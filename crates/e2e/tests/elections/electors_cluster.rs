//! Electors with what only tenure's own means can do: no overlap, priority.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use tenure::{
    Engine, FencingToken,
    api::wire::tenure::v1 as pb,
    elector::{ElectorConfig, LeaderElector, Scope},
};
use tenure_e2e::{Cluster, Relay, recipes::bounded, session::elections};
use tokio::sync::{Semaphore, mpsc};

/// No test may have to wait for this to be over.
const LEASE: Duration = Duration::from_secs(120);
/// How long it is checked that an elector that must not lead does not.
const EARLY: Duration = Duration::from_millis(500);

fn config(value: &str) -> ElectorConfig {
    let mut config = ElectorConfig::new("job").unwrap();
    config.lease_duration = LEASE;
    config.retry_period = Duration::from_millis(300);
    config.stop_grace = LEASE;
    config.value = Some(value.into());
    config
}

/// An elector whose work needs leave to end, and tells when it begins and ends.
struct Worker {
    elector: LeaderElector,
    leads: mpsc::UnboundedReceiver<FencingToken>,
    /// A permit for each work that may end.
    finish: Arc<Semaphore>,
}

impl Worker {
    fn start(cluster: &Cluster, config: ElectorConfig) -> Worker {
        Worker::start_at(&cluster.endpoints(), config)
    }

    fn start_at(endpoints: &str, config: ElectorConfig) -> Worker {
        let engine = Engine::tenure(endpoints).unwrap();
        let elector = LeaderElector::new(engine, config).unwrap();
        let (led, leads) = mpsc::unbounded_channel();
        let finish = Arc::new(Semaphore::new(0));
        tokio::spawn({
            let (elector, finish) = (elector.clone(), Arc::clone(&finish));
            async move {
                let work = |scope: Scope| {
                    let _ = led.send(scope.token());
                    let finish = Arc::clone(&finish);
                    async move {
                        scope.cancelled().await;
                        finish.acquire().await.unwrap().forget();
                        ControlFlow::<()>::Continue(())
                    }
                };
                elector.run(work).await
            }
        });
        Worker { elector, leads, finish }
    }

    async fn leads(&mut self) -> FencingToken {
        bounded("it leads", self.leads.recv()).await.unwrap()
    }

    async fn does_not_lead(&mut self) {
        let early = tokio::time::timeout(EARLY, self.leads.recv()).await;
        assert!(early.is_err(), "it leads while another's work still runs");
    }

    fn let_end(&self) {
        self.finish.add_permits(1);
    }
}

/// What a kernel does when its process dies: the connection is closed.
#[tokio::test(flavor = "multi_thread")]
async fn elector_with_fast_release_is_followed_when_its_connection_is_closed() {
    let cluster = Cluster::start(1).await;
    let relay = Relay::to(cluster.members[0].client).await;
    let mut fast = config("fast");
    fast.fast_release = true;
    let mut first = Worker::start_at(&relay.address.to_string(), fast);
    let token = first.leads().await;
    drop(relay);
    let mut next = Worker::start(&cluster, config("next"));
    assert!(next.leads().await > token, "long before the lease is over");
}

/// However leadership was taken away: the next one's work begins when the last one's has ended, and not a lease later.
#[tokio::test(flavor = "multi_thread")]
async fn electors_that_want_no_overlap_work_one_after_the_other() {
    let cluster = Cluster::start(3).await;
    let mut operator = elections(cluster.members[0].client).await;
    let worker = |value| {
        let mut config = config(value);
        config.no_overlap = true;
        Worker::start(&cluster, config)
    };
    let (mut a, mut b) = (worker("a"), worker("b"));
    // Whichever came first.
    let (first, second) = tokio::select! {
        Some(_) = a.leads.recv() => (&mut a, &mut b),
        Some(_) = b.leads.recv() => (&mut b, &mut a),
    };
    two_in_line(&cluster).await;
    operator.evict(pb::EvictRequest { name: "job".into(), token: 0 }).await.unwrap();
    second.does_not_lead().await;
    first.let_end();
    let token = second.leads().await;

    // It is a candidate again, and its turn comes by the end of a whole session.
    let session = two_in_line(&cluster).await;
    cluster.client().sessions().revoke(session).await.unwrap();
    first.does_not_lead().await;
    second.let_end();
    assert!(first.leads().await > token, "tokens grow");
    for worker in [&a, &b] {
        worker.let_end();
        worker.elector.stop();
    }
}

/// One that is to be preferred takes over, as soon as the leader's work has made room.
#[tokio::test(flavor = "multi_thread")]
async fn preferred_elector_takes_over() {
    let cluster = Cluster::start(1).await;
    let mut plain = Worker::start(&cluster, config("plain"));
    let token = plain.leads().await;
    let mut config = config("preferred");
    (config.priority, config.preempts) = (5, true);
    let mut preferred = Worker::start(&cluster, config);
    preferred.does_not_lead().await;
    plain.let_end();
    assert!(preferred.leads().await > token, "tokens grow");
    for worker in [&plain, &preferred] {
        worker.let_end();
        worker.elector.stop();
    }
}

/// Waits until there are two candidates; answers the leader's session.
async fn two_in_line(cluster: &Cluster) -> i64 {
    let engine = Engine::tenure(&cluster.endpoints()).unwrap();
    tenure_e2e::eventually("two candidates", async || {
        let listed = engine.candidates("job").await.map_err(|error| error.to_string())?;
        match &listed[..] {
            [first, _] => Ok(first.session.unwrap().0),
            _ => Err(format!("{listed:?}")),
        }
    })
    .await
}
