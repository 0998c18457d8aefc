//! The experiments behind `tenure lab compare`.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    algorithms::{Algorithm, Setup},
    faults::{Action, Target},
    stage::{AlgorithmRun, Ledger, ProcessId},
};

/// Cluster sizes of the growth experiment.
const SIZES: [usize; 4] = [3, 5, 9, 17];
/// How often the leader dies in the churn experiment.
const DEATHS: usize = 24;
/// How long an algorithm without a bound on its decision is watched.
const PATIENCE: Duration = Duration::from_secs(10);

/// The assumption behind availability: a leader that dies once a day.
const DAY_SECS: f64 = 86_400.0;

/// The sides of a partition on which there is a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionSides {
    Both,
    OnlyMajority,
    OnlyMinority,
    Neither,
}

impl ComparisonRow {
    /// The share of time with a leader, in nines, if leaders die once a day.
    pub fn nines(&self) -> Option<f64> {
        let without = self.failover?.as_secs_f64() / DAY_SECS;
        Some(-without.log10())
    }
}

impl PartitionSides {
    pub fn name(self) -> &'static str {
        match self {
            PartitionSides::Both => "both",
            PartitionSides::OnlyMajority => "majority",
            PartitionSides::OnlyMinority => "minority",
            PartitionSides::Neither => "neither",
        }
    }
}

/// Two leaders at once, in all runs of an experiment. What the promise of one believer is held against in a story.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TwoLeaders {
    /// How often it began. A paused leader that looks at its clock when it resumes is one of two for no time at all.
    pub times: u64,
    /// How long it lasted, on average.
    pub lasted: Duration,
    /// Writes of the replaced leader that were taken.
    pub stale: u64,
}

impl TwoLeaders {
    /// The sum of what the runs measured.
    fn of(runs: &[Ledger]) -> TwoLeaders {
        let lasted: Duration = runs.iter().map(|ledger| ledger.double).sum();
        TwoLeaders {
            times: runs.iter().map(|ledger| ledger.doubles).sum(),
            lasted: lasted / runs.len().max(1) as u32,
            stale: runs.iter().map(|ledger| ledger.stale_writes_taken).sum(),
        }
    }
}

/// The measurements of one algorithm.
#[derive(Clone, Debug)]
pub struct ComparisonRow {
    pub algorithm: &'static str,
    /// Messages from a leader's death until all contenders know the next, by the number of contenders.
    pub messages: Vec<(usize, Option<f64>)>,
    /// The longest chain of messages, each in answer to the one before, from the first timeout to the next leader; by the
    /// number of contenders.
    pub rounds: Vec<(usize, Option<u32>)>,
    /// The power of n with which messages grow.
    pub growth: Option<f64>,
    pub detection: Option<Duration>,
    pub failover: Option<Duration>,
    pub failover_max: Option<Duration>,
    /// The share of time without a leader while leaders died repeatedly.
    pub vacancy: f64,
    /// The share of tenures of the most successful process, and how many processes ever led.
    pub top_share: f64,
    pub winners: usize,
    pub sides: PartitionSides,
    pub in_partition: TwoLeaders,
    pub in_pause: TwoLeaders,
    pub in_skew: TwoLeaders,
    /// Messages per second without faults.
    pub routine_per_s: f64,
}

/// Runs all experiments, with this many seeds each.
pub fn measure(algorithm: &'static Algorithm, seeds: u64) -> ComparisonRow {
    // An algorithm that may never decide is not run with many seeds.
    let decides = algorithm.patience.is_some() || led(algorithm, algorithm.contenders, 1).is_some();
    let seeds = if decides { seeds } else { 0 };
    let costs = SIZES.map(|size| (size, election_cost(algorithm, size, seeds)));
    let messages: Vec<(usize, Option<f64>)> =
        costs.iter().map(|(size, cost)| (*size, cost.map(|cost| cost.0))).collect();
    let rounds = costs.iter().map(|(size, cost)| (*size, cost.map(|cost| cost.1))).collect();
    let failovers: Vec<Failover> =
        (1..=seeds).filter_map(|seed| failover(algorithm, algorithm.contenders, seed)).collect();
    let mut times: Vec<Duration> = failovers.iter().map(|one| one.led).collect();
    times.sort_unstable();
    let mut detections: Vec<Duration> = failovers.iter().filter_map(|one| one.noticed).collect();
    detections.sort_unstable();
    let churn = churn(algorithm, seeds);
    let (sides, in_partition) = partition(algorithm, seeds);
    ComparisonRow {
        algorithm: algorithm.name,
        growth: growth(&messages),
        messages,
        rounds,
        detection: median(&detections),
        failover: median(&times),
        failover_max: times.last().copied(),
        vacancy: churn.vacancy,
        top_share: churn.top_share,
        winners: churn.winners,
        sides,
        in_partition,
        in_pause: pause(algorithm, seeds),
        in_skew: skew(algorithm, seeds),
        routine_per_s: if decides { routine(algorithm) } else { 0.0 },
    }
}

