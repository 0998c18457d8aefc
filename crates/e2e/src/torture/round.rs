//! One round: a cluster, a workload, faults, and the judgement.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::{Duration, Instant},
};

use tokio::runtime::Runtime;

use super::{
    Chance, Ground, Security,
    nemesis::{self, Fault, in_words},
    workload::{Check, Workload},
};

/// A history that is shorter, or had fewer raft leaders, proves too little.
pub(super) const OPERATIONS_MIN: usize = 10_000;
pub(super) const LEADER_CHANGES_MIN: usize = 50;
/// How much longer than planned a round may go on until it has proved enough.
const LONGER_MAX: Duration = Duration::from_secs(240);
/// The short form runs beside other tests, and leaves them something of the machine.
const SHORT_PAUSE: Duration = Duration::from_millis(20);
/// Pauses between faults that are not waited for.
const BREATH: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(400)];

/// How thorough a round is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Every fault once, and changes of the raft leader until there were enough.
    Short,
    /// Every fault again and again, for so long, and changes of the raft leader if there were too few.
    Long(Duration),
}

/// What is to be run.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Decides what is done.
    pub seed: u64,
    /// How many members there are.
    pub members: usize,
    /// How thorough it is.
    pub form: Form,
    /// How the cluster is secured.
    pub security: Security,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was run.
    pub round: Round,
    /// On what: namespaces or relays, and how it was secured.
    pub wiring: String,
    /// How long it took, with the judgement.
    pub took: Duration,
    /// Operations on registers.
    pub operations: usize,
    /// Changes of the raft leader.
    pub leader_changes: usize,
    /// How much longer than planned it went on to prove enough.
    pub longer: Duration,
    /// What struck, and how often.
    pub tally: Tally,
    /// What was judged.
    pub checks: Vec<Check>,
    /// Where data and logs are, if something was wrong.
    pub kept: Option<PathBuf>,
}

/// What struck, and how often.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Every fault that was to be injected.
    pub struck: BTreeMap<Fault, usize>,
    /// What was in force at the same time.
    pub together: BTreeMap<BTreeSet<Fault>, usize>,
}

impl Outcome {
    /// Whether every promise was kept.
    pub fn good(&self) -> bool {
        self.checks.iter().all(|check| check.wrong.is_empty())
    }
}

impl Round {
    /// The command that runs it again.
    pub fn command(&self) -> String {
        let minutes = match self.form {
            Form::Short => String::new(),
            Form::Long(time) => format!("TENURE_MINUTES={:.1} ", time.as_secs_f64() / 60.0),
        };
        format!(
            "TENURE_SEED={} TENURE_MEMBERS={} TENURE_SECURED={} {minutes}cargo nextest run -p tenure-e2e --test torture",
            self.seed,
            self.members,
            u8::from(self.security == Security::TlsAndUsers)
        )
    }

    /// Runs it. What panics is an outcome, too.
    pub async fn run(self) -> Outcome {
        let began = Instant::now();
        // What a round that failed leaves at work ends with its runtime: the next one has the same addresses.
        let alone = move || Runtime::new().expect("there are threads").block_on(self.play());
        let ran = tokio::task::spawn_blocking(alone).await;
        let mut outcome = ran.unwrap_or_else(|panic| {
            let panic = panic.into_panic();
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            let wrong = vec![text.unwrap_or_else(|| "a panic without words".to_owned())];
            let check = Check::new("it ran to its end", &[], wrong);
            Outcome {
                round: self,
                wiring: String::new(),
                took: Duration::ZERO,
                operations: 0,
                leader_changes: 0,
                longer: Duration::ZERO,
                tally: Tally::default(),
                checks: vec![check],
                kept: None,
            }
        });
        outcome.took = began.elapsed();
        outcome
    }

    async fn play(self) -> Outcome {
        let mut chance = Chance::new(self.seed);
        let mut ground = Ground::start(self.members, self.security).await;
        let pause = if self.form == Form::Short { SHORT_PAUSE } else { Duration::ZERO };
        let workload = Workload::start(&mut ground, &mut chance, pause);
        let (tally, longer) = self.torment(&mut ground, &mut chance, &workload).await;
        ground.wiring.heal();
        ground.serves().await;
        let operations = workload.history().len();
        let leader_changes = leader_changes(&ground);
        let mut checks = vec![enough(operations, leader_changes)];
        checks.extend(workload.stop(&mut ground).await);
        checks.push(same_everywhere(&ground).await);
        ground.all_run();
        let mut outcome = Outcome {
            round: self,
            wiring: match self.security {
                Security::Open => ground.wiring.name().to_owned(),
                Security::TlsAndUsers => format!("{}, TLS and users", ground.wiring.name()),
            },
            took: Duration::ZERO,
            operations,
            leader_changes,
            longer,
            tally,
            checks,
            kept: None,
        };
        if !outcome.good() {
            outcome.kept = Some(ground.keep());
        }
        outcome
    }

