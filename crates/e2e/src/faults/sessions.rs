//! Faults of sessions and leases.

use super::{
    Fault,
    Shown::{Both, Ours},
    places::{
        CASES_SESSIONS, CRASH, ELECTION_SCRIPTS, EXCHANGE, LAB_CANARIES, LAB_LEASES, LEASE,
        RECIPES_CLUSTER, RECIPES_PROCESSES, RETRY, RUN, SESSIONS,
    },
};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        what: "every lease starts anew when the raft leader changes",
        source: "etcd#9888, #9395, #13294, kubernetes#65497",
        shown: Both {
            test: "leases_are_not_started_anew_by_a_new_raft_leader",
            etcd: "the lease has its whole time again",
            tenure: "the lease goes on where it was",
        },
    },
    Fault {
        what: "a raft leader that slept ends sessions that are alive",
        source: "etcd#15247, #12528",
        shown: Both {
            test: "raft_leader_that_slept_ends_no_live_session",
            etcd: "a session that was renewed all the time ended or the session lives",
            tenure: "the session lives",
        },
    },
    Fault {
        what: "who asks for 1 s gets 2",
        source: "etcd#14857, #11746",
        shown: Both { test: "lease_of_a_second_is_one", etcd: "2 s", tenure: "1 s" },
    },
    Fault {
        what: "when the store is full nobody can be elected",
        source: "etcd#11947, #9992",
        shown: Both {
            test: "store_that_is_full_still_elects",
            etcd: "the old leader's lease ended; refused: etcdserver: mvcc: database space exceeded",
            tenure: "the old leader's lease ended; elected",
        },
    },
    Fault {
        what: "after a restore, tokens that were given out are given out again",
        source: "etcd#16028, #14303",
        shown: Both {
            test: "restored_cluster_repeats_no_token",
            etcd: "a token that an earlier holder had",
            tenure: "a token larger than all before",
        },
    },
    Fault {
        what: "leases end late when many end at once",
        source: "etcd#12105, #9360, #9496",
        shown: Both {
            test: "leases_by_thousands_end_in_time",
            etcd: "the last ended more than 2 s late",
            tenure: "all had ended within a second of their time",
        },
    },
    Fault {
        what: "leases end early, or their keys stay, when many end at once",
        source: "etcd#12105, #9360, #9496",
        shown: Ours {
            tests: &[
                (LEASE, &["lease_ends_thousands_of_leases_together_and_none_early"]),
                (LAB_LEASES, &["leases_that_end_together_end_soon"]),
            ],
            says: "thousands end together: [benchmarks](benchmarks.md), lease expiry",
        },
    },
    Fault {
        what: "leases are lost, or cannot end",
        source: "etcd#14019, #13975",
        shown: Ours {
            tests: &[
                ("lab/tests/cluster/chance.rs", &["cluster_holds_under_all_faults"]),
                (LAB_LEASES, &["lease_expiry_is_proposed_again_after_it_was_dropped"]),
                (
                    LAB_CANARIES,
                    &[
                        "canary_stale_expiry_is_found",
                        "canary_lease_reset_by_every_leader_is_found",
                    ],
                ),
            ],
            says: "judged in every run that chance plays: \
                   `crates/lab/src/invariants/leases_kept.rs`, \
                   `crates/lab/src/invariants/leases_end.rs`; bugs that are planted are found",
        },
    },
    Fault {
        what: "the upkeep of the store stalls renewals",
        source: "etcd-backup-restore#1052, etcd#9222",
        shown: Ours {
            tests: &[(
                "e2e/tests/elections/sessions_during_maintenance.rs",
                &["sessions_of_a_second_outlive_compaction_defragmentation_hashes_and_backups"],
            )],
            says: "there is no defragmentation, and compaction, hashes and backups are done beside the loop",
        },
    },
    Fault {
        what: "sessions end when the servers are overloaded",
        source: "argo-workflows#5234, ovn-kubernetes#3959, etcd#20492",
        shown: Ours {
            tests: &[
                (
                    "e2e/tests/api/overload.rs",
                    &["sessions_do_not_wait_when_more_is_asked_than_a_member_takes"],
                ),
                (
                    "e2e/tests/api/overload_measured.rs",
                    &["overload_of_ten_times_the_usual_loses_no_session"],
                ),
                (
                    "e2e/tests/api/overload_starved.rs",
                    &["overload_of_starved_members_loses_no_session"],
                ),
            ],
            says: "what keeps sessions alive has a lane of its own, and whoever brings too much is not read for a while",
        },
    },
    Fault {
        what: "sessions end, or calls fail, when the servers change their leader",
        source: "consul#912, #1162, #1457, python-consul-lock#4, patroni#522",
        shown: Ours {
            tests: &[
                (
                    LEASE,
                    &[
                        "lease_neither_stretches_nor_cuts_leases_when_the_raft_leader_is_killed",
                        "lease_cuts_no_live_lease_when_a_stopped_raft_leader_comes_back",
                    ],
                ),
                (SESSIONS, &["session_survives_the_member_it_was_attached_to"]),
                (CRASH, &["cluster_fails_no_request_when_the_leader_is_moved"]),
                ("e2e/tests/cluster/rolling.rs", &["rolling_restart_fails_no_request"]),
            ],
            says: "sessions live on; calls wait while the leader is moved or told to stop, and may \
                   fail when it is killed",
        },
    },
    Fault {
        what: "renewals are a heavy load",
        source: "kubernetes#65666, hypershift#1092, vault-secrets-operator#373, KEP-4355",
        shown: Ours {
            tests: &[(LEASE, &["renewals_leave_nothing_behind_in_the_store"])],
            says: "they take no revision, no history and no quota: \
                   [decisions/0005](../decisions/0005-leases.md)",
        },
    },
    Fault {
        what: "a token that runs out ends renewals and watches",
        source: "etcd#8287, #11954, #12085, #18778",
        shown: Ours {
            tests: &[(RETRY, &["retry_renews_a_stale_token_once"])],
            says: "there are no users and roles yet; a call of the client to an etcd that has them \
                   gets a new token, and of streams nothing is tested",
        },
    },
    Fault {
        what: "a session ends and nobody says why",
        source: "etcd#10821, #6922, dynamodb-lock-client#6",
        shown: Ours {
            tests: &[
                (SESSIONS, &["session_that_is_revoked_hears_why"]),
                (RECIPES_CLUSTER, &["tenure_end_has_its_reason"]),
                (EXCHANGE, &["exchange_ends_the_stream_and_not_the_session_without_a_quorum"]),
            ],
            says: "an end comes with its reason; over etcd's API no more is known than that the \
                   lease is gone",
        },
    },
    Fault {
        what: "renewals stop silently, or wait for a slow member",
        source: "etcd#13156, redisson#5698, #3194",
        shown: Ours {
            tests: &[
                (
                    "client/src/session/keeper/tests.rs",
                    &[
                        "keeper_leaves_a_silent_member_after_a_sixth_of_the_ttl",
                        "session_is_suspect_and_then_lost_when_no_member_answers",
                    ],
                ),
                (CASES_SESSIONS, &["blocked_runtime_does_not_end_it"]),
            ],
            says: "a thread of its own renews, leaves a member that is silent for a sixth of the \
                   TTL, and tells doubt before loss",
        },
    },
    Fault {
        what: "the session outlives the work",
        source: "etcd#17470, stolon#659",
        shown: Ours {
            tests: &[
                (RECIPES_PROCESSES, &["blocked_work_ends_its_process_at_the_deadline"]),
                (CASES_SESSIONS, &["session_that_is_dropped_is_given_back"]),
                (RUN, &["run_does_not_lead_while_a_check_fails"]),
            ],
            says: "not there: for work that hangs the library renews for ever (the first test sees \
                   it live past its lease); a session ends when it is dropped, with its process, \
                   or where `tenure run` checks the command's health",
        },
    },
    Fault {
        what: "failover takes twice the TTL, or a lock delay on top of it",
        source: "consul#1172, #4232, vault#2949",
        shown: Ours {
            tests: &[
                (
                    LEASE,
                    &[
                        "lease_keeps_a_lease_of_one_second_for_one_second",
                        "lease_neither_stretches_nor_cuts_leases_when_the_raft_leader_is_killed",
                    ],
                ),
                (SESSIONS, &["candidate_without_overlap_waits_for_the_stop_of_an_evicted_leader"]),
                (ELECTION_SCRIPTS, &["election_scripts_pass"]),
            ],
            says: "TTL and raft failover: [guarantees](../reference/guarantees.md); only whoever wants no \
                   overlap waits for a leader's stop, or for its time to be over \
                   (`crates/replica/tests/scripts/election/lock_delay`)",
        },
    },
];
