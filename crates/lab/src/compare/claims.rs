//! Claims about these algorithms, compared with measurements.
//!
//! The claims are those of the notes on leader election that this project began with; `from` is the heading there. A claim
//! that the measurement contradicts is reported with the reason, as far as it is known.

use std::{fmt, time::Duration};

use super::{ComparisonRow, PartitionSides};
use crate::{algorithms, engine::Trace, stage::Promise};

/// A claim that was contradicted.
#[derive(Clone, Debug)]
pub struct Disagreement {
    pub claim: &'static str,
    pub from: &'static str,
    pub found: Finding,
    pub why: &'static str,
}

/// What contradicts a claim.
#[derive(Clone, Debug)]
pub enum Finding {
    /// A measurement of this run.
    Measured(String),
    /// The documentation of the software in question.
    Documented(&'static str),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Measured(what) => write!(f, "measured: {what}"),
            Finding::Documented(what) => write!(f, "documented: {what}"),
        }
    }
}

struct Claim {
    algorithm: &'static str,
    claim: &'static str,
    from: &'static str,
    /// What contradicts it, if anything does.
    contradicted: fn(&ComparisonRow) -> Option<Finding>,
    why: &'static str,
}

fn within(found: Option<Duration>, low_ms: u64, high_ms: u64) -> Option<Finding> {
    let found = found?;
    let range = Duration::from_millis(low_ms)..=Duration::from_millis(high_ms);
    let text = format!("{:.2} s", found.as_secs_f64());
    (!range.contains(&found)).then_some(Finding::Measured(text))
}

fn grows(row: &ComparisonRow, low: f64, high: f64) -> Option<Finding> {
    let growth = row.growth?;
    let text = format!("messages grow as n^{growth:.1}");
    (!(low..=high).contains(&growth)).then_some(Finding::Measured(text))
}

fn leads(row: &ComparisonRow, sides: PartitionSides) -> Option<Finding> {
    let text = format!("leads in a partition: {}", row.sides.name());
    (row.sides != sides).then_some(Finding::Measured(text))
}

/// How a story broke a promise, if it did in a run just now.
fn story_finding(name: &str, promise: Promise) -> Option<Finding> {
    let outcome = algorithms::story(name)?.play(1, None, Trace::default()).ok()?;
    let broken = outcome.verdicts.into_iter().find(|verdict| verdict.promise == promise)?;
    let (_, how) = broken.breach?;
    Some(Finding::Measured(format!("{how} (tenure lab run {name})")))
}

