//! Work that one of many does.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::elector::{
    Cancelled, ElectorConfig, ElectorState, Ended, LeaderElector, OnDoubt, Scope,
};
use tenure::{FencingToken, Loss};
use tokio::sync::{mpsc, oneshot};

use super::{Ground, bounded};
use crate::eventually;

type Again = ControlFlow<()>;

/// Short times, in client-go's order.
pub fn config(value: &str) -> ElectorConfig {
    let mut config = ElectorConfig::new("job").unwrap();
    config.lease_duration = Duration::from_secs(3);
    config.renew_deadline = Duration::from_secs(2);
    config.retry_period = Duration::from_millis(300);
    config.value = Some(value.into());
    config
}

fn elector(ground: &Ground, config: ElectorConfig) -> LeaderElector {
    LeaderElector::new(ground.engine.clone(), config).unwrap()
}

/// Waits until it is cancelled, and says so.
async fn until_cancelled(scope: Scope, tell: mpsc::UnboundedSender<Cancelled>) -> Again {
    let _ = tell.send(scope.cancelled().await);
    ControlFlow::Continue(())
}

/// Runs an elector that tells when it leads and why its work had to end.
fn running(
    ground: &Ground,
    value: &str,
) -> (LeaderElector, mpsc::UnboundedReceiver<FencingToken>, mpsc::UnboundedReceiver<Cancelled>) {
    let elector = elector(ground, config(value));
    let (led, leads) = mpsc::unbounded_channel();
    let (cancel, cancels) = mpsc::unbounded_channel();
    let run = elector.clone();
    tokio::spawn(async move {
        let work = |scope: Scope| {
            let _ = led.send(scope.token());
            until_cancelled(scope, cancel.clone())
        };
        run.run(work).await
    });
    (elector, leads, cancels)
}

/// client-go#728, kubernetes#139991: leadership is given up only after the work has ended.
pub async fn elector_releases_only_after_the_work_has_ended(ground: &Ground) {
    let (first, second) = (elector(ground, config("a")), elector(ground, config("b")));
    let (led, mut leads) = mpsc::unbounded_channel();
    let (finish, finished) = oneshot::channel::<()>();
    let run = tokio::spawn({
        let (elector, led, mut finished) = (first.clone(), led.clone(), Some(finished));
        async move {
            let work = |scope: Scope| {
                led.send("a").unwrap();
                let finished = finished.take().unwrap();
                async move {
                    scope.cancelled().await;
                    // Cleaning up takes as long as it takes.
                    finished.await.unwrap();
                    Again::Continue(())
                }
            };
            elector.run(work).await
        }
    });
    assert_eq!(bounded("a leads", leads.recv()).await, Some("a"));
    tokio::spawn({
        let elector = second.clone();
        async move {
            let work = |scope: Scope| {
                led.send("b").unwrap();
                async move {
                    scope.cancelled().await;
                    Again::Continue(())
                }
            };
            elector.run(work).await
        }
    });
    ground.has_candidates("job", 2).await;
    first.stop();
    let early = tokio::time::timeout(Duration::from_millis(500), leads.recv()).await;
    assert!(early.is_err(), "b leads while a is still cleaning up");
    finish.send(()).unwrap();
    assert_eq!(bounded("b leads", leads.recv()).await, Some("b"));
    assert_eq!(bounded("a has stopped", run).await.unwrap(), Ended::Stopped);
    assert_eq!(first.state(), ElectorState::Standby);
    second.stop();
}

