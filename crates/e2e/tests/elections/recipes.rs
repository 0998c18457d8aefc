//! The library's elections and locks: every case on every engine, on real servers.

use tenure_e2e::recipes::{Ground, crowds, elections, electors, locks, observing, sessions};

macro_rules! cases {
    ($($room:ident: $($case:ident),* $(,)?;)*) => {
        /// etcd's means on a real etcd 3.5.1.
        mod etcd_on_etcd {
            use super::*;
            cases!(@tests etcd_on_etcd $($($room $case)*)*);
        }

        /// etcd's means on tenure.
        mod etcd_on_tenure {
            use super::*;
            cases!(@tests etcd_on_tenure $($($room $case)*)*);
        }

        /// tenure's own means.
        mod native_on_tenure {
            use super::*;
            cases!(@tests native_on_tenure $($($room $case)*)*);
        }
    };
    (@tests $ground:ident $($room:ident $case:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                $room::$case(&Ground::$ground().await).await;
            }
        )*
    };
}

cases! {
    elections:
        candidates_lead_in_order_with_growing_tokens,
        waiter_whose_session_is_revoked_is_told_at_once,
        waiter_whose_key_is_deleted_is_told_at_once,
        leader_whose_session_is_revoked_is_told,
        leader_whose_key_is_deleted_is_told_and_its_session_lives,
        campaign_that_is_dropped_leaves_no_key,
        candidate_that_walks_away_can_come_back_at_once,
        leadership_that_is_dropped_is_resigned,
        resignation_is_repeated_until_it_is_confirmed,
        session_is_a_candidate_of_an_election_once,
        proclamation_is_seen_and_keeps_the_token,
        compaction_does_not_disturb_a_waiter,
        campaign_that_may_not_wait_leaves_no_key,
        candidates_are_listed_in_order;
    locks:
        lock_release_that_is_late_does_not_free_a_newer_hold,
        lock_waits_behind_etcdctl,
        lock_try_takes_it_or_leaves_no_key,
        readers_share_and_writers_do_not,
        writer_whose_session_is_revoked_while_it_waits_is_told,
        semaphore_has_so_many_permits,
        multi_locks_do_not_deadlock,
        multi_lock_is_held_whole_or_not_at_all;
    observing:
        observer_sees_every_tenure_and_that_there_is_no_leader,
        observer_that_comes_later_sees_the_leader,
        observer_outlives_a_pause_of_the_server;
    sessions:
        session_lives_on_while_it_is_renewed,
        holder_that_cannot_renew_stops_before_its_time_is_over,
        session_survives_a_short_pause_of_the_server,
        blocked_runtime_does_not_end_it,
        session_that_is_closed_frees_everything_at_once,
        session_that_is_dropped_is_given_back,
        session_serves_many_names,
        session_needs_no_runtime_of_the_program,
        session_refuses_bad_names_and_settings;
    electors:
        elector_releases_only_after_the_work_has_ended,
        elector_leads_again_after_it_has_lost,
        elector_ends_when_the_work_is_done_for_good,
        elector_stops_the_work_in_doubt,
        elector_goes_on_in_doubt_if_it_is_told_to,
        elector_that_works_on_without_its_lease_is_not_healthy,
        elector_whose_work_hangs_steps_down_when_it_is_not_well,
        work_that_blocks_its_thread_sees_that_it_has_to_end,
        elector_drops_work_that_does_not_end,
        elector_that_is_not_well_lets_others_lead,
        standby_sees_the_leader;
    crowds:
        lock_has_one_holder_at_a_time_with_growing_tokens;
}
