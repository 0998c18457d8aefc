//! Holders as processes of their own, which are stopped, blocked and killed.
//!
//! Each test runs itself once more as the other process: `TENURE_TEST_ROLE` tells it so.

use std::env;
use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tenure::elector::{ElectorConfig, LeaderElector, OnDoubt, OnLost};
use tenure::{Election, Engine, Leadership, Lock, Session, SessionOptions};
use tenure_e2e::{Cluster, Program, eventually, recipes::bounded};

const ROLE: &str = "TENURE_TEST_ROLE";

/// The endpoints, if this process is the other one.
fn role() -> Option<Engine> {
    env::var(ROLE).ok().map(|endpoints| Engine::tenure(&endpoints).unwrap())
}

/// The same test as the other process.
fn other(test: &str, cluster: &Cluster) -> Program {
    let mut command = Command::new(env::current_exe().unwrap());
    let test = format!("recipes_processes::{test}");
    command.args(["--exact", &test, "--nocapture"]).env(ROLE, cluster.endpoints());
    Program::start("other", &mut command)
}

/// The number at the end of a line.
fn token(line: &str) -> i64 {
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

fn say(line: impl std::fmt::Display) {
    println!("\n{line}");
    std::io::stdout().flush().unwrap();
}

/// Short times, in client-go's order.
fn config(on_lost: OnLost) -> ElectorConfig {
    let mut config = ElectorConfig::new("job").unwrap();
    config.lease_duration = Duration::from_secs(3);
    config.renew_deadline = Duration::from_secs(2);
    config.retry_period = Duration::from_millis(500);
    config.on_lost = on_lost;
    config
}

/// Leads, and blocks.
async fn blocked(engine: Engine, config: ElectorConfig) {
    let elector = LeaderElector::new(engine, config).unwrap();
    elector
        .run(|scope| async move {
            say(format!("leads {}", scope.token()));
            // This runtime has one thread, and here it ends.
            std::thread::sleep(Duration::from_secs(600));
            ControlFlow::<()>::Continue(())
        })
        .await;
}

/// Work that blocks its runtime cannot be cancelled; the process ends before another one leads.
#[tokio::test]
async fn blocked_work_ends_its_process_at_the_deadline() {
    if let Some(engine) = role() {
        blocked(engine, config(OnLost::Exit(7))).await;
        return;
    }
    let cluster = Cluster::start(1).await;
    let mut other = other("blocked_work_ends_its_process_at_the_deadline", &cluster);
    assert!(token(&other.says("leads ").await) > 0);
    // Blocked, but renewed: it lives on for longer than its lease.
    let lives = tokio::time::timeout(Duration::from_secs(4), other.ends()).await;
    assert!(lives.is_err(), "{lives:?}");
    let stopped = Instant::now();
    cluster.members[0].pause();
    let status = other.ends().await;
    let took = stopped.elapsed();
    cluster.members[0].resume();
    assert_eq!(status.code(), Some(7));
    assert!(took < Duration::from_secs(3), "{took:?} is longer than its lease");
}

/// The same for a process that asked for no clean-up at all: nothing that hangs at exit keeps the process alive.
#[tokio::test]
async fn blocked_work_aborts_its_process_at_the_deadline() {
    if let Some(engine) = role() {
        blocked(engine, config(OnLost::Abort)).await;
        return;
    }
    let cluster = Cluster::start(1).await;
    let mut other = other("blocked_work_aborts_its_process_at_the_deadline", &cluster);
    assert!(token(&other.says("leads ").await) > 0);
    let stopped = Instant::now();
    cluster.members[0].pause();
    let status = other.ends().await;
    let took = stopped.elapsed();
    cluster.members[0].resume();
    assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()));
    assert!(took < Duration::from_secs(3), "{took:?} is longer than its lease");
}

/// This process leads the job while the other process is stopped.
async fn take_over(other: &Program, cluster: &Cluster) -> Leadership {
    let first = token(&other.says("leads ").await);
    other.pause();
    let engine = Engine::tenure(&cluster.endpoints()).unwrap();
    let session = Session::open(&engine, Duration::from_secs(10)).await.unwrap();
    let election = Election::new(&session, "job").unwrap();
    let leads = bounded("the next leads", election.candidate("next").campaign()).await.unwrap();
    assert!(leads.token().get() > first);
    leads
}