/// kuberhealthy#1533: it campaigns again, for ever, and `on_stopped_leading` is called only after it led.
pub async fn elector_leads_again_after_it_has_lost(ground: &Ground) {
    let stopped = Arc::new(AtomicUsize::new(0));
    let elector = elector(ground, config("a")).on_stopped_leading({
        let stopped = Arc::clone(&stopped);
        move |_| {
            stopped.fetch_add(1, Ordering::SeqCst);
        }
    });
    let (led, mut leads) = mpsc::unbounded_channel::<FencingToken>();
    let (cancel, mut cancels) = mpsc::unbounded_channel();
    let run = tokio::spawn({
        let elector = elector.clone();
        async move {
            let work = |scope: Scope| {
                led.send(scope.token()).unwrap();
                until_cancelled(scope, cancel.clone())
            };
            elector.run(work).await
        }
    });
    let mut last = None;
    for round in 0..3 {
        let token = bounded("leads", leads.recv()).await;
        assert!(token > last, "tokens grow");
        last = token;
        assert!(elector.is_leader());
        assert_eq!(stopped.load(Ordering::SeqCst), round);
        let lease = ground.has_candidates("job", 1).await[0].lease;
        ground.client().lease().revoke(lease).await.unwrap();
        let why = bounded("cancelled", cancels.recv()).await.unwrap();
        assert!(matches!(why, Cancelled::Lost(_)), "{why:?}");
    }
    bounded("leads", leads.recv()).await.unwrap();
    elector.stop();
    assert_eq!(bounded("stopped", run).await.unwrap(), Ended::Stopped);
    assert_eq!(stopped.load(Ordering::SeqCst), 4);
    ground.has_candidates("job", 0).await;
}

/// Work that is done for good ends the elector, with its result.
pub async fn elector_ends_when_the_work_is_done_for_good(ground: &Ground) {
    let elector = elector(ground, config("a"));
    let run = elector.run(|scope: Scope| async move { ControlFlow::Break(scope.token().get()) });
    let Ended::Done(token) = bounded("done", run).await else { panic!("nobody stopped it") };
    assert!(token > 0);
    ground.has_candidates("job", 0).await;
}

/// In doubt the work is stopped while leadership is still ours, and begun again when it is.
pub async fn elector_stops_the_work_in_doubt(ground: &Ground) {
    let (elector, mut leads, mut cancels) = running(ground, "a");
    bounded("leads", leads.recv()).await.unwrap();
    assert_eq!(elector.healthz().check(Duration::ZERO), Ok(()));
    ground.pause();
    let why = bounded("cancelled", cancels.recv()).await.unwrap();
    assert_eq!(why, Cancelled::Doubt);
    ground.resume();
    bounded("leads again", leads.recv()).await.unwrap();
    let metrics = elector.metrics();
    assert!(metrics.slowpath_total > 0, "{metrics}");
    assert!(metrics.to_string().contains("leader_election_master_status{name=\"job\"} 1"));
    elector.stop();
}

/// An elector that continues in doubt does not stop for a server that is away, and knows the token to use after.
pub async fn elector_goes_on_in_doubt_if_it_is_told_to(ground: &Ground) {
    let mut config = config("a");
    config.on_doubt = OnDoubt::Continue;
    let elector = elector(ground, config);
    let (led, mut leads) = mpsc::unbounded_channel();
    let runs = Arc::new(AtomicUsize::new(0));
    tokio::spawn({
        let (elector, runs) = (elector.clone(), Arc::clone(&runs));
        async move {
            let work = |scope: Scope| {
                runs.fetch_add(1, Ordering::SeqCst);
                led.send(scope.clone()).unwrap();
                async move {
                    scope.cancelled().await;
                    Again::Continue(())
                }
            };
            elector.run(work).await
        }
    });
    let scope = bounded("leads", leads.recv()).await.unwrap();
    let token = scope.token();
    ground.pause();
    eventually("the lease is over", async || match elector.state() {
        ElectorState::Lost(Loss::Unconfirmed) => Ok(()),
        state => Err(format!("{state:?}")),
    })
    .await;
    assert!(!scope.is_cancelled());
    ground.resume();
    eventually("leads again", async || match elector.state() {
        ElectorState::Held(again) if again > token => Ok(()),
        state => Err(format!("{state:?}")),
    })
    .await;
    assert!(scope.token() > token && scope.may_act(Duration::ZERO).is_ok());
    assert_eq!(runs.load(Ordering::SeqCst), 1, "it never stopped");
    elector.stop();
}

