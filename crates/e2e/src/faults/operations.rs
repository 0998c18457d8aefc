//! Faults that operators of a cluster meet.

use super::{
    Fault,
    Shown::Ours,
    places::{COMMANDS, LIMITS, MEMBERSHIP},
};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        what: "room is not given back until somebody defragments, and a member stands still meanwhile",
        source: "etcd#15477, #16779, cluster-etcd-operator#1618",
        shown: Ours {
            tests: &[
                (COMMANDS, &["etcdctl_verbs_compacts_and_defragments"]),
                (LIMITS, &["store_that_is_full_keeps_elections_going_and_recovers_by_itself"]),
            ],
            says: "what compaction frees is free: a full store has room again without it, and \
                   Defragment answers at once that there was nothing to do",
        },
    },
    Fault {
        what: "members that were removed come back with an upgrade",
        source: "etcd.io, upgrade from 3.5 to 3.6",
        shown: Ours {
            tests: &[
                (
                    MEMBERSHIP,
                    &[
                        "dead_member_is_replaced_by_two_commands",
                        "cluster_grows_from_one_to_five_under_load_and_shrinks_again",
                    ],
                ),
                (
                    "server/src/backup/tests.rs",
                    &["a_member_that_was_removed_does_not_become_a_cluster"],
                ),
            ],
            says: "the list of members is in one place, which restarts, snapshots and restores share; \
                   one that was removed is told so, stops, and stays stopped",
        },
    },
    Fault {
        what: "members that were added and never started stop the cluster",
        source: "etcd#3477",
        shown: Ours {
            tests: &[(
                MEMBERSHIP,
                &[
                    "member_out_of_reach_does_no_harm",
                    "membership_change_that_costs_the_majority_is_refused",
                    "member_that_never_starts_does_no_harm",
                ],
            )],
            says: "a change that would leave no majority of those that are there is refused, and \
                   there is one learner at most; a second voter beside a single one gets its vote when \
                   it is there and has caught up",
        },
    },
];
