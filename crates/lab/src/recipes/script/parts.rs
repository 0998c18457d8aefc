//! The parts that programs play: they stand for elections, take locks, observe, and let an elector do it.

use super::*;

/// The election in which candidates differ in rank and somebody rules.
pub const THRONE: &str = "throne";

/// Stands for an election again and again. `swift`: with sessions that end with their connection.
pub fn candidate(name: &'static str, ttl: Duration, swift: bool) -> Script {
    Box::new(move |stage| {
        Box::pin(async move {
            let mut dice = Dice::new(stage.host.seed());
            while let Some(session) = stage.session(ttl, swift).await {
                let election = Election::new(&session, name).expect("a good name");
                for _ in 0..dice.between(1, 5) {
                    if stage.resting() {
                        break;
                    }
                    let mut candidate = election.candidate(stage.identity.clone());
                    if name == THRONE {
                        candidate = candidate.priority(dice.below(3) as u32).without_overlap();
                        if dice.chance(300) {
                            candidate = candidate.preempting();
                        }
                    }
                    let limit = dice.duration(ms(0), ms(600));
                    let won = async {
                        match dice.below(5) {
                            0 => candidate.try_campaign().await,
                            1 => candidate.campaign_within(limit).await,
                            _ => candidate.campaign().await,
                        }
                    };
                    let Some(won) = stage.unless_withdrawn(limit, won).await else { continue };
                    match won {
                        Ok(led) => {
                            stage.count("won");
                            let guard = Guard::Led(led);
                            stage.hold(guard, Mode::Exclusive, &session, !swift, &mut dice).await;
                        }
                        Err(error) => {
                            if !stage.not_won(error, &mut dice).await {
                                break;
                            }
                        }
                    }
                    stage.pause(&mut dice, 0, 40).await;
                }
                stage.leave(session, &mut dice).await;
            }
        })
    })
}

/// Which kind of lock a program takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Lock,
    /// Mostly reads.
    Rw,
    Semaphore(u32),
    /// Two names of three, in any order.
    Multi,
}

/// Takes locks again and again.
pub fn locker(name: &'static str, kind: Kind, ttl: Duration) -> Script {
    Box::new(move |stage| {
        Box::pin(async move {
            let mut dice = Dice::new(stage.host.seed());
            while let Some(session) = stage.session(ttl, false).await {
                for _ in 0..dice.between(1, 6) {
                    if stage.resting() {
                        break;
                    }
                    let limit = dice.duration(ms(0), ms(600));
                    let taken = take(&session, name, kind, limit, &mut dice);
                    let taken = stage.unless_withdrawn(limit, taken).await;
                    let Some((taken, mode)) = taken else { continue };
                    match taken {
                        Ok(held) => {
                            stage.count("locked");
                            stage.hold(Guard::Held(held), mode, &session, true, &mut dice).await;
                        }
                        Err(error) => {
                            if !stage.not_won(error, &mut dice).await {
                                break;
                            }
                        }
                    }
                    stage.pause(&mut dice, 0, 40).await;
                }
                stage.leave(session, &mut dice).await;
            }
        })
    })
}

async fn take(
    session: &Session,
    name: &str,
    kind: Kind,
    limit: Duration,
    dice: &mut Dice,
) -> (Result<Held, AcquireError>, Mode) {
    let how = dice.below(5);
    match kind {
        Kind::Lock => {
            let lock = Lock::new(session, name).expect("a good name");
            let held = match how {
                0 => lock.try_lock().await,
                1 => lock.lock_within(limit).await,
                _ => lock.lock().await,
            };
            (held, Mode::Exclusive)
        }
        Kind::Rw if dice.chance(700) => {
            let lock = RwLock::new(session, name).expect("a good name");
            let held = match how {
                0 => lock.try_read().await,
                1 => lock.read_within(limit).await,
                _ => lock.read().await,
            };
            (held, Mode::Shared)
        }
        Kind::Rw => {
            let lock = RwLock::new(session, name).expect("a good name");
            let held = match how {
                0 => lock.try_write().await,
                1 => lock.write_within(limit).await,
                _ => lock.write().await,
            };
            (held, Mode::Exclusive)
        }
        Kind::Semaphore(of) => {
            let permits = NonZeroU32::new(of).expect("there are permits");
            let lock = Semaphore::new(session, name, permits).expect("a good name");
            let held = match how {
                0 => lock.try_acquire().await,
                1 => lock.acquire_within(limit).await,
                _ => lock.acquire().await,
            };
            (held, Mode::Permit { of })
        }
        Kind::Multi => {
            let mut names = vec![format!("{name}/a"), format!("{name}/b"), format!("{name}/c")];
            names.remove(dice.below(3) as usize);
            if dice.chance(500) {
                names.reverse();
            }
            let lock = MultiLock::new(session, names).expect("good names");
            let held = match how {
                0 => lock.try_lock().await,
                1 => lock.lock_within(limit).await,
                _ => lock.lock().await,
            };
            (held, Mode::Exclusive)
        }
    }
}

/// Looks at an election from its first moment to its last.
pub fn observer(name: &'static str) -> Script {
    Box::new(move |stage| {
        Box::pin(async move {
            let mut seen =
                Observer::open_on(&stage.host, &stage.engine, name).expect("a good name");
            let observer = stage.notes.open().seen.begins(name);
            loop {
                let sight = tokio::select! {
                    biased;
                    sight = seen.next() => sight,
                    () = stage.told_to_rest() => break,
                };
                let Ok((revision, sight)) = sight else { break };
                stage.tell(|| story::seen(name, revision, &sight));
                if stage.canary == Some(Canary::BlindObservers)
                    && stage.host.seed().is_multiple_of(8)
                {
                    continue;
                }
                stage.notes.open().seen.sees(observer, revision, sight);
            }
        })
    })
}

/// Does work whenever it leads, as the elector has it.
pub fn elector(name: &'static str, lease: Duration) -> Script {
    Box::new(move |stage| {
        Box::pin(async move {
            let mut config = ElectorConfig::new(name).expect("a good name");
            config.identity.clone_from(&stage.identity);
            config.lease_duration = lease;
            config.renew_deadline = lease * 2 / 3;
            config.retry_period = lease / 6;
            config.host = Some(Arc::clone(&stage.host));
            let elector = LeaderElector::new(stage.engine.clone(), config).expect("good settings");
            let stops = async {
                stage.told_to_rest().await;
                elector.stop();
                std::future::pending::<()>().await;
            };
            let works = elector.run(async |scope| {
                let token = scope.token();
                stage.count("worked");
                let until = || None;
                let belief = Belief {
                    program: stage.program,
                    name: name.to_owned(),
                    mode: Mode::Exclusive,
                    token,
                    slot: None,
                    session: None,
                    strict: true,
                    until: Box::new(until),
                };
                let beliefs = vec![stage.notes.open().believes(belief)];
                let _believing = Believing { notes: stage.notes.clone(), beliefs };
                let mut dice = Dice::new(stage.host.seed());
                for _ in 0..dice.between(1, 12) {
                    if scope.run(stage.pause(&mut dice, 5, 150)).await.is_err() {
                        stage.count("cancelled");
                        break;
                    }
                }
                ControlFlow::<()>::Continue(())
            });
            tokio::select! {
                biased;
                _ = works => {}
                () = stops => {}
            }
        })
    })
}