/// An elector that goes on without confirmation is suspect while the lease is still its own, and not healthy when the
/// lease must have ended: a process manager may restart it then. When it is confirmed again, it is healthy again.
pub async fn elector_that_works_on_without_its_lease_is_not_healthy(ground: &Ground) {
    let mut config = config("a");
    config.on_doubt = OnDoubt::Continue;
    let lease = config.lease_duration;
    let elector = elector(ground, config);
    let (led, mut leads) = mpsc::unbounded_channel();
    tokio::spawn({
        let elector = elector.clone();
        async move {
            let work = |scope: Scope| {
                led.send(scope.token()).unwrap();
                async move {
                    scope.cancelled().await;
                    Again::Continue(())
                }
            };
            elector.run(work).await
        }
    });
    let token = bounded("leads", leads.recv()).await.unwrap();
    let healthz = elector.healthz();
    ground.pause();
    let next = bounded("in doubt", elector.changed(ElectorState::Held(token))).await;
    assert_eq!(next, ElectorState::Suspect(token));
    assert_eq!(healthz.check(Duration::ZERO), Ok(()), "it is not over yet");
    let unhealthy = eventually("not healthy", async || match healthz.check(Duration::ZERO) {
        Err(unhealthy) => Ok(unhealthy),
        Ok(()) => Err(format!("{:?}", elector.state())),
    })
    .await;
    assert!(unhealthy.unconfirmed > lease, "{unhealthy}");
    assert_eq!(healthz.check(Duration::from_secs(3600)), Ok(()), "it is tolerated for an hour");
    ground.resume();
    eventually("healthy", async || healthz.check(Duration::ZERO).map_err(|e| e.to_string())).await;
    elector.stop();
}