fn patience(algorithm: &Algorithm) -> Duration {
    algorithm.patience.unwrap_or(PATIENCE)
}

/// Runs until there is a leader; none if there never is.
fn led(algorithm: &Algorithm, contenders: usize, seed: u64) -> Option<Box<dyn AlgorithmRun>> {
    let mut play = (algorithm.build)(&Setup { seed, contenders });
    if !play.run_until_led(patience(algorithm)) {
        return None;
    }
    // Until it has settled.
    play.run_until_known(patience(algorithm));
    Some(play)
}

struct Failover {
    noticed: Option<Duration>,
    led: Duration,
    rounds: u32,
    words: u64,
}

fn failover(algorithm: &Algorithm, contenders: usize, seed: u64) -> Option<Failover> {
    let mut play = led(algorithm, contenders, seed)?;
    // Not always at the same point of its heartbeat.
    play.run(patience(algorithm) / 7 * (seed as u32 % 7) + Duration::from_millis(seed * 37 % 400));
    let died = play.now();
    play.mark();
    play.inject(&Action::Crash(Target::Leader), None).ok()?;
    if !play.run_until_led(3 * patience(algorithm)) {
        return None;
    }
    let next = play.ledger().recent().next()?.clone();
    play.run_until_known(patience(algorithm));
    let ledger = play.ledger();
    Some(Failover {
        noticed: ledger.detected.map(|at| at.since(died)),
        led: next.from.since(died),
        rounds: next.rounds,
        words: ledger.sent(),
    })
}

/// Messages of one election on average, and the most rounds.
fn election_cost(algorithm: &Algorithm, contenders: usize, seeds: u64) -> Option<(f64, u32)> {
    let all: Vec<Failover> =
        (1..=seeds.min(5)).filter_map(|seed| failover(algorithm, contenders, seed)).collect();
    let words: u64 = all.iter().map(|one| one.words).sum();
    let rounds = all.iter().map(|one| one.rounds).max()?;
    Some((words as f64 / all.len() as f64, rounds))
}

/// The slope of a line through the points, with both axes logarithmic.
fn growth(messages: &[(usize, Option<f64>)]) -> Option<f64> {
    let points: Vec<(f64, f64)> = messages
        .iter()
        .filter_map(|(size, count)| Some(((*size as f64).ln(), count.filter(|c| *c > 0.0)?.ln())))
        .collect();
    if points.len() < 2 {
        return None;
    }
    let count = points.len() as f64;
    let (mean_x, mean_y) =
        points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
    let (over, under) = points.iter().fold((0.0, 0.0), |(over, under), (x, y)| {
        (over + (x - mean_x) * (y - mean_y), under + (x - mean_x).powi(2))
    });
    Some(over / under)
}

struct Churn {
    vacancy: f64,
    top_share: f64,
    winners: usize,
}

/// The leader crashes repeatedly, and restarts when another process leads.
fn churn(algorithm: &Algorithm, seeds: u64) -> Churn {
    let (mut wins, mut vacant, mut whole) = (BTreeMap::<ProcessId, u64>::new(), 0.0, 0.0);
    for seed in 1..=seeds.min(3) {
        let Some(mut play) = led(algorithm, algorithm.contenders, seed) else { continue };
        play.mark();
        let start = play.now();
        for _ in 0..DEATHS {
            let lasts = patience(algorithm);
            if play.inject(&Action::Crash(Target::Leader), Some(lasts)).is_err() {
                break;
            }
            play.run_until_led(2 * patience(algorithm));
            play.run(patience(algorithm));
        }
        vacant += play.ledger().vacant.as_secs_f64();
        whole += play.now().since(start).as_secs_f64();
        for (who, count) in play.ledger().wins() {
            *wins.entry(who).or_default() += count;
        }
    }
    let total: u64 = wins.values().sum();
    let top = wins.values().max().copied().unwrap_or(0);
    Churn {
        vacancy: if whole > 0.0 { vacant / whole } else { 1.0 },
        top_share: if total > 0 { top as f64 / total as f64 } else { 0.0 },
        winners: wins.len(),
    }
}

