//! One leader's time: starts what is due, until it leads no more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tenure::SessionState;
use tenure::api::wire::etcdserverpb as pb;
use tenure::fence::guarded_put;
use tenure::grpc::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::file::File;
use super::plan::{Plan, Step, Why};
use super::run::{Run, Terms};
use crate::commands::run::{Signals, Wish};
use crate::jobs::Slots;
use crate::talk::talk;

/// Below this is when each job was first seen.
const SEEN: &str = "tenure/schedule/";
/// Wall clocks jump: what is due is looked at again after this time at the latest.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Why a tenure ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// This process was asked to end.
    Asked,
    /// Another one leads, or is to lead.
    Replaced,
}

/// One leader's time.
pub(super) struct Tenure<'a> {
    pub(super) client: Client,
    pub(super) file: &'a File,
    pub(super) terms: Arc<Terms>,
    /// Tells all runs to end.
    pub(super) stop: watch::Sender<bool>,
}

impl Tenure<'_> {
    /// Starts what is due, until this process leads no more and all runs have ended.
    pub(super) async fn pass(self, signals: &mut Signals) -> Over {
        let mut runs = JoinSet::new();
        let over = self.start_what_is_due(&mut runs, signals).await;
        let _ = self.stop.send(true);
        while runs.join_next().await.is_some() {}
        over
    }

    async fn start_what_is_due(
        &self,
        runs: &mut JoinSet<Option<usize>>,
        signals: &mut Signals,
    ) -> Over {
        let held = Arc::clone(&self.terms.held);
        let mut plans = tokio::select! {
            plans = self.plans() => plans,
            over = over(&held, signals) => return over,
        };
        loop {
            let now = Timestamp::now();
            for (at, plan) in plans.iter_mut().enumerate() {
                for step in plan.steps(now) {
                    self.take(at, plan.job(), step, runs);
                }
            }
            let next = plans.iter().filter_map(Plan::next).min();
            let pause = next.map_or(LOOK_AGAIN, |next| {
                Duration::try_from(next.duration_since(Timestamp::now())).unwrap_or_default()
            });
            tokio::select! {
                biased;
                over = over(&held, signals) => return over,
                Some(ended) = runs.join_next() => {
                    if let Ok(Some(job)) = ended {
                        plans[job].ended();
                    }
                }
                () = sleep(pause.min(LOOK_AGAIN)) => {}
            }
        }
    }

    fn take(
        &self,
        at: usize,
        job: &super::file::Job,
        step: Step,
        runs: &mut JoinSet<Option<usize>>,
    ) {
        let run = |slot| Run {
            terms: Arc::clone(&self.terms),
            job: job.clone(),
            slots: self.slots(job),
            slot,
        };
        match step {
            Step::Start(slot) => {
                let run = run(slot);
                runs.spawn_local(async move {
                    run.play().await;
                    Some(at)
                });
            }
            Step::Skip(slot, why) => {
                let text = match why {
                    Why::Missed => "its time has passed",
                    Why::Overlaps => "the run before it has not ended",
                };
                talk!("tenure: {} for {slot} is skipped: {text}", job.name);
                let run = run(slot);
                runs.spawn_local(async move {
                    run.skip().await;
                    None
                });
            }
        }
    }

    fn slots(&self, job: &super::file::Job) -> Slots {
        job_slots(&self.client, self.file, job)
    }

    /// Where earlier leaders came to. Tried until it is known: slots must not be run twice, nor forgotten.
    async fn plans(&self) -> Vec<Plan> {
        loop {
            match self.read_plans().await {
                Ok(plans) => return plans,
                Err(error) if !matches!(self.terms.held.state(), SessionState::Lost(_)) => {
                    talk!("tenure: cannot read what was run before, trying again: {error:#}");
                    sleep(Duration::from_secs(1)).await;
                }
                // The caller is about to notice.
                Err(_) => std::future::pending().await,
            }
        }
    }

    async fn read_plans(&self) -> anyhow::Result<Vec<Plan>> {
        let now = Timestamp::now();
        let seen = self.first_seen().await?;
        let mut plans = Vec::new();
        for job in &self.file.jobs {
            let records = self.slots(job).list().await?;
            let since = match seen.get(&job.name) {
                Some(since) => *since,
                None => {
                    let put = pb::PutRequest {
                        key: [SEEN, self.file.election.as_str(), "/", &job.name].concat().into(),
                        value: now.to_string().into(),
                        ..Default::default()
                    };
                    guarded_put(&self.client, &self.terms.holder, put).await?;
                    now
                }
            };
            plans.push(Plan::resume(job.clone(), &records, since, now));
        }
        Ok(plans)
    }

    /// When each job was first seen by a leader.
    async fn first_seen(&self) -> anyhow::Result<BTreeMap<String, Timestamp>> {
        let prefix = [SEEN, self.file.election.as_str(), "/"].concat();
        let end = [SEEN, self.file.election.as_str(), "0"].concat();
        let range = pb::RangeRequest {
            key: prefix.clone().into(),
            range_end: end.into(),
            ..Default::default()
        };
        let answer = self.client.kv().range(range).await?;
        let parse = |kv: &tenure::api::wire::mvccpb::KeyValue| {
            let name = std::str::from_utf8(&kv.key[prefix.len()..]).ok()?.to_owned();
            Some((name, std::str::from_utf8(&kv.value).ok()?.parse().ok()?))
        };
        Ok(answer.kvs.iter().filter_map(parse).collect())
    }
}

/// The slots of a job of a schedule.
pub(super) fn job_slots(client: &Client, file: &File, job: &super::file::Job) -> Slots {
    Slots::new(client.clone(), format!("{}/{}", file.election, job.name), job.keep)
}

/// Waits until this process leads no more, or is asked to end.
async fn over(held: &tenure::Held, signals: &mut Signals) -> Over {
    loop {
        tokio::select! {
            loss = held.lost() => {
                talk!("tenure: lost {}: {loss}", held.name());
                return Over::Replaced;
            }
            drain = held.drain() => {
                talk!("tenure: making room in {} for {}", held.name(), drain.successor);
                return Over::Replaced;
            }
            wish = signals.next() => if let Wish::End(_) = wish {
                return Over::Asked;
            },
        }
    }
}