/// cilium#42920: work that does not heed the signal is dropped when it must be over.
pub async fn elector_drops_work_that_does_not_end(ground: &Ground) {
    struct Tell(Arc<AtomicBool>);
    impl Drop for Tell {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let mut config = config("a");
    config.stop_grace = Duration::from_millis(200);
    let elector = elector(ground, config);
    let dropped = Arc::new(AtomicBool::new(false));
    let (led, mut leads) = mpsc::unbounded_channel();
    tokio::spawn({
        let (elector, dropped) = (elector.clone(), Arc::clone(&dropped));
        async move {
            let work = |_: Scope| {
                led.send(()).unwrap();
                let tell = Tell(Arc::clone(&dropped));
                async move {
                    let _tell = tell;
                    std::future::pending::<Again>().await
                }
            };
            elector.run(work).await
        }
    });
    bounded("leads", leads.recv()).await.unwrap();
    assert!(!dropped.load(Ordering::SeqCst));
    let lease = ground.has_candidates("job", 1).await[0].lease;
    ground.client().lease().revoke(lease).await.unwrap();
    bounded("begun again", leads.recv()).await.unwrap();
    assert!(dropped.load(Ordering::SeqCst), "the first work is gone before the second begins");
    elector.stop();
}

/// A standby sees the leader and what it proclaims, and never calls itself stopped.
pub async fn standby_sees_the_leader(ground: &Ground) {
    let first = elector(ground, config("a"));
    let (led, mut leads) = mpsc::unbounded_channel();
    tokio::spawn({
        let elector = first.clone();
        async move {
            let work = |scope: Scope| {
                let led = led.clone();
                async move {
                    scope.proclaim("a2").await.unwrap();
                    led.send(()).unwrap();
                    scope.cancelled().await;
                    Again::Continue(())
                }
            };
            elector.run(work).await
        }
    });
    bounded("leads", leads.recv()).await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let second = elector(ground, config("b"))
        .on_new_leader({
            let seen = Arc::clone(&seen);
            move |leader| {
                seen.lock().unwrap().push(leader.map(|leader| leader.value.clone()));
            }
        })
        .on_stopped_leading(|_| panic!("it never led"));
    let standby = tokio::spawn({
        let elector = second.clone();
        async move { elector.run(|_: Scope| async { Again::Continue(()) }).await }
    });
    eventually("sees the leader", async || {
        let seen = seen.lock().unwrap().clone();
        if seen == [Some(b"a2".to_vec())] { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
    assert_eq!(second.leader().unwrap().value, b"a2");
    assert!(!second.is_leader());
    ground.has_candidates("job", 2).await;
    second.stop();
    assert_eq!(bounded("stopped", standby).await.unwrap(), Ended::Stopped);
    ground.has_candidates("job", 1).await;
    first.stop();
}

/// An elector that is not fit to lead gives it up when its work has ended, is passed over, and leads again when it is
/// fit.
pub async fn elector_that_is_not_well_lets_others_lead(ground: &Ground) {
    let (first, mut first_leads, mut first_cancels) = running(ground, "a");
    let one = bounded("a leads", first_leads.recv()).await;
    let (second, mut second_leads, mut second_cancels) = running(ground, "b");
    ground.has_candidates("job", 2).await;
    first.report_health(false);
    assert_eq!(bounded("a ends", first_cancels.recv()).await, Some(Cancelled::Unhealthy));
    let two = bounded("b leads", second_leads.recv()).await;
    assert!(two > one, "tokens grow");
    second.report_health(false);
    assert_eq!(bounded("b ends", second_cancels.recv()).await, Some(Cancelled::Unhealthy));
    // Neither leads as long as neither is well, however often they try.
    for _ in 0..2 {
        tokio::time::sleep(config("a").retry_period * 2).await;
        assert!(!first.is_leader() && !second.is_leader());
    }
    first.report_health(true);
    let three = bounded("a leads again", first_leads.recv()).await;
    assert!(three > two, "tokens grow");
    assert!(second_leads.try_recv().is_err(), "b is not well");
    first.stop();
    second.stop();
}

/// The commonest leader that is not well is one whose work hangs: it is not waited for without end.
pub async fn elector_whose_work_hangs_steps_down_when_it_is_not_well(ground: &Ground) {
    let mut config = config("a");
    config.step_down_grace = Duration::from_millis(300);
    let first = elector(ground, config);
    let (led, mut leads) = mpsc::unbounded_channel();
    tokio::spawn({
        let elector = first.clone();
        async move {
            let work = |scope: Scope| {
                led.send(scope.token()).unwrap();
                std::future::pending::<Again>()
            };
            elector.run(work).await
        }
    });
    let one = bounded("a leads", leads.recv()).await;
    let (second, mut second_leads, _cancels) = running(ground, "b");
    ground.has_candidates("job", 2).await;
    first.report_health(false);
    let two = bounded("b leads", second_leads.recv()).await;
    assert!(two > one, "tokens grow");
    first.stop();
    second.stop();
}

/// Work that never awaits anything still learns that it has to end, and all others how things stand.
pub async fn work_that_blocks_its_thread_sees_that_it_has_to_end(ground: &Ground) {
    let elector = elector(ground, config("a"));
    let (led, mut leads) = mpsc::unbounded_channel();
    let blocked = elector.clone();
    let (tell, ended) = oneshot::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let run = runtime.block_on(blocked.run(|scope: Scope| {
            let _ = led.send(scope.token());
            async move {
                while !scope.is_cancelled() {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Again::Continue(())
            }
        }));
        let _ = tell.send(run);
    });
    let token = bounded("leads", leads.recv()).await.unwrap();
    ground.pause();
    bounded("in doubt", elector.changed(ElectorState::Held(token))).await;
    ground.resume();
    bounded("leads again", leads.recv()).await.unwrap();
    elector.stop();
    assert_eq!(bounded("stopped", ended).await.unwrap(), Ended::Stopped);
}