    /// Injects faults until it is enough. Answers which, and how much longer than planned that took.
    async fn torment(
        &self,
        ground: &mut Ground,
        chance: &mut Chance,
        workload: &Workload,
    ) -> (Tally, Duration) {
        let began = Instant::now();
        let mut tally = Tally::default();
        tally.struck.extend(Fault::possible().into_iter().map(|fault| (fault, 0)));
        let mut deck = self.deal(chance);
        while let Some(fault) = deck.pop() {
            self.strike(fault, ground, chance, began, &mut tally).await;
            match self.form {
                Form::Long(planned) if began.elapsed() > planned => break,
                Form::Long(_) if deck.is_empty() => deck = self.deal(chance),
                Form::Short | Form::Long(_) => {}
            }
        }
        // What may be missing are raft leaders; operations come with time.
        let planned = Instant::now();
        let proved = |ground: &Ground| {
            let operations = workload.history().len();
            operations >= OPERATIONS_MIN && leader_changes(ground) >= LEADER_CHANGES_MIN
        };
        while !proved(ground) && planned.elapsed() < LONGER_MAX {
            for _ in 0..5 {
                let fault = *chance.one_of(&Fault::CHANGES_LEADER);
                self.strike(fault, ground, chance, began, &mut tally).await;
            }
        }
        (tally, planned.elapsed())
    }

    /// Injects one fault.
    async fn strike(
        &self,
        fault: Fault,
        ground: &mut Ground,
        chance: &mut Chance,
        began: Instant,
        tally: &mut Tally,
    ) {
        eprintln!("seed {} {:>7.2?} {fault}", self.seed, began.elapsed());
        let blow = nemesis::strike(fault, ground, chance).await;
        *tally.struck.entry(fault).or_default() += usize::from(blow.struck);
        if !blow.together.is_empty() {
            eprintln!(
                "seed {} {:>7.2?} were {}",
                self.seed,
                began.elapsed(),
                in_words(&blow.together)
            );
            *tally.together.entry(blow.together).or_default() += 1;
        }
        ground.all_run();
        // Some faults are followed by the next before all members are back.
        if chance.percent(70) {
            ground.serves().await;
        } else {
            tokio::time::sleep(chance.between(BREATH[0], BREATH[1])).await;
        }
    }

    /// What comes next: all faults in some order, and changes of the raft leader between them.
    fn deal(&self, chance: &mut Chance) -> Vec<Fault> {
        let mut all = Fault::possible();
        chance.shuffle(&mut all);
        let with_changes = all.into_iter().flat_map(|fault| {
            [fault, *chance.one_of(&Fault::CHANGES_LEADER), *chance.one_of(&Fault::CHANGES_LEADER)]
        });
        with_changes.collect()
    }
}

/// How often another member, or the same one anew, became raft leader.
fn leader_changes(ground: &Ground) -> usize {
    let terms: BTreeSet<u64> = ground
        .logs()
        .lines()
        .filter(|line| line.contains("following") || line.contains("leading"))
        .filter_map(|line| {
            let term = line.split("term=").nth(1)?;
            term.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
        })
        .collect();
    terms.len().saturating_sub(1)
}

fn enough(operations: usize, leader_changes: usize) -> Check {
    let mut wrong = Vec::new();
    if operations < OPERATIONS_MIN {
        wrong.push(format!("{operations} operations are fewer than {OPERATIONS_MIN}"));
    }
    if leader_changes < LEADER_CHANGES_MIN {
        wrong.push(format!("{leader_changes} raft leaders are fewer than {LEADER_CHANGES_MIN}"));
    }
    let against = [("operations", operations), ("changes of the raft leader", leader_changes)];
    Check::new("it was long enough to prove something", &against, wrong)
}

/// Fails by itself if they are not.
async fn same_everywhere(ground: &Ground) -> Check {
    ground.cluster.same_everywhere().await;
    Check::new("all members hold the same", &[("members", ground.count())], Vec::new())
}