const CLAIMS: &[Claim] = &[
    Claim {
        algorithm: "bully",
        claim: "the worst case is O(n²) messages",
        from: "leader election",
        contradicted: |row| grows(row, 1.5, 2.5),
        why: "the worst case needs the lowest to notice first; here all notice at about the same time, and \
              processes that hear the winner early send nothing",
    },
    Claim {
        algorithm: "bully",
        claim: "detection takes 2 × RTT",
        from: "comparison of protocols",
        contradicted: |row| within(row.detection, 0, 10),
        why: "that is the time to get an answer, not to notice that one is missing: a process must first have \
              heard nothing for a while, and that while is chosen, not given",
    },
    Claim {
        algorithm: "bully",
        claim: "in a partition both sides elect",
        from: "comparison of protocols",
        contradicted: |row| leads(row, PartitionSides::Both),
        why: "",
    },
    Claim {
        algorithm: "ring",
        claim: "O(n) messages",
        from: "ring",
        contradicted: |row| grows(row, 0.7, 1.3),
        why: "one token round the ring is O(n); but several notice at once and each sends its own, and dead \
              neighbours are tried first",
    },
    Claim {
        algorithm: "heartbeat",
        claim: "3 × 2 s + 5 s = 11 s",
        from: "bounded unavailability",
        contradicted: |row| within(row.failover, 9_000, 11_500),
        why: "the third heartbeat may have been due at any time within its interval",
    },
    Claim {
        algorithm: "heartbeat-lease",
        claim: "TTL + election = 10.2 s",
        from: "bounded unavailability",
        contradicted: |row| within(row.failover, 6_500, 10_400),
        why: "10.2 s is the worst case: a leader dies on average in the middle between two renewals",
    },
    Claim {
        algorithm: "raft-paper",
        claim: "about 600 ms from the leader's death to the next leader, with timeouts of 150–300 ms",
        from: "practical numbers",
        contradicted: |row| within(row.failover, 450, 750),
        why: "the first timeout of several is shorter than any one of them on average, and one round of \
              votes takes a round trip, not a timeout; 600 ms is two timeouts in a row",
    },
    Claim {
        algorithm: "etcd-recipe",
        claim: "the revision in the header of a lease's grant is a fencing token",
        from: "fencing values of ZooKeeper and etcd",
        contradicted: |_| story_finding("etcd-recipe-grant-revision", Promise::TokensGrow),
        why: "a grant takes no revision, so two leases can have the same; and the first granted need not \
              be the first candidate. The create revision of the candidate's key is one",
    },
    Claim {
        algorithm: "etcd-recipe-shortest",
        claim: "1 s lease + 1 s heartbeat = 2–3 s until the next leader",
        from: "practical numbers",
        contradicted: |row| within(row.failover, 2_000, 3_000),
        why: "with its default timeouts etcd grants no lease below 2 s; the time runs from the last renewal, \
              which is a sixth of the lease ago on average, and the next candidate is told at once",
    },
    Claim {
        algorithm: "zookeeper-fenced",
        claim: "the zxid of the session's creation is a fencing token",
        from: "fencing values of ZooKeeper and etcd",
        contradicted: |_| story_finding("zookeeper-session-zxid-crash", Promise::TokensGrow),
        why: "it says when its owner came, not when its turn came. The zxid in which the node was made grows with \
              the number of candidates",
    },
    Claim {
        algorithm: "raft-etcd",
        claim: "etcd's election timeout is 100–500 ms with a heartbeat of 100 ms by default",
        from: "split vote and randomised timeouts",
        contradicted: |_| {
            let defaults = "etcd 3.5: --election-timeout 1000 ms, --heartbeat-interval 100 ms";
            Some(Finding::Documented(defaults))
        },
        why: "its defaults are ten heartbeats; a timeout of one heartbeat would have members campaign with \
              every message that is late",
    },
    Claim {
        algorithm: "raft-paper",
        claim: "detection takes 1–5 s",
        from: "comparison of protocols",
        contradicted: |row| within(row.detection, 1_000, 5_000),
        why: "a follower notices when its timeout runs out, and those of the paper are 150–300 ms; 1–5 s are \
              those of systems that wait longer",
    },
    Claim {
        algorithm: "raft-kraft",
        claim: "18 s until the next controller",
        from: "practical numbers",
        contradicted: |row| within(row.failover, 17_000, 19_000),
        why: "18 s is taken here for the longest: 9 s of silence, up to twice that by chance. What the figure \
              is made of is not told",
    },
    Claim {
        algorithm: "zookeeper",
        claim: "sequential nodes are not balanced: the same low id wins again and again",
        from: "misconceptions",
        contradicted: |row| {
            let text = format!(
                "the most successful of {} won {:.0} %",
                row.winners,
                100.0 * row.top_share
            );
            (row.top_share < 0.4).then_some(Finding::Measured(text))
        },
        why: "a process that comes back gets a new, higher number and is the last candidate: they take turns. The low id is \
              that of the node, not of the process",
    },
    Claim {
        algorithm: "kubernetes",
        claim: "failover in 10–15 s with 15/10/2",
        from: "practical numbers",
        contradicted: |row| within(row.failover, 10_000, 15_000),
        why: "the lease is 15 s from its last renewal as others saw it, and they look every 2 s, jittered",
    },
    Claim {
        algorithm: "zookeeper",
        claim: "failover under 1 s after the session has expired",
        from: "practical numbers",
        contradicted: |row| within(row.failover, 20_000, 31_000),
        why: "",
    },
    Claim {
        algorithm: "redis",
        claim: "a lock can be taken in the minority: AP",
        from: "CAP position",
        contradicted: |row| {
            let none = Finding::Measured("the minority takes none".into());
            (row.sides == PartitionSides::OnlyMajority).then_some(none)
        },
        why: "only a client that reaches a primary can take it; there are two holders when a replica is promoted",
    },
];

/// Every claim about these algorithms that the measurement contradicts.
pub fn disagreements(rows: &[ComparisonRow]) -> Vec<Disagreement> {
    CLAIMS
        .iter()
        .filter_map(|claim| {
            let row = rows.iter().find(|row| row.algorithm == claim.algorithm)?;
            let found = (claim.contradicted)(row)?;
            Some(Disagreement { claim: claim.claim, from: claim.from, found, why: claim.why })
        })
        .collect()
}
