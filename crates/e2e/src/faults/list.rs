//! The list, in the order of the subjects.

use super::{
    Fault,
    Shown::{self, Both, Elsewhere},
};

const LIBRARY: Shown = Elsewhere("the holder's side: the library");
const NATIVE: Shown = Elsewhere("etcd's API has no words for it: `tenure.v1`");

/// Every fault that concerns elections, locks, sessions and those who look on.
pub const FAULTS: &[Fault] = &[
    // Elections.
    Fault {
        what: "a candidate whose session ended while it waited is told that it was elected",
        source: "etcd#11007, etcd-client#14",
        shown: Both {
            test: "a_candidate_whose_session_ended_is_not_elected",
            etcd: "elected, with a key that does not exist",
            tenure: "refused: election: session is expired",
        },
    },
    Fault {
        what: "a candidate whose session ended waits on until all before it have gone",
        source: "etcd#19597",
        shown: Both {
            test: "a_candidate_is_told_at_once_that_its_session_ended",
            etcd: "still waiting",
            tenure: "refused: election: session is expired",
        },
    },
    Fault {
        what: "a candidate whose key was deleted is elected all the same",
        source: "etcd#11777",
        shown: Both {
            test: "a_candidate_whose_key_was_deleted_is_not_elected",
            etcd: "elected, with a key that does not exist",
            tenure: "refused: election: session is expired",
        },
    },
    Fault {
        what: "a campaign that failed leaves its key in the line, where it blocks everybody behind",
        source: "etcd#21128, stolon#659",
        shown: Both {
            test: "compaction_does_not_break_a_campaign",
            etcd: "failed: etcdserver: mvcc: required revision has been compacted; its key stayed in the line",
            tenure: "all were elected in their turn",
        },
    },
    Fault {
        what: "a candidate that hangs up stays in the line",
        source: "etcd#21128",
        shown: Both {
            test: "a_candidate_that_hangs_up_leaves_the_line",
            etcd: "its key is gone, and the next was elected",
            tenure: "its key is gone, and the next was elected",
        },
    },
    Fault {
        what: "a repeated call that is given up takes the first call's place with it",
        source: "etcd `concurrency/election.go`",
        shown: Both {
            test: "a_repeated_campaign_that_hangs_up_leaves_the_first_its_place",
            etcd: "elected, with a key that does not exist",
            tenure: "elected",
        },
    },
    Fault {
        what: "a candidate is elected when the one before it goes, though the leader stays",
        source: "microsoft/etcd3#176",
        shown: Both {
            test: "a_candidate_is_elected_only_when_all_before_it_are_gone",
            etcd: "elected after the leader had gone",
            tenure: "elected after the leader had gone",
        },
    },
    Fault {
        what: "a resignation whose answer was lost cannot be repeated",
        source: "etcd#22123",
        shown: Both {
            test: "resigning_twice_is_resigning_once",
            etcd: "both were answered, nobody leads",
            tenure: "both were answered, nobody leads",
        },
    },
    Fault {
        what: "a resignation that comes late ends the next tenure",
        source: "etcd#22082",
        shown: Both {
            test: "a_late_resignation_does_not_end_a_newer_tenure",
            etcd: "the newer tenure stands",
            tenure: "the newer tenure stands",
        },
    },
    Fault {
        what: "somebody who does not lead ends another's tenure",
        source: "etcd `concurrency/election.go`",
        shown: Both {
            test: "a_strangers_resignation_changes_nothing",
            etcd: "the leader leads",
            tenure: "the leader leads",
        },
    },
    Fault {
        what: "a leader that was deposed changes what its successor proclaimed",
        source: "etcd `concurrency/election.go`",
        shown: Both {
            test: "a_deposed_leader_cannot_proclaim",
            etcd: "refused: election: not leader",
            tenure: "refused: election: not leader",
        },
    },
    Fault {
        what: "a proclamation that names no lease moves the leader's key to one that ends in 60 s",
        source: "etcd `v3election/election.go`",
        shown: Both {
            test: "a_proclamation_leaves_the_leader_its_lease",
            etcd: "the key hangs on another lease",
            tenure: "the key hangs on the leader's lease",
        },
    },
    Fault {
        what: "campaigning again with the same lease makes a second candidacy",
        source: "Xline `lock_server.rs`",
        shown: Both {
            test: "campaigning_again_is_the_same_candidacy",
            etcd: "one key, the same token, the new value",
            tenure: "one key, the same token, the new value",
        },
    },
    Fault {
        what: "two names of which one begins like the other stand in each other's way",
        source: "etcd#6278",
        shown: Both {
            test: "names_that_begin_alike_are_strangers",
            etcd: "both have a leader",
            tenure: "both have a leader",
        },
    },
    Fault {
        what: "everybody leads after the raft leader failed",
        source: "etcd#11007",
        shown: Elsewhere("`crates/e2e/tests/elections/one_line.rs`"),
    },
    Fault {
        what: "no priority, no preferred leader, no named successor, no list of candidates, no history",
        source: "KEP-2835, goelect#13, CURATOR-171, etcd#14030, atlasdb#4474",
        shown: NATIVE,
    },
    Fault {
        what: "a sick leader leads on",
        source: "habitat#3249, argo-workflows#5026",
        shown: NATIVE,
    },
    Fault {
        what: "an elector ends the process, or never campaigns again",
        source: "kuma#11123, kubernetes#129613, kuberhealthy#1533, client-go#1187",
        shown: LIBRARY,
    },
    Fault {
        what: "leadership is released while the work still runs; work goes on after it was lost",
        source: "client-go#728, kubernetes#139991, cilium#42920, kthena#1793",
        shown: LIBRARY,
    },
    Fault {
        what: "two leaders after a reconnect, by a clock that moved, or by unlike lease times",
        source: "CURATOR-696, -620, -644, kubernetes#23731, #67651, #125761, #47671",
        shown: LIBRARY,
    },
    Fault {
        what: "one election object used twice",
        source: "etcd#7547",
        shown: Elsewhere("the library: a candidacy is consumed by campaigning"),
    },
    Fault {
        what: "giving up leadership takes the end of the process, or a whole TTL",
        source: "KEP-5366, kubernetes#132599, karpenter#901",
        shown: Elsewhere("resigning tells the next at once; draining before it: `tenure.v1`"),
    },
    Fault {
        what: "failover takes a minute, or minutes",
        source: "kubernetes-event-exporter#24, vault-helm#743, library-go#1104, patroni#759",
        shown: Elsewhere("[BENCHMARKS.md](BENCHMARKS.md), [GUARANTEES.md](GUARANTEES.md#leases)"),
    },
    Fault {
        what: "the first candidate waits a whole lease though nobody leads",
        source: "client-go#448, dynamolock#778, dynamodb-lock-client#34",
        shown: Elsewhere("the server ends leases, so nobody has to watch one for its whole time"),
    },
    Fault {
        what: "an outage of the store takes a healthy leader down, or cannot be told from a loss",
        source: "patroni#3403, #3572, dynamodb-lock-client#6",
        shown: LIBRARY,
    },
    // Locks.
    Fault {
        what: "a waiter whose session ended is told that it holds the lock",
        source: "etcd#11456, #9921, Jepsen etcd 3.4.3",
        shown: Both {
            test: "a_waiter_whose_session_ended_does_not_get_the_lock",
            etcd: "refused: mutex: session is expired",
            tenure: "refused: mutex: session is expired",
        },
    },
    Fault {
        what: "a waiter whose session ended waits on until all before it have gone",
        source: "etcd#19597",
        shown: Both {
            test: "a_waiter_is_told_at_once_that_its_session_ended",
            etcd: "still waiting",
            tenure: "refused: mutex: session is expired",
        },
    },
    Fault {
        what: "a lock comes without a fencing token",
        source: "etcd#11457, #11788, `LockResponse`, amazon-dynamodb-lock-client#1",
        shown: Both {
            test: "a_lock_comes_with_its_token",
            etcd: "no token; the header has another revision than the key's",
            tenure: "the token is the key's create revision",
        },
    },
    Fault {
        what: "an unlock that comes late frees the next hold",
        source: "etcd#22082",
        shown: Both {
            test: "a_late_unlock_does_not_free_a_newer_hold",
            etcd: "the newer hold is gone",
            tenure: "the newer hold stands",
        },
    },
    Fault {
        what: "an unlock whose answer was lost cannot be repeated",
        source: "CURATOR-678, CURATOR-486",
        shown: Both {
            test: "unlocking_twice_is_unlocking_once",
            etcd: "both were answered, the lock is free",
            tenure: "both were answered, the lock is free",
        },
    },
    Fault {
        what: "a repeated call waits for itself",
        source: "Xline `lock_server.rs`",
        shown: Both {
            test: "locking_again_is_the_same_hold",
            etcd: "held once",
            tenure: "held once",
        },
    },
    Fault {
        what: "a repeated call that is given up takes the first call's place with it",
        source: "etcd `concurrency/mutex.go`",
        shown: Both {
            test: "a_repeated_lock_that_hangs_up_leaves_the_first_its_place",
            etcd: "refused: mutex: session is expired",
            tenure: "locked",
        },
    },
    Fault {
        what: "waiting breaks when history is compacted",
        source: "etcd#21128",
        shown: Both {
            test: "compaction_does_not_break_a_waiter",
            etcd: "failed: etcdserver: mvcc: required revision has been compacted",
            tenure: "all were locked in their turn",
        },
    },
    Fault {
        what: "a contended lock costs 100 ms",
        source: "etcd `mvcc/watchable_store.go`",
        shown: Both {
            test: "a_contended_lock_costs_no_more_than_a_few_free_ones",
            etcd: "more than ten free ones",
            tenure: "no more than ten free ones",
        },
    },
    Fault {
        what: "everybody wakes up when a lock comes free",
        source: "consul#7523, #9469",
        shown: Elsewhere("one is told, found in a map: `crates/replica/src/queue/listeners.rs`"),
    },
    Fault {
        what: "a lock is held for a fixed time, or for hours by a process that is dead",
        source: "ShedLock#151, #606, #1587, factcast#2854",
        shown: Elsewhere("a lock hangs on a lease that its holder renews"),
    },
    Fault {
        what: "guards for what is outside the store are left to the reader",
        source: "etcd#11788, redisson#4684",
        shown: Elsewhere("the library: `fence`"),
    },
    Fault {
        what: "waiters are not served in their order",
        source: "hazelcast-locks#9, Consul",
        shown: Both {
            test: "waiters_get_the_lock_in_the_order_they_came",
            etcd: "in their order, tokens growing",
            tenure: "in their order, tokens growing",
        },
    },
    Fault {
        what: "nobody but the holder can free a lock",
        source: "CURATOR-150, CURATOR-650",
        shown: Both {
            test: "an_operator_can_free_a_lock",
            etcd: "the next got it, with a larger token",
            tenure: "the next got it, with a larger token",
        },
    },
    Fault {
        what: "names and counters of locks that nobody holds are kept for ever",
        source: "redisson#6510, hazelcast#17436",
        shown: Both {
            test: "a_free_lock_leaves_nothing_behind",
            etcd: "nothing is stored",
            tenure: "nothing is stored",
        },
    },
    Fault {
        what: "one lease for each lock",
        source: "Scalingo/link#89",
        shown: Both {
            test: "one_session_holds_many_locks",
            etcd: "both are held by one lease",
            tenure: "both are held by one lease",
        },
    },
    Fault {
        what: "a lock taken without a lease vanishes after 60 s, and nobody is told",
        source: "etcd-cpp-apiv3#30",
        shown: Both {
            test: "a_lock_without_a_lease_says_how_long_it_holds",
            etcd: "no word of a lease, and less than 60 s left",
            tenure: "the lease and its 60 s, counted from the grant",
        },
    },
    Fault {
        what: "a waiter without a lease loses its place after 60 s",
        source: "etcd `v3lock/lock.go`",
        shown: Both {
            test: "a_waiter_without_a_lease_keeps_its_place",
            etcd: "its lease runs out while it waits",
            tenure: "its lease is renewed while it waits",
        },
    },
    Fault {
        what: "unlocking leaves the lease behind that locking made",
        source: "etcd-cpp-apiv3#116",
        shown: Both {
            test: "unlocking_ends_the_lease_that_locking_made",
            etcd: "the lease is left behind",
            tenure: "no lease is left",
        },
    },
    Fault {
        what: "reader-writer locks and semaphores are missing, or grant twice",
        source: "etcd#16221, #12490, etcd-client#74, etcd-cpp-apiv3#316",
        shown: NATIVE,
    },
    Fault {
        what: "two holders after a network loss; the holder does not know that it lost the lock",
        source: "etcd#10811, #6127, CURATOR-206, redisson#3636",
        shown: LIBRARY,
    },
    Fault {
        what: "a lock is mistaken for protection of what it guards",
        source: "etcd#11457, #11490, redisson#4684",
        shown: Both {
            test: "a_holder_that_lost_the_lock_cannot_write_with_its_token",
            etcd: "refused: its key has gone",
            tenure: "refused: its key has gone",
        },
    },
    Fault {
        what: "a failover of the store loses locks",
        source: "redisson#2669, #5965",
        shown: Elsewhere("`crates/e2e/tests/elections/one_line.rs`"),
    },
    Fault {
        what: "the command that runs under a lock outlives it",
        source: "`etcdctl lock`, consul#2022, #873, #9788",
        shown: Elsewhere("`tenure run`"),
    },
    Fault {
        what: "a retried request acts twice",
        source: "Jepsen jetcd 0.8.2",
        shown: Elsewhere("a lease stands in a line once (above); request ids: `tenure.v1`"),
    },
    Fault {
        what: "a call waits for ever when the servers are down",
        source: "etcd#18082",
        shown: LIBRARY,
    },
    // Sessions.
    Fault {
        what: "every lease starts anew when the raft leader changes",
        source: "etcd#9888, #9395, #13294, kubernetes#65497",
        shown: Both {
            test: "a_new_raft_leader_does_not_start_leases_anew",
            etcd: "the lease has its whole time again",
            tenure: "the lease goes on where it was",
        },
    },
    Fault {
        what: "a raft leader that slept ends sessions that are alive",
        source: "etcd#15247, #12528",
        shown: Both {
            test: "a_raft_leader_that_slept_ends_no_live_session",
            etcd: "a session that was renewed all the time ended or the session lives",
            tenure: "the session lives",
        },
    },
    Fault {
        what: "who asks for 1 s gets 2",
        source: "etcd#14857, #11746",
        shown: Both { test: "a_lease_of_a_second_is_one", etcd: "2 s", tenure: "1 s" },
    },
    Fault {
        what: "when the store is full nobody can be elected",
        source: "etcd#11947, #9992",
        shown: Both {
            test: "a_full_store_still_elects",
            etcd: "the old leader's lease ended; refused: etcdserver: mvcc: database space exceeded",
            tenure: "the old leader's lease ended; elected",
        },
    },
    Fault {
        what: "after a restore, tokens that were given out are given out again",
        source: "etcd#16028, #14303",
        shown: Both {
            test: "a_restored_cluster_repeats_no_token",
            etcd: "a token that an earlier holder had",
            tenure: "a token larger than all before",
        },
    },
    Fault {
        what: "leases end late when many end at once",
        source: "etcd#12105, #9360, #9496",
        shown: Elsewhere("[BENCHMARKS.md](BENCHMARKS.md): lease expiry"),
    },
    Fault {
        what: "leases are lost, or cannot end",
        source: "etcd#14019, #13975",
        shown: Elsewhere("`crates/replica/tests/world/invariants/leases_end.rs`, `leases_kept.rs`"),
    },
    Fault {
        what: "the upkeep of the store stalls renewals",
        source: "etcd-backup-restore#1052, etcd#9222",
        shown: Elsewhere("there is no defragmentation"),
    },
    Fault {
        what: "sessions end when the servers are overloaded",
        source: "argo-workflows#5234, ovn-kubernetes#3959, etcd#20492",
        shown: Elsewhere("`crates/e2e/tests/api/overload.rs`"),
    },
    Fault {
        what: "sessions end, or calls fail, when the servers change their leader",
        source: "consul#912, #1162, #1457, python-consul-lock#4, patroni#522",
        shown: Elsewhere("`crates/e2e/tests/api/lease.rs`, `one_line.rs`"),
    },
    Fault {
        what: "renewals are a heavy load",
        source: "kubernetes#65666, hypershift#1092, vault-secrets-operator#373, KEP-4355",
        shown: Elsewhere(
            "they take no revision, no history and no quota: [decisions/0005](decisions/0005-leases.md)",
        ),
    },
    Fault {
        what: "a token that runs out ends renewals and watches",
        source: "etcd#8287, #11954, #12085, #18778",
        shown: Elsewhere("there are no users and roles yet"),
    },
    Fault {
        what: "a session ends and nobody says why",
        source: "etcd#10821, #6922, dynamodb-lock-client#6",
        shown: NATIVE,
    },
    Fault {
        what: "renewals stop silently, or wait for a slow member",
        source: "etcd#13156, redisson#5698, #3194",
        shown: LIBRARY,
    },
    Fault {
        what: "the session outlives the work",
        source: "etcd#17470, stolon#659",
        shown: LIBRARY,
    },
    Fault {
        what: "failover takes twice the TTL, or a lock delay on top of it",
        source: "consul#1172, #4232, vault#2949",
        shown: Elsewhere(
            "[GUARANTEES.md](GUARANTEES.md): TTL and raft failover; `crates/e2e/tests/api/lease.rs`",
        ),
    },
    // Those who look on.
    Fault {
        what: "an observer hears of a leader that is none",
        source: "etcd#18163",
        shown: Both {
            test: "an_observer_hears_of_the_leader_and_nobody_else",
            etcd: "of another than the leader",
            tenure: "of the leader",
        },
    },
    Fault {
        what: "an observer's stream ends when history is compacted",
        source: "etcd#7815",
        shown: Both {
            test: "compaction_does_not_break_an_observer",
            etcd: "ended: the stream ended without a word",
            tenure: "heard of every leader",
        },
    },
    Fault {
        what: "an observer is not told that nobody leads",
        source: "trillian#1387, charts#326",
        shown: NATIVE,
    },
    Fault {
        what: "watches lose events, starve, or hang at a member that is cut off",
        source: "etcd#17529, #15237, #8980, Xline#677",
        shown: Elsewhere("`crates/e2e/tests/api/watch.rs`, `partition.rs`"),
    },
    Fault {
        what: "a sidecar names a leader that is long gone",
        source: "kubernetes-retired/contrib#2930, operator-sdk#4440",
        shown: Elsewhere("the sidecar"),
    },
];