/// Cuts the leader and other processes, fewer than half in all, off from the rest; the storage stays in reach of all
/// processes.
fn partition(algorithm: &Algorithm, seeds: u64) -> (PartitionSides, TwoLeaders) {
    let mut runs = vec![];
    let mut seen: BTreeMap<(bool, bool), u64> = BTreeMap::new();
    for seed in 1..=seeds.min(5) {
        let Some(mut play) = led(algorithm, algorithm.contenders, seed) else { continue };
        let names = play.names();
        let leader = play.leaders().first().copied().unwrap_or(0);
        let contenders = play.contenders() as ProcessId;
        let few = (contenders as usize - 1) / 2;
        let mut minority = vec![leader];
        minority.extend((0..contenders).filter(|one| *one != leader).take(few.saturating_sub(1)));
        let name = |one: &ProcessId| names[*one as usize].clone();
        let majority: Vec<ProcessId> =
            (0..names.len() as ProcessId).filter(|one| !minority.contains(one)).collect();
        if majority.is_empty() {
            *seen.entry((true, false)).or_default() += 1;
            continue;
        }
        let split = Action::Split(vec![
            minority.iter().map(name).collect(),
            majority.iter().map(name).collect(),
        ]);
        play.mark();
        if play.inject(&split, None).is_err() {
            continue;
        }
        play.run(3 * patience(algorithm));
        let leaders = play.leaders();
        let on = |side: &[ProcessId]| leaders.iter().any(|leader| side.contains(leader));
        *seen.entry((on(&minority), on(&majority))).or_default() += 1;
        runs.push(play.ledger().clone());
    }
    let usual = seen.iter().max_by_key(|(_, count)| **count).map(|(sides, _)| *sides);
    let sides = match usual.unwrap_or((false, false)) {
        (true, true) => PartitionSides::Both,
        (true, false) => PartitionSides::OnlyMinority,
        (false, true) => PartitionSides::OnlyMajority,
        (false, false) => PartitionSides::Neither,
    };
    (sides, TwoLeaders::of(&runs))
}

/// Pauses the leader for longer than the others wait.
fn pause(algorithm: &Algorithm, seeds: u64) -> TwoLeaders {
    let mut runs = vec![];
    for seed in 1..=seeds.min(5) {
        let Some(mut play) = led(algorithm, algorithm.contenders, seed) else { continue };
        play.mark();
        let lasts = 2 * patience(algorithm);
        if play.inject(&Action::Pause(Target::Leader), Some(lasts)).is_err() {
            continue;
        }
        play.run(lasts + 2 * patience(algorithm));
        runs.push(play.ledger().clone());
    }
    TwoLeaders::of(&runs)
}

/// Sets the leader's clock back and makes it run slow; the other clocks are ahead and run fast.
fn skew(algorithm: &Algorithm, seeds: u64) -> TwoLeaders {
    let mut runs = vec![];
    for seed in 1..=seeds.min(5) {
        let Some(mut play) = led(algorithm, algorithm.contenders, seed) else { continue };
        play.mark();
        let (names, leaders) = (play.names(), play.leaders());
        for (at, name) in names.iter().enumerate().take(play.contenders()) {
            let behind = leaders.contains(&(at as ProcessId));
            let by = if behind { -1 } else { 1 } * patience(algorithm).as_micros() as i64;
            let who = Target::Named(name.clone());
            let _ = play.inject(&Action::ClockJumps(who.clone(), by), None);
            let _ = play.inject(&Action::ClockDrifts(who, by.signum() * 200_000), None);
        }
        play.run(4 * patience(algorithm));
        runs.push(play.ledger().clone());
    }
    TwoLeaders::of(&runs)
}

/// Messages per second without faults.
fn routine(algorithm: &Algorithm) -> f64 {
    let Some(mut play) = led(algorithm, algorithm.contenders, 1) else { return 0.0 };
    play.mark();
    let quiet = 4 * patience(algorithm);
    play.run(quiet);
    let ledger = play.ledger();
    (ledger.routine_sent() + ledger.sent()) as f64 / quiet.as_secs_f64()
}

fn median(sorted: &[Duration]) -> Option<Duration> {
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_growth_estimates_the_power_of_n() {
        let of = |count: fn(f64) -> f64| {
            growth(&SIZES.map(|size| (size, Some(count(size as f64))))).expect("there are points")
        };
        assert!((of(|_| 7.0) - 0.0).abs() < 0.01);
        assert!((of(|n| 3.0 * n) - 1.0).abs() < 0.01);
        assert!((of(|n| n * (n - 1.0)) - 2.0).abs() < 0.2);
    }
}
