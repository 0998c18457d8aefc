//! Faults that observers see.

use super::{
    Fault,
    Shown::{Both, Ours},
    places::{CRASH, SESSIONS},
};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        what: "an observer hears of a leader that is none",
        source: "etcd#18163",
        shown: Both {
            test: "observer_hears_of_the_leader_only",
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
        shown: Both {
            test: "observer_is_told_that_there_is_no_leader",
            etcd: "etcd's Observe says nothing",
            tenure: "etcd's Observe says nothing, `tenure.v1` that nobody leads",
        },
    },
    Fault {
        what: "an observer misses a tenure, or a time without a leader",
        source: "trillian#1387",
        shown: Ours {
            tests: &[
                (
                    "e2e/src/recipes/observing.rs",
                    &["observer_sees_every_tenure_and_that_there_is_no_leader"],
                ),
                (SESSIONS, &["frozen_name_has_no_leader_until_it_is_resumed"]),
            ],
            says: "it is told of each, by the library and by `tenure.v1`",
        },
    },
    Fault {
        what: "a watch hangs at a member that is cut off",
        source: "etcd#8980, #7247",
        shown: Both {
            test: "watch_that_wants_a_leader_does_not_hang_at_a_member_that_is_cut_off",
            etcd: "a watch hears nothing; one that wants a leader is ended: etcdserver: no leader",
            tenure: "a watch hears nothing; one that wants a leader is ended: etcdserver: no leader; \
                     an observer of `tenure.v1` is let go",
        },
    },
    Fault {
        what: "watches lose events, starve, or hang at a member that hears nobody",
        source: "etcd#17529, #15237, #8980, Xline#677",
        shown: Ours {
            tests: &[
                (
                    "e2e/tests/api/watch.rs",
                    &[
                        "watch_serves_hundreds_of_watches_on_one_stream_without_a_gap",
                        "watch_that_is_slow_holds_no_other_up_and_loses_nothing",
                        "watch_tells_how_far_it_is_when_asked",
                        "watch_ends_watches_that_want_a_leader_when_there_is_none",
                    ],
                ),
                (SESSIONS, &["observer_is_let_go_by_a_member_that_is_cut_off"]),
                (CRASH, &["cluster_tells_watchers_everything_once_and_in_order_while_leaders_die"]),
            ],
            says: "nothing is lost and nobody waits for a slow one; a member that hears nobody \
                   lets observers go, and of etcd's watches those that want a leader",
        },
    },
    Fault {
        what: "a sidecar names a leader that is long gone",
        source: "kubernetes-retired/contrib#2930, operator-sdk#4440",
        shown: Ours {
            tests: &[(
                "e2e/tests/commands/sidecar_faults.rs",
                &[
                    "sidecar_without_servers_answers_for_a_lease_and_not_longer",
                    "sidecar_is_not_kept_fresh_by_a_member_without_a_majority",
                    "sidecar_that_was_paused_does_not_say_that_it_leads_when_it_wakes",
                ],
            )],
            says: "it says how long its answer may be believed, and nothing after that",
        },
    },
];
