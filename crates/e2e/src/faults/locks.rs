//! Faults of locks.

use super::{
    Fault,
    Shown::{Both, Ours},
    places::{
        CASES_ELECTIONS, CASES_SESSIONS, LAB_CANARIES, LAB_RECIPES, RECIPES_CLUSTER,
        RECIPES_PROCESSES, RETRY, RUN, RUN_BAD_DAYS, SESSIONS, STOCK_CLIENTS,
    },
};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        what: "a waiter whose session ended is told that it holds the lock",
        source: "etcd#11456, #9921, Jepsen etcd 3.4.3",
        shown: Both {
            test: "waiter_whose_session_ended_does_not_get_the_lock",
            etcd: "refused: mutex: session is expired",
            tenure: "refused: mutex: session is expired",
        },
    },
    Fault {
        what: "a waiter whose session ended waits on until all before it have gone",
        source: "etcd#19597",
        shown: Both {
            test: "waiter_is_told_at_once_that_its_session_ended",
            etcd: "still waiting",
            tenure: "refused: mutex: session is expired",
        },
    },
    Fault {
        what: "a lock comes without a fencing token",
        source: "etcd#11457, #11788, `LockResponse`, amazon-dynamodb-lock-client#1",
        shown: Both {
            test: "lock_comes_with_its_token",
            etcd: "no token; the header has another revision than the key's",
            tenure: "the token is the key's create revision",
        },
    },
    Fault {
        what: "an unlock that comes late frees the next hold",
        source: "etcd#22082",
        shown: Both {
            test: "unlock_that_is_late_does_not_free_a_newer_hold",
            etcd: "the newer hold is gone",
            tenure: "the newer hold stands if the unlock carries the fencing token (the library guards by it); \
                     a stock client's, without one, frees it as in etcd",
        },
    },
    Fault {
        what: "an unlock whose answer was lost cannot be repeated",
        source: "CURATOR-678, CURATOR-486",
        shown: Both {
            test: "unlock_twice_is_unlock_once",
            etcd: "both were answered, the lock is free",
            tenure: "both were answered, the lock is free",
        },
    },
    Fault {
        what: "a repeated call waits for itself",
        source: "Xline `lock_server.rs`",
        shown: Both { test: "lock_again_is_the_same_hold", etcd: "held once", tenure: "held once" },
    },
    Fault {
        what: "a repeated call that is given up takes the first call's place with it",
        source: "etcd `concurrency/mutex.go`",
        shown: Both {
            test: "repeated_lock_that_hangs_up_leaves_the_first_its_place",
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
            test: "lock_that_is_contended_costs_no_more_than_a_few_free_ones",
            etcd: "more than five free ones",
            tenure: "no more than five free ones",
        },
    },
    Fault {
        what: "everybody wakes up when a lock comes free",
        source: "consul#7523, #9469",
        shown: Ours {
            tests: &[(RUN_BAD_DAYS, &["waiters_are_not_all_woken_by_a_change"])],
            says: "one is told, found in a map: `crates/replica/src/election/listeners.rs`",
        },
    },
    Fault {
        what: "a lock is held for a fixed time, or for hours by a process that is dead",
        source: "ShedLock#151, #606, #1587, factcast#2854",
        shown: Ours {
            tests: &[
                (CASES_SESSIONS, &["session_lives_on_while_it_is_renewed"]),
                (RECIPES_PROCESSES, &["stopped_holder_knows_at_once_that_it_has_lost"]),
                (RUN, &["run_holds_the_lead_as_long_as_was_asked_and_no_longer"]),
            ],
            says: "a lock hangs on a lease that its holder renews; `tenure run` has a longest time \
                   for whoever wants one",
        },
    },
    Fault {
        what: "guards for what is outside the store are left to the reader",
        source: "etcd#11788, redisson#4684",
        shown: Ours {
            tests: &[
                (
                    "client/tests/fence_http.rs",
                    &["a_replaced_holder_gets_409_and_is_told_which_token_is_in_force"],
                ),
                (
                    "e2e/tests/elections/fenced_service.rs",
                    &["replaced_holder_stays_refused_after_the_service_was_killed"],
                ),
                ("e2e/tests/elections/fence_postgres.rs", &["postgres_refuses_older_tokens"]),
                (
                    "e2e/tests/elections/guarded_writes.rs",
                    &["guarded_writes_of_a_replaced_holder_are_refused_by_tenure"],
                ),
                (
                    "e2e/tests/proxy/answers.rs",
                    &["proxy_refuses_the_write_of_a_leader_that_was_paused"],
                ),
            ],
            says: "gates for services, databases and the store itself, and a proxy for what cannot \
                   be changed",
        },
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
            test: "operator_can_free_a_lock",
            etcd: "the next got it, with a larger token",
            tenure: "the next got it, with a larger token",
        },
    },
    Fault {
        what: "names and counters of locks that nobody holds are kept for ever",
        source: "redisson#6510, hazelcast#17436",
        shown: Both {
            test: "lock_that_is_free_leaves_nothing_behind",
            etcd: "nothing is stored",
            tenure: "nothing is stored",
        },
    },
    Fault {
        what: "one lease for each lock",
        source: "Scalingo/link#89",
        shown: Both {
            test: "session_holds_many_locks",
            etcd: "both are held by one lease",
            tenure: "both are held by one lease",
        },
    },
    Fault {
        what: "a lock taken without a lease vanishes after 60 s, and nobody is told",
        source: "etcd-cpp-apiv3#30",
        shown: Both {
            test: "lock_without_a_lease_says_how_long_it_holds",
            etcd: "no word of a lease, and less than 60 s left",
            tenure: "the lease and its 60 s, counted from the grant",
        },
    },
    Fault {
        what: "a waiter without a lease loses its place after 60 s",
        source: "etcd `v3lock/lock.go`",
        shown: Both {
            test: "waiter_without_a_lease_keeps_its_place",
            etcd: "its lease runs out while it waits",
            tenure: "its lease is renewed while it waits",
        },
    },
    Fault {
        what: "unlocking leaves the lease behind that locking made",
        source: "etcd-cpp-apiv3#116",
        shown: Both {
            test: "unlock_ends_the_lease_that_lock_made",
            etcd: "the lease is left behind",
            tenure: "no lease is left",
        },
    },
    Fault {
        what: "reader-writer locks and semaphores are missing, or grant twice",
        source: "etcd#16221, #12490, etcd-client#74, etcd-cpp-apiv3#316",
        shown: Ours {
            tests: &[
                (
                    "e2e/src/recipes/locks.rs",
                    &[
                        "readers_share_and_writers_do_not",
                        "writer_whose_session_is_revoked_while_it_waits_is_told",
                        "semaphore_has_so_many_permits",
                    ],
                ),
                (SESSIONS, &["readers_share_permits_are_counted_and_several_are_taken_at_once"]),
                (
                    "replica/tests/election_exhaustive.rs",
                    &[
                        "election_orders_of_shared_holds_and_several_names",
                        "election_orders_of_permits",
                    ],
                ),
            ],
            says: "they are there, over etcd's API and in `tenure.v1`",
        },
    },
    Fault {
        what: "two holders after a network loss; the holder does not know that it lost the lock",
        source: "etcd#10811, #6127, CURATOR-206, redisson#3636",
        shown: Ours {
            tests: &[
                (CASES_SESSIONS, &["holder_that_cannot_renew_stops_before_its_time_is_over"]),
                (CASES_ELECTIONS, &["leader_whose_session_is_revoked_is_told"]),
                (RECIPES_PROCESSES, &["stopped_holder_knows_at_once_that_it_has_lost"]),
                (LAB_RECIPES, &["recipes_hold_under_program_faults"]),
                (LAB_CANARIES, &["canary_holder_that_ignores_its_loss_is_found"]),
            ],
            says: "it stops by its own clock before its lease can end, and is told what it cannot \
                   know",
        },
    },
    Fault {
        what: "a lock is mistaken for protection of what it guards",
        source: "etcd#11457, #11490, redisson#4684",
        shown: Both {
            test: "holder_that_lost_the_lock_cannot_write_with_its_token",
            etcd: "refused: its key has gone",
            tenure: "refused: its key has gone",
        },
    },
    Fault {
        what: "a failover of the store loses locks",
        source: "redisson#2669, #5965",
        shown: Ours {
            tests: &[
                (RECIPES_CLUSTER, &["holders_and_waiters_outlive_every_member"]),
                (STOCK_CLIENTS, &["waiters_by_hundreds_survive_all_members_killed"]),
            ],
            says: "holders and waiters keep their places, even when all members die",
        },
    },
    Fault {
        what: "a command goes on after its lock was lost, beside the next one's",
        source: "`etcdctl lock`",
        shown: Both {
            test: "command_under_a_lock_has_ended_when_the_next_begins",
            etcd: "the first command still ran",
            tenure: "the first command had ended",
        },
    },
    Fault {
        what: "the command that runs under a lock outlives it",
        source: "`etcdctl lock`, consul#2022, #873, #9788",
        shown: Ours {
            tests: &[
                (RUN, &["run_passes_stdin_and_signals_to_the_command"]),
                (
                    RUN_BAD_DAYS,
                    &[
                        "revoked_lease_ends_a_command_that_ignores_signals_and_turns_away",
                        "command_that_is_cut_off_is_gone_before_its_lease_can_end",
                        "stopped_supervisor_does_not_keep_its_command",
                        "killed_supervisor_takes_its_command_along",
                    ],
                ),
                ("e2e/tests/run_torture.rs", &["run_never_lets_two_commands_work_at_once"]),
            ],
            says: "`tenure run` passes signals on, and its command is gone before anybody else \
                   begins, whoever was killed, stopped or cut off",
        },
    },
    Fault {
        what: "a retried request acts twice",
        source: "Jepsen jetcd 0.8.2",
        shown: Ours {
            tests: &[
                (SESSIONS, &["repeated_request_is_answered_again_and_not_done_again"]),
                (RECIPES_CLUSTER, &["session_outlives_every_member_under_many_requests"]),
                (RETRY, &["retry_sends_a_change_elsewhere_only_if_nothing_was_sent"]),
                (LAB_CANARIES, &["canary_request_that_acts_twice_is_found"]),
            ],
            says: "a lease is a candidate of an election once (above), requests of `tenure.v1` have numbers, \
                   and a change by etcd's API that was sent is not sent again",
        },
    },
    Fault {
        what: "a call waits for ever when the servers are down",
        source: "etcd#18082",
        shown: Ours {
            tests: &[
                (RETRY, &["retry_tells_after_one_round_that_no_member_is_there"]),
                (RUN, &["run_without_a_server_has_an_exit_code_of_its_own"]),
                ("lab/tests/cluster/service.rs", &["minority_answers_pending_requests_soon"]),
                (STOCK_CLIENTS, &["call_that_wants_a_raft_leader_does_not_wait_without_one"]),
                (RECIPES_CLUSTER, &["session_does_not_wait_for_members_that_do_not_come_back"]),
            ],
            says: "it is told that nobody is there, or that there is no majority; waiting \
                   and giving up a hold end with the session when nobody comes back",
        },
    },
];
