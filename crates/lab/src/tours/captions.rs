//! The captions of all tours. The figures in them are those of the stories with the seed of tours.

use super::{Cue, Stop, Tour};

const fn stop(
    event: &'static str,
    who: &'static str,
    text: &'static str,
    says: &'static str,
) -> Stop {
    Stop { cue: Cue { event, who, text }, says }
}

/// All tours, in the order of an explanation.
pub const TOURS: &[Tour] = &[
    Tour {
        title: "Bully",
        story: "bully-partition",
        stops: &[
            stop(
                "start",
                "a",
                "",
                "Five processes, numbered by their letters. The highest that is alive shall lead.",
            ),
            stop(
                "send",
                "a",
                "is a higher process alive",
                "Each asks the higher ones whether they are alive. An answer means: leave it to me.",
            ),
            stop(
                "lead",
                "e",
                "",
                "No process is higher than e. It has waited for an answer that cannot come, and leads.",
            ),
            stop(
                "fault",
                "",
                "split",
                "The network is cut in two. On the left a and b, on the right c, d and e. Every process is well.",
            ),
            stop(
                "lead",
                "b",
                "",
                "To b, silence means death. It is the highest on its side, and it leads.",
            ),
            stop(
                "breach",
                "",
                "believe to lead",
                "Two leaders at once. Neither of them has done anything that the algorithm forbids.",
            ),
            stop(
                "breach",
                "",
                "was taken",
                "Both write to the same storage. The write of e arrives after one of b and overwrites it.",
            ),
            stop(
                "step_down",
                "b",
                "",
                "The network heals, they ask again, and one of the two gives up. What both have written stays.",
            ),
        ],
    },
    Tour {
        title: "Ring",
        story: "ring-token",
        stops: &[
            stop(
                "send",
                "a",
                "election, signed by a",
                "Each process knows its neighbour only. An election goes round, and each process signs it.",
            ),
            stop(
                "send",
                "c",
                "election, signed by a, b, c",
                "On its way it collects names. The highest of them will lead.",
            ),
            stop(
                "lead",
                "e",
                "",
                "It has been round once: e is the highest that signed it, and leads.",
            ),
            stop(
                "fault",
                "",
                "crash e",
                "The leader dies. Its neighbours hear no heartbeat any more, and an election sets out.",
            ),
            stop(
                "fault",
                "",
                "crash d",
                "The process that has the election dies with it. No copy exists: the others wait for an outcome that never comes.",
            ),
            stop(
                "lead",
                "c",
                "",
                "Only when their patience ends does a new election set out. There was no leader for 1.8 seconds, longer than promised.",
            ),
        ],
    },
    Tour {
        title: "Raft",
        story: "raft-partition",
        stops: &[
            stop(
                "lead",
                "a",
                "",
                "A majority of five has voted for a. A vote counts for one term, and no member votes twice in it.",
            ),
            stop(
                "fault",
                "",
                "isolate",
                "The leader is cut off from all others. It does not know that yet: silence takes time to notice.",
            ),
            stop(
                "lead",
                "e",
                "",
                "The other four are a majority. After a timeout they elect e, in a higher term.",
            ),
            stop(
                "breach",
                "",
                "believe to lead",
                "Two believe to lead. Raft never promised otherwise: it promises one leader in each term.",
            ),
            stop(
                "written",
                "storage",
                "refuses the write of a",
                "Each write carries its term as a token. The storage has seen a higher one and refuses what a sends.",
            ),
            stop(
                "step_down",
                "a",
                "",
                "A leader that reaches no majority for a timeout stops by itself. The lower term could never commit anything anyway.",
            ),
        ],
    },
    Tour {
        title: "ZooKeeper's sequential nodes",
        story: "zookeeper-fenced-pause",
        stops: &[
            stop(
                "lead",
                "a",
                "",
                "Each candidate makes a numbered node that ends with its session. The lowest number leads.",
            ),
            stop(
                "fault",
                "",
                "pause",
                "The leader is paused, as in a long garbage collection. It sends no heartbeats, and does not notice that.",
            ),
            stop(
                "lead",
                "b",
                "",
                "After the session timeout the node is gone. Only the next candidate watches it, so only that one is woken.",
            ),
            stop(
                "resume",
                "a",
                "",
                "A minute later a resumes, in the middle of what it was doing.",
            ),
            stop(
                "breach",
                "",
                "believe to lead",
                "It has not looked at its session yet. For a moment two believe to lead; no lock service can prevent that.",
            ),
            stop(
                "written",
                "storage",
                "refuses the write of a",
                "Its write carries the number of the transaction that made its node. The storage has seen a later one and refuses it.",
            ),
        ],
    },
    Tour {
        title: "etcd's election recipe",
        story: "etcd-recipe-pause",
        stops: &[
            stop(
                "lead",
                "a",
                "",
                "Each candidate puts a key under one prefix, bound to its lease. The lowest create revision leads; here it is the token.",
            ),
            stop("fault", "", "pause", "The leader is paused for 30 seconds. Its lease has ten."),
            stop(
                "lead",
                "b",
                "",
                "The lease ends, the key goes with it, and the candidate behind it is told by its watch.",
            ),
            stop(
                "breach",
                "",
                "believe to lead",
                "When a resumes it still believes. Its own clock would tell, but it does not look before it writes.",
            ),
            stop(
                "written",
                "storage",
                "refuses the write of a",
                "The storage compares revisions: 1 is lower than 2. The election did not prevent the write, the token did.",
            ),
        ],
    },
    Tour {
        title: "Lease",
        story: "lease-gc-pause",
        stops: &[
            stop(
                "lead",
                "a",
                "",
                "A lease is leadership with an end: ten seconds, renewed in time. The store grants it with token 100.",
            ),
            stop(
                "fault",
                "",
                "pause",
                "At five seconds the leader is paused for thirty. To itself, no time passes.",
            ),
            stop(
                "lead",
                "b",
                "",
                "The lease has ended, and b has the next one, with token 101. So far all is as it should be.",
            ),
            stop(
                "resume",
                "a",
                "",
                "Now a resumes. The last thing it knows is that its lease was good for another while.",
            ),
            stop(
                "breach",
                "",
                "believe to lead",
                "It finishes what it had begun. Nothing stands between it and the storage.",
            ),
            stop(
                "breach",
                "",
                "was taken",
                "Its write is taken after one of b. The lease was right at every moment, and the data is wrong all the same.",
            ),
        ],
    },
    Tour {
        title: "Fencing tokens",
        story: "lease-fenced-gc-pause",
        stops: &[
            stop(
                "lead",
                "a",
                "",
                "The same lease and the same pause. One thing is new: the storage looks at the token.",
            ),
            stop("fault", "", "pause", "The leader is paused for longer than its lease."),
            stop("lead", "b", "", "The successor has token 101. Tokens only grow."),
            stop(
                "written",
                "storage",
                "takes the write of b",
                "The first write of b tells the storage that there is a token 101. From here on 100 is the past.",
            ),
            stop(
                "breach",
                "",
                "believe to lead",
                "The old leader resumes and believes. That cannot be prevented, and now it need not be.",
            ),
            stop(
                "written",
                "storage",
                "refuses the write of a",
                "Refused: token 100 is lower than 101. One comparison, in the one place that counts.",
            ),
        ],
    },
    Tour {
        title: "A lock by compare-and-swap",
        story: "cas-lock-ttl-foreign-unlock",
        stops: &[
            stop(
                "lead",
                "c",
                "",
                "The lock is one key: 0 is free, 1 is taken. To take it, swap 0 for 1; it ends by itself after ten seconds.",
            ),
            stop(
                "fault",
                "",
                "pause",
                "The owner is paused for ten seconds. Its lock ends meanwhile.",
            ),
            stop(
                "lead",
                "e",
                "",
                "Another process takes it. The value is 1 again, as if nothing had happened.",
            ),
            stop(
                "breach",
                "",
                "unlocks the lock of e",
                "The old owner resumes and unlocks. It compares with 1 and finds 1: the lock of another.",
            ),
            stop(
                "lead",
                "a",
                "",
                "A third process finds the lock free, although e has not given it back. A value that says whose it is would have helped.",
            ),
        ],
    },
    Tour {
        title: "Redis SETNX and failover",
        story: "redis-failover",
        stops: &[
            stop(
                "lead",
                "c",
                "",
                "One server, one key, set if it is not there, with an end. The owner is c.",
            ),
            stop(
                "fault",
                "",
                "crash primary",
                "The server dies half a second later. It copies to its replica each second: the lock was not copied yet.",
            ),
            stop(
                "lead",
                "a",
                "",
                "The replica takes over and knows of no lock. It grants it to a.",
            ),
            stop(
                "breach",
                "",
                "believe to lead",
                "Two owners. Each has an answer from the server that says so.",
            ),
            stop(
                "breach",
                "",
                "was taken",
                "Both write. Copying later is fine for a cache, and not for a lock.",
            ),
        ],
    },
    Tour {
        title: "Redlock",
        story: "redlock-pause",
        stops: &[
            stop(
                "send",
                "a",
                "set leader-lock",
                "Five independent servers. A client that gets the lock from three of them in time owns it.",
            ),
            stop(
                "lead",
                "a",
                "",
                "Three have answered: a owns the lock for a bit less than ten seconds.",
            ),
            stop(
                "fault",
                "",
                "pause",
                "The owner is paused for twenty. All servers are up, all clocks are right.",
            ),
            stop(
                "lead",
                "c",
                "",
                "The lock has ended at all five, and c takes it. That is as designed.",
            ),
            stop("resume", "a", "", "The pause is over. The last look at the clock was before it."),
            stop(
                "breach",
                "",
                "was taken",
                "The write of a is taken. There is no token that the storage could compare: more servers do not help here.",
            ),
        ],
    },
    Tour {
        title: "Kubernetes Lease",
        story: "kubernetes-pause",
        stops: &[
            stop(
                "lead",
                "a",
                "",
                "One object names the holder. The others watch it, and count by their own clocks how long it has not changed.",
            ),
            stop("fault", "", "pause", "The leader is paused for 40 seconds."),
            stop(
                "lead",
                "c",
                "",
                "The object has not changed for 15 seconds, so c takes it. Clocks of different machines are never compared.",
            ),
            stop(
                "breach",
                "",
                "believe to lead",
                "The old leader resumes. The library's documentation says that it does not fence, and means this moment.",
            ),
            stop(
                "breach",
                "",
                "was taken",
                "Its last write is taken. What must not happen needs a token, or a write that depends on the object's version.",
            ),
        ],
    },
    Tour {
        title: "Why consensus may never end (FLP)",
        story: "flp-stall",
        stops: &[
            stop(
                "start",
                "a",
                "",
                "Three processes want to agree on a leader. None of them will die, and every message will arrive.",
            ),
            stop(
                "say",
                "adversary",
                "",
                "But an adversary chooses when. It delays the one message that would decide the round.",
            ),
            stop(
                "send",
                "c",
                "I propose none",
                "Without it the votes are even. No process may decide, and a new round begins.",
            ),
            stop(
                "state",
                "a",
                "round 2",
                "Round two, the same votes, the same delay. Nothing wrong is ever decided.",
            ),
            stop(
                "state",
                "a",
                "round 100",
                "A hundred rounds later nothing is decided at all. That is the theorem: agreement can be safe, but not certain to end.",
            ),
        ],
    },
    Tour {
        title: "tenure",
        story: "tenure-pause",
        stops: &[
            stop(
                "lead",
                "a",
                "",
                "Three servers keep one log. A candidate leads when the log says so, and its revision there is the token.",
            ),
            stop(
                "fault",
                "",
                "pause",
                "The leader is paused for twelve seconds. Its session has five, less what is kept as a margin.",
            ),
            stop(
                "lead",
                "b",
                "",
                "The servers have waited for the whole time to live, and for no time in which a renewal was impossible.",
            ),
            stop(
                "breach",
                "",
                "believe to lead",
                "The old leader resumes and believes for an instant. The library would look at the clock; this one writes first, on purpose.",
            ),
            stop(
                "written",
                "storage",
                "refuses the write of a",
                "Refused: it has seen token 3. The promise that counts is kept, no write of an earlier leader after one of a later.",
            ),
        ],
    },
];
