//! The clauses of the contract by name, as tests.

/// One test of each clause of the contract, on rigs made by the expression. With `and`: of those that hold for every source,
/// and of the ones that are named.
#[macro_export]
macro_rules! store_contract_tests {
    ($rig:expr) => {
        $crate::store_contract_tests! { $rig, and
            claims::elements_are_claimed_in_the_order_of_their_due_times,
            claims::a_claim_takes_no_more_bytes_than_it_may_but_always_one_element,
            claims::no_place_starves_another,
            formats::a_payload_of_the_ready_list_keeps_the_id_of_its_first_claim,
            takeovers::a_takeover_takes_no_more_bytes_than_it_may_but_always_one_element,
            reads::the_gauges_count_what_is_at_each_place,
            reads::the_gauges_tell_what_is_ahead,
            reads::overdue_elements_are_transferred_and_others_are_not,
            walk::random_calls_keep_every_element_in_one_place,
        }
    };
    ($rig:expr, and $($file:ident::$clause:ident,)*) => {
        $crate::store_contract_tests! { $rig,
            $($file::$clause,)*
            claims::nothing_is_claimed_before_its_due_time,
            claims::on_request_elements_are_claimed_ahead_of_their_due_times,
            claims::a_claim_takes_no_more_than_it_may,
            claims::a_late_claim_does_nothing,
            claims::a_claim_that_is_sent_twice_does_nothing_the_second_time,
            claims::a_claim_says_when_something_falls_due_next,
            claims::an_element_that_is_offered_again_falls_due_at_the_latest_time,
            claims::an_element_that_is_offered_while_in_flight_is_an_element_of_its_own,
            formats::a_claimed_element_is_what_was_written,
            formats::the_same_bytes_have_the_same_id_for_ever,
            formats::an_entry_of_a_newer_version_is_moved_on_by_a_minute,
            formats::an_entry_that_cannot_be_read_stays_in_its_claim,
            formats::a_name_of_a_newer_version_is_counted_and_left_alone,
            formats::names_that_cannot_be_read_hide_none_however_many_they_are,
            leases::a_claim_shows_the_names_of_some_expired_claims,
            leases::names_of_expired_claims_are_read_in_the_order_of_their_ends,
            leases::an_extended_lease_lasts_from_then_on,
            leases::an_extension_that_was_held_up_does_nothing,
            leases::a_late_verdict_counts_while_no_process_took_over,
            leases::what_a_claim_without_a_lease_holds_is_not_replaced,
            leases::elements_in_flight_are_counted_over_all_processes,
            order::one_process_delivers_in_order,
            order::names_that_cannot_be_read_stop_nothing_and_hide_nothing,
            order::what_has_gone_back_may_go_before_what_is_to_be_taken_over,
            lost::a_claim_with_a_lost_reply_is_found_by_its_name,
            lost::a_lost_claim_that_did_not_run_holds_nothing_and_runs_no_more,
            takeovers::a_whole_claim_is_taken_over,
            takeovers::a_takeover_takes_what_there_is_room_for_entries_first,
            takeovers::after_three_expiries_elements_are_taken_over_alone,
            takeovers::nothing_is_taken_over_from_a_claim_that_lives_or_is_gone_or_empty,
            takeovers::a_takeover_that_is_late_or_sent_twice_does_nothing,
            takeovers::who_lost_a_claim_can_do_nothing_to_it,
            confirmations::a_confirmed_claim_is_gone_with_all_that_was_in_it,
            confirmations::an_element_that_came_back_survives_the_confirmation_of_others,
            confirmations::a_confirmed_claim_keeps_its_name_until_it_is_buried,
            confirmations::a_claim_that_holds_something_is_not_buried,
            verdicts::an_element_is_always_in_exactly_one_place,
            verdicts::a_retry_is_due_after_its_delay_by_the_server_s_clock,
            verdicts::a_released_element_keeps_its_order,
            verdicts::progress_gives_an_element_a_header_and_the_lease_runs_on,
            verdicts::dead_letters_are_trimmed_when_one_is_added,
            verdicts::a_push_happens_once,
            verdicts::a_push_to_what_is_no_list_changes_nothing,
            verdicts::each_verdict_of_a_batch_has_its_answer,
            verdicts::verdicts_of_several_claims_are_written_together,
            verdicts::a_verdict_names_the_claim_and_the_part,
            verdicts::a_verdict_that_comes_again_after_the_next_claim_does_nothing,
            dead_letters::letters_are_read_from_either_end,
            dead_letters::one_process_at_a_time_forwards_letters,
            dead_letters::forwarded_letters_are_removed_whoever_says_so,
            reads::an_empty_queue_is_empty,
            reads::a_look_finds_what_a_claim_would_take,
            reads::a_look_at_a_part_reads_nothing_else,
            reads::daemons_that_share_looks_read_the_notes_of_all,
            reads::the_size_of_a_queue_tells_what_is_there_beside_its_schedule,
            reads::the_size_of_a_queue_tells_of_its_ready_list,
            reads::scheduled_elements_are_read_in_due_order_from_any_place,
        }
    };
    ($rig:expr, $($file:ident::$clause:ident,)*) => {
        $(
            #[tokio::test]
            async fn $clause() {
                $crate::store::$file::$clause($rig).await;
            }
        )*
    };
}