/// SIGSTOP for longer than its lease: there is no time left to end in, however much there is otherwise.
#[tokio::test]
async fn blocked_work_that_slept_through_its_deadline_ends_at_once() {
    if let Some(engine) = role() {
        let mut config = config(OnLost::Abort);
        config.stop_grace = Duration::from_secs(600);
        blocked(engine, config).await;
        return;
    }
    let cluster = Cluster::start(1).await;
    let mut other = other("blocked_work_that_slept_through_its_deadline_ends_at_once", &cluster);
    let leads = take_over(&other, &cluster).await;
    other.resume();
    let status = bounded("it ends", other.ends()).await;
    assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()));
    assert!(leads.may_act(Duration::ZERO).is_ok());
}

/// A process that goes on in doubt ends when another one leads, though its work blocks its runtime.
#[tokio::test]
async fn blocked_work_that_went_on_in_doubt_ends_when_another_one_leads() {
    if let Some(engine) = role() {
        let mut config = config(OnLost::Exit(7));
        config.on_doubt = OnDoubt::Continue;
        blocked(engine, config).await;
        return;
    }
    let cluster = Cluster::start(1).await;
    let name = "blocked_work_that_went_on_in_doubt_ends_when_another_one_leads";
    let mut other = other(name, &cluster);
    let leads = take_over(&other, &cluster).await;
    other.resume();
    assert_eq!(bounded("it ends", other.ends()).await.code(), Some(7));
    assert!(leads.may_act(Duration::ZERO).is_ok());
}

/// SIGSTOP for longer than its time to live: it knows, as soon as it runs again, that it has lost.
#[tokio::test]
async fn stopped_holder_knows_at_once_that_it_has_lost() {
    if let Some(engine) = role() {
        let session = Session::open(&engine, Duration::from_secs(2)).await.unwrap();
        let held = Lock::new(&session, "a").unwrap().lock().await.unwrap();
        say(format!("holds {}", held.token()));
        loop {
            match held.may_act(Duration::ZERO) {
                Ok(_) => say("may"),
                Err(doubt) => say(format!("may not: {doubt}")),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let cluster = Cluster::start(1).await;
    let other = other("stopped_holder_knows_at_once_that_it_has_lost", &cluster);
    let first = token(&other.says("holds ").await);
    other.says("may").await;
    other.pause();
    let engine = Engine::tenure(&cluster.endpoints()).unwrap();
    let session = Session::open(&engine, Duration::from_secs(10)).await.unwrap();
    let held = bounded("the next holds", Lock::new(&session, "a").unwrap().lock()).await.unwrap();
    assert!(held.token().get() > first);
    let before = other.lines().len();
    other.resume();
    let denied = other.says_after(before, "may not").await;
    assert_eq!(denied, "may not: the hold is lost");
    // It may have been stopped between asking and saying so: that is what tokens are for.
    let since = other.lines().split_off(before);
    assert!(since.iter().filter(|line| *line == "may").count() <= 1, "{since:?}");
    assert!(held.may_act(Duration::ZERO).is_ok());
}

/// A process that dies is followed at once, whatever its time to live, if it has asked for that.
#[tokio::test]
async fn killed_holder_is_followed_at_once_with_fast_release() {
    const TTL: Duration = Duration::from_secs(30);
    if let Some(engine) = role() {
        let mut options = SessionOptions::new(TTL);
        options.fast_release = true;
        let session = Session::open_with(&engine, options).await.unwrap();
        let held = Lock::new(&session, "a").unwrap().lock().await.unwrap();
        say(format!("holds {}", held.token()));
        held.lost().await;
        return;
    }
    let cluster = Cluster::start(3).await;
    let mut other = other("killed_holder_is_followed_at_once_with_fast_release", &cluster);
    let first = token(&other.says("holds ").await);
    let engine = Engine::tenure(&cluster.endpoints()).unwrap();
    let session = Session::open(&engine, TTL).await.unwrap();
    let lock = Lock::new(&session, "a").unwrap();
    let waits = tokio::spawn(async move { lock.lock().await });
    eventually("it waits", async || {
        let listed = engine.candidates("a").await.map_err(|error| error.to_string())?;
        if listed.len() == 2 { Ok(()) } else { Err(format!("{listed:?}")) }
    })
    .await;
    let killed = Instant::now();
    other.kill();
    let held = bounded("the next holds", waits).await.unwrap().unwrap();
    assert!(killed.elapsed() < TTL / 10, "{:?}", killed.elapsed());
    assert!(held.token().get() > first);
}
