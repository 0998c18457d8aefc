//! The scripts of programs: campaign, take locks, observe, run an elector.

use super::*;

/// The election in which candidates differ in priority, and which has an administrator.
pub const RANKED: &str = "throne";

/// Campaigns again and again. `swift`: in sessions with fast release.
pub fn candidate(name: &'static str, ttl: Duration, swift: bool) -> ProgramScript {
    Box::new(move |context| {
        Box::pin(async move {
            let mut dice = Dice::new(context.host.seed());
            while let Some(session) = context.session(ttl, swift).await {
                let election = Election::new(&session, name).expect("a good name");
                for _ in 0..dice.between(1, 5) {
                    if context.resting() {
                        break;
                    }
                    let mut candidate = election.candidate(context.identity.clone());
                    if name == RANKED {
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
                    let Some(won) = context.unless_withdrawn(limit, won).await else { continue };
                    match won {
                        Ok(led) => {
                            context.count("won");
                            let guard = Guard::Led(led);
                            context.hold(guard, Mode::Exclusive, &session, !swift, &mut dice).await;
                        }
                        Err(error) => {
                            if !context.not_won(error, &mut dice).await {
                                break;
                            }
                        }
                    }
                    context.pause(&mut dice, 0, 40).await;
                }
                context.leave(session, &mut dice).await;
            }
        })
    })
}

/// Which kind of lock a program takes.
#[derive(Clone, Copy, Debug)]
pub enum LockKind {
    Lock,
    /// Reads mostly.
    Rw,
    Semaphore(u32),
    /// Two of three names, in any order.
    Multi,
}

/// Takes locks again and again.
pub fn locker(name: &'static str, kind: LockKind, ttl: Duration) -> ProgramScript {
    Box::new(move |context| {
        Box::pin(async move {
            let mut dice = Dice::new(context.host.seed());
            while let Some(session) = context.session(ttl, false).await {
                for _ in 0..dice.between(1, 6) {
                    if context.resting() {
                        break;
                    }
                    let limit = dice.duration(ms(0), ms(600));
                    let taken = take(&session, name, kind, limit, &mut dice);
                    let taken = context.unless_withdrawn(limit, taken).await;
                    let Some((taken, mode)) = taken else { continue };
                    match taken {
                        Ok(held) => {
                            context.count("locked");
                            context.hold(Guard::Held(held), mode, &session, true, &mut dice).await;
                        }
                        Err(error) => {
                            if !context.not_won(error, &mut dice).await {
                                break;
                            }
                        }
                    }
                    context.pause(&mut dice, 0, 40).await;
                }
                context.leave(session, &mut dice).await;
            }
        })
    })
}

async fn take(
    session: &Session,
    name: &str,
    kind: LockKind,
    limit: Duration,
    dice: &mut Dice,
) -> (Result<Held, AcquireError>, Mode) {
    let how = dice.below(5);
    match kind {
        LockKind::Lock => {
            let lock = Lock::new(session, name).expect("a good name");
            let held = match how {
                0 => lock.try_lock().await,
                1 => lock.lock_within(limit).await,
                _ => lock.lock().await,
            };
            (held, Mode::Exclusive)
        }
        LockKind::Rw if dice.chance(700) => {
            let lock = RwLock::new(session, name).expect("a good name");
            let held = match how {
                0 => lock.try_read().await,
                1 => lock.read_within(limit).await,
                _ => lock.read().await,
            };
            (held, Mode::Shared)
        }
        LockKind::Rw => {
            let lock = RwLock::new(session, name).expect("a good name");
            let held = match how {
                0 => lock.try_write().await,
                1 => lock.write_within(limit).await,
                _ => lock.write().await,
            };
            (held, Mode::Exclusive)
        }
        LockKind::Semaphore(of) => {
            let permits = NonZeroU32::new(of).expect("there are permits");
            let lock = Semaphore::new(session, name, permits).expect("a good name");
            let held = match how {
                0 => lock.try_acquire().await,
                1 => lock.acquire_within(limit).await,
                _ => lock.acquire().await,
            };
            (held, Mode::Permit(of))
        }
        LockKind::Multi => {
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

/// Observes an election for the whole run.
pub fn observer(name: &'static str) -> ProgramScript {
    Box::new(move |context| {
        Box::pin(async move {
            let mut seen =
                Observer::open_on(&context.host, &context.engine, name).expect("a good name");
            let observer = context.record.open().seen.begins(name);
            loop {
                let sight = tokio::select! {
                    biased;
                    sight = seen.next() => sight,
                    () = context.told_to_rest() => break,
                };
                let Ok((revision, sight)) = sight else { break };
                context.tell(|| trace_events::seen(name, revision, &sight));
                if canary!(BlindObservers) && context.host.seed().is_multiple_of(8) {
                    continue;
                }
                context.record.open().seen.sees(observer, revision, sight);
            }
        })
    })
}

/// Runs an elector, whose work believes to lead.
pub fn elector(name: &'static str, lease: Duration) -> ProgramScript {
    Box::new(move |context| {
        Box::pin(async move {
            let mut config = ElectorConfig::new(name).expect("a good name");
            config.identity.clone_from(&context.identity);
            config.lease_duration = lease;
            config.renew_deadline = lease * 2 / 3;
            config.retry_period = lease / 6;
            config.host = Some(Arc::clone(&context.host));
            let elector =
                LeaderElector::new(context.engine.clone(), config).expect("good settings");
            let stops = async {
                context.told_to_rest().await;
                elector.stop();
                std::future::pending::<()>().await;
            };
            let works = elector.run(async |scope| {
                let token = scope.token();
                context.count("worked");
                let until = || None;
                let belief = Belief {
                    program: context.program,
                    name: name.to_owned(),
                    mode: Mode::Exclusive,
                    token,
                    slot: None,
                    session: None,
                    strict: true,
                    until: Box::new(until),
                };
                let beliefs = vec![context.record.open().believes(belief)];
                let _believing = BeliefGuard { record: context.record.clone(), beliefs };
                let mut dice = Dice::new(context.host.seed());
                for _ in 0..dice.between(1, 12) {
                    if scope.run(context.pause(&mut dice, 5, 150)).await.is_err() {
                        context.count("cancelled");
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
