//! Faults of elections.

use super::{
    Fault,
    Shown::{Both, Ours},
    places::{
        CASES_ELECTIONS, CASES_ELECTORS, CASES_SESSIONS, ELECT_COMMANDS, ELECTION_SCRIPTS,
        EXCHANGE, LAB_LEASES, LAB_RECIPES, LEASE, RECIPES_CLUSTER, RECIPES_PROCESSES, RUN,
        STOCK_CLIENTS,
    },
};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        what: "a candidate whose session ended while it waited is told that it was elected",
        source: "etcd#11007, etcd-client#14",
        shown: Both {
            test: "candidate_whose_session_ended_is_not_elected",
            etcd: "elected, with a key that does not exist",
            tenure: "refused: election: session is expired",
        },
    },
    Fault {
        what: "a candidate whose session ended waits on until all before it have gone",
        source: "etcd#19597",
        shown: Both {
            test: "candidate_is_told_at_once_that_its_session_ended",
            etcd: "still waiting",
            tenure: "refused: election: session is expired",
        },
    },
    Fault {
        what: "a candidate whose key was deleted is elected all the same",
        source: "etcd#11777",
        shown: Both {
            test: "candidate_whose_key_was_deleted_is_not_elected",
            etcd: "elected, with a key that does not exist",
            tenure: "refused: election: session is expired",
        },
    },
    Fault {
        what: "a campaign that failed leaves its key behind, where it blocks all that come later",
        source: "etcd#21128, stolon#659",
        shown: Both {
            test: "compaction_does_not_break_a_campaign",
            etcd: "failed: etcdserver: mvcc: required revision has been compacted; its key stayed",
            tenure: "all were elected in their turn",
        },
    },
    Fault {
        what: "a candidate that hangs up stays a candidate",
        source: "etcd#21128",
        shown: Both {
            test: "candidate_that_hangs_up_leaves_the_election",
            etcd: "its key is gone, and the next was elected",
            tenure: "its key is gone, and the next was elected",
        },
    },
    Fault {
        what: "a repeated call that is given up takes the first call's place with it",
        source: "etcd `concurrency/election.go`",
        shown: Both {
            test: "repeated_campaign_that_hangs_up_leaves_the_first_its_place",
            etcd: "elected, with a key that does not exist",
            tenure: "elected",
        },
    },
    Fault {
        what: "a candidate is elected when the one before it goes, though the leader stays",
        source: "microsoft/etcd3#176",
        shown: Both {
            test: "candidate_is_elected_only_when_all_before_it_are_gone",
            etcd: "elected after the leader had gone",
            tenure: "elected after the leader had gone",
        },
    },
    Fault {
        what: "a resignation whose answer was lost cannot be repeated",
        source: "etcd#22123",
        shown: Both {
            test: "resign_twice_is_resign_once",
            etcd: "both were answered, nobody leads",
            tenure: "both were answered, nobody leads",
        },
    },
    Fault {
        what: "a resignation that comes late ends the next tenure",
        source: "etcd#22082",
        shown: Both {
            test: "resign_that_is_late_does_not_end_a_newer_tenure",
            etcd: "the newer tenure stands",
            tenure: "the newer tenure stands",
        },
    },
    Fault {
        what: "somebody who does not lead ends another's tenure",
        source: "etcd `concurrency/election.go`",
        shown: Both {
            test: "resign_of_a_stranger_changes_nothing",
            etcd: "the leader leads",
            tenure: "the leader leads",
        },
    },
    Fault {
        what: "a leader that was deposed changes what its successor proclaimed",
        source: "etcd `concurrency/election.go`",
        shown: Both {
            test: "deposed_leader_cannot_proclaim",
            etcd: "refused: election: not leader",
            tenure: "refused: election: not leader",
        },
    },
    Fault {
        what: "a proclamation that names no lease moves the leader's key to one that ends in 60 s",
        source: "etcd `v3election/election.go`",
        shown: Both {
            test: "proclamation_leaves_the_leader_its_lease",
            etcd: "the key hangs on another lease",
            tenure: "the key hangs on the leader's lease",
        },
    },
    Fault {
        what: "campaigning again with the same lease makes a second candidacy",
        source: "Xline `lock_server.rs`",
        shown: Both {
            test: "campaign_again_is_the_same_candidacy",
            etcd: "one key, the same token, the new value",
            tenure: "one key, the same token, the new value",
        },
    },
    Fault {
        what: "two names of which one begins like the other stand in each other's way",
        source: "etcd#6278",
        shown: Both {
            test: "elections_whose_names_begin_alike_are_apart",
            etcd: "both have a leader",
            tenure: "both have a leader",
        },
    },
    Fault {
        what: "everybody is elected after the raft leader failed, and their sessions with it",
        source: "etcd#11007, etcd-client#14",
        shown: Both {
            test: "election_has_one_leader_when_sessions_end_with_the_raft_leader",
            etcd: "all were elected, all but one without a session",
            tenure: "one was elected, the others refused: election: session is expired",
        },
    },
    Fault {
        what: "somebody is elected because the raft leader failed, though the leader leads on",
        source: "etcd#11007",
        shown: Both {
            test: "election_does_not_change_because_the_raft_leader_failed",
            etcd: "nobody while the leader led, then the first candidate",
            tenure: "nobody while the leader led, then the first candidate",
        },
    },
    Fault {
        what: "a long queue breaks when raft leaders fail one after the other, or all members at once",
        source: "etcd#11007",
        shown: Ours {
            tests: &[(
                STOCK_CLIENTS,
                &[
                    "waiters_by_hundreds_survive_killed_raft_leaders",
                    "waiters_by_hundreds_survive_all_members_killed",
                ],
            )],
            says: "who led leads on, and the others follow in the order in which they came",
        },
    },
    Fault {
        what: "no priority, no preferred leader, no named successor, no list of candidates, no history",
        source: "KEP-2835, goelect#13, CURATOR-171, etcd#14030, atlasdb#4474",
        shown: Ours {
            tests: &[
                (RUN, &["run_with_more_priority_goes_first"]),
                (
                    RECIPES_CLUSTER,
                    &[
                        "leader_that_is_overtaken_has_lost_and_leaves_the_election",
                        "leader_drains_for_a_chosen_successor",
                    ],
                ),
                (CASES_ELECTIONS, &["candidates_are_listed_in_order"]),
                (ELECT_COMMANDS, &["leadership_is_handed_over_frozen_and_remembered"]),
            ],
            says: "`tenure.v1` has them",
        },
    },
    Fault {
        what: "a sick leader leads on",
        source: "habitat#3249, argo-workflows#5026",
        shown: Ours {
            tests: &[
                (ELECTION_SCRIPTS, &["election_scripts_pass"]),
                (RECIPES_CLUSTER, &["candidate_that_reports_ill_health_lets_others_pass"]),
                (RUN, &["run_does_not_lead_while_a_check_fails", "run_counts_every_check"]),
            ],
            says: "who says that it is not well makes way, or is passed over \
                   (`crates/replica/tests/scripts/election/one_queue`); `tenure run` looks whether it \
                   is, the library leaves that to the program",
        },
    },
    Fault {
        what: "an elector ends the process, or never campaigns again",
        source: "kuma#11123, kubernetes#129613, kuberhealthy#1533, client-go#1187",
        shown: Ours {
            tests: &[(
                CASES_ELECTORS,
                &["elector_leads_again_after_it_has_lost", "standby_sees_the_leader"],
            )],
            says: "it campaigns again for ever, and nothing stops leading that never led",
        },
    },
    Fault {
        what: "leadership is released while the work still runs; work goes on after it was lost",
        source: "client-go#728, kubernetes#139991, cilium#42920, kthena#1793",
        shown: Ours {
            tests: &[
                (
                    CASES_ELECTORS,
                    &[
                        "elector_releases_only_after_the_work_has_ended",
                        "elector_drops_work_that_does_not_end",
                    ],
                ),
                (RECIPES_PROCESSES, &["blocked_work_ends_its_process_at_the_deadline"]),
            ],
            says: "it is given up after the work has ended; work that does not end is dropped, and \
                   if it blocks, the process ends where that was asked for",
        },
    },
    Fault {
        what: "two leaders after a reconnect, by a clock that moved, or by unlike lease times",
        source: "CURATOR-696, -620, -644, kubernetes#23731, #67651, #125761, #47671",
        shown: Ours {
            tests: &[
                (EXCHANGE, &["exchange_takes_another_token_after_attaching_again_as_a_loss"]),
                (LEASE, &["lease_does_not_care_what_the_wall_clock_says"]),
                (LAB_RECIPES, &["recipes_hold_under_all_faults"]),
            ],
            says: "what comes back with another token was lost, and nobody judges another's lease \
                   by a clock or a time of its own",
        },
    },
    Fault {
        what: "one election object used twice",
        source: "etcd#7547",
        shown: Ours {
            tests: &[(CASES_ELECTIONS, &["session_is_a_candidate_of_an_election_once"])],
            says: "campaigning uses a candidacy up, which the compiler sees to \
                   (`crates/client/src/election/mod.rs`), and a session is a candidate of an election once",
        },
    },
    Fault {
        what: "giving up leadership takes the end of the process, or a whole TTL",
        source: "KEP-5366, kubernetes#132599, karpenter#901",
        shown: Ours {
            tests: &[
                (CASES_ELECTIONS, &["leadership_that_is_dropped_is_resigned"]),
                (RECIPES_CLUSTER, &["leader_drains_for_a_chosen_successor"]),
                (ELECT_COMMANDS, &["leader_resigns_when_an_operator_asks_for_it"]),
                ("e2e/tests/commands/sidecar.rs", &["sidecar_hands_over_once_when_it_steps_down"]),
            ],
            says: "resigning tells the next at once; whoever is to make room for another is asked \
                   first",
        },
    },
    Fault {
        what: "failover takes a minute, or minutes",
        source: "kubernetes-event-exporter#24, vault-helm#743, library-go#1104, patroni#759",
        shown: Ours {
            tests: &[
                (LEASE, &["lease_keeps_a_lease_of_one_second_for_one_second"]),
                (RECIPES_PROCESSES, &["killed_holder_is_followed_at_once_with_fast_release"]),
            ],
            says: "the TTL that was asked for, and at once with fast release: \
                   [benchmarks](benchmarks.md), [guarantees](../reference/guarantees.md#leases)",
        },
    },
    Fault {
        what: "the first candidate waits a whole lease though nobody leads",
        source: "client-go#448, dynamolock#778, dynamodb-lock-client#34",
        shown: Ours {
            tests: &[
                (CASES_ELECTIONS, &["campaign_that_may_not_wait_leaves_no_key"]),
                (LAB_LEASES, &["lease_ends_soon_after_its_ttl"]),
            ],
            says: "who may not wait leads at once if nobody does; the server ends leases, so \
                   nobody has to watch one for its whole time",
        },
    },
    Fault {
        what: "an outage of the store takes a healthy leader down, or cannot be told from a loss",
        source: "patroni#3403, #3572, dynamodb-lock-client#6",
        shown: Ours {
            tests: &[
                (CASES_SESSIONS, &["session_survives_a_short_pause_of_the_server"]),
                (
                    CASES_ELECTORS,
                    &[
                        "elector_stops_the_work_in_doubt",
                        "elector_goes_on_in_doubt_if_it_is_told_to",
                    ],
                ),
                (
                    RECIPES_CLUSTER,
                    &["tenure_end_has_its_reason", "holders_stop_when_there_is_no_majority"],
                ),
            ],
            says: "a short one does no harm, doubt is not loss, and a loss has its reason; work \
                   goes on without the store only if it is told to, and nobody but a majority \
                   vouches for a leader",
        },
    },
];
