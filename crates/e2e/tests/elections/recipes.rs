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
        a_waiter_whose_session_is_revoked_is_told_at_once,
        a_waiter_whose_key_is_deleted_is_told_at_once,
        a_leader_whose_session_is_revoked_is_told,
        a_leader_whose_key_is_deleted_is_told_and_its_session_lives,
        a_dropped_campaign_leaves_no_key,
        who_walks_away_can_come_back_at_once,
        a_dropped_leadership_is_resigned,
        a_resignation_is_repeated_until_it_is_confirmed,
        a_session_stands_in_one_line_once,
        a_proclamation_is_seen_and_keeps_the_token,
        compaction_does_not_disturb_a_waiter,
        a_campaign_that_may_not_wait_leaves_no_key,
        candidates_are_listed_in_order;
    locks:
        a_late_release_does_not_free_a_newer_hold,
        it_stands_in_line_with_etcdctl,
        a_try_takes_it_or_leaves_no_key,
        readers_share_and_writers_do_not,
        a_writer_whose_session_is_revoked_in_line_is_told,
        a_semaphore_has_so_many_permits,
        several_locks_at_once_do_not_deadlock,
        several_locks_are_held_all_or_none;
    observing:
        an_observer_sees_every_tenure_and_that_nobody_leads,
        an_observer_that_comes_later_sees_who_leads,
        an_observer_outlives_a_pause_of_the_server;
    sessions:
        it_lives_on_while_it_is_renewed,
        a_holder_that_cannot_renew_stops_before_its_time_is_over,
        a_short_pause_of_the_server_does_no_harm,
        a_blocked_runtime_does_not_end_it,
        closing_frees_everything_at_once,
        a_dropped_session_is_given_back,
        one_session_serves_many_names,
        it_needs_no_runtime_of_the_program,
        bad_names_and_settings_are_refused;
    electors:
        it_releases_only_after_the_work_has_ended,
        it_leads_again_after_it_has_lost,
        it_ends_when_the_work_is_done_for_good,
        it_stops_the_work_in_doubt,
        it_goes_on_in_doubt_if_it_is_told_to,
        who_works_on_without_its_lease_is_not_healthy,
        an_elector_whose_work_hangs_steps_down_when_it_is_not_well,
        work_that_blocks_its_thread_sees_that_it_has_to_end,
        it_drops_work_that_does_not_end,
        an_elector_that_is_not_well_lets_others_lead,
        a_standby_sees_the_leader;
    crowds:
        one_holder_at_a_time_with_growing_tokens;
}
