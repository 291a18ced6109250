//! The contract of [`Store`] and [`Server`], as tests that every implementation passes: see the traits' prose.
//!
//! An implementation brings a [`Rig`]: a queue that other clients fill, a look into its places, and a clock in the hand of
//! the test. `contract_tests!` makes one test of each clause. The scripts in Redis are the measure: where the memory
//! differs from them, the memory is wrong.

pub(crate) mod claims;
pub(crate) mod dead_letters;
pub(crate) mod leases;
pub(crate) mod places;
pub(crate) mod reads;
pub(crate) mod recovery;
pub(crate) mod verdicts;
pub(crate) mod walk;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::ledger::{Answer, ClaimReply, ClaimRequest, Claimed, ClaimedFrom, DeadLetter, Entry, Hints, Move};
use super::store::{Server, Store};
use crate::message::MessageId;

/// The lease of a claim, where a clause asks for no other.
pub(crate) const LEASE: Duration = Duration::from_secs(10);
/// The key of the list of exactly-once pushes.
pub(crate) const LIST: Bytes = Bytes::from_static(b"pushed");
/// Processes that work on the queue.
pub(crate) const A: u8 = 1;
pub(crate) const B: u8 = 2;
pub(crate) const C: u8 = 3;

/// One queue on a server of its own. Its clock stops until the test moves it.
pub(crate) trait Rig {
    /// The queue, as a process with this owner delivers from it. It may push to [`LIST`] and trim dead letters.
    fn store(&self, owner: u8) -> Arc<dyn Store>;
    /// The queue, as a process sees it that makes up for missing clients of the source.
    fn rescuer(&self) -> Arc<dyn Store>;
    /// The server of the queue.
    fn server(&self) -> Arc<dyn Server>;
    /// An element with this id and payload.
    fn element(&self, id: MessageId, payload: &[u8]) -> Bytes;
    /// The server's time in ms.
    fn now_ms(&self) -> i64;
    /// Moves the server's time forward.
    async fn advance(&mut self, by: Duration);
    /// Schedules an element, or junk, for this time, as a client of the source does.
    async fn offer(&mut self, element: &Bytes, due_ms: i64);
    /// Adds a payload to the ready list, as a client of the source does.
    async fn make_ready(&mut self, payload: &Bytes);
    /// Makes [`LIST`] something else than a list.
    async fn spoil_list(&mut self);
    /// What is at each place now.
    async fn places(&mut self) -> Places;
}

/// What is at each place of a queue, in the order of the place.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Places {
    /// Elements with their due times.
    pub scheduled: Vec<(i64, Bytes)>,
    /// Payloads.
    pub ready: Vec<Bytes>,
    /// Members with the ends of their leases.
    pub in_flight: Vec<(i64, Bytes)>,
    /// Members with the times of their next attempts.
    pub retry: Vec<(i64, Bytes)>,
    /// Dead letters.
    pub dead: Vec<DeadLetter>,
    /// What was pushed to [`LIST`].
    pub pushed: Vec<Bytes>,
}

impl Places {
    /// The names of the places where this element or payload is, once for each time that it is there.
    pub(crate) fn of(&self, element: &Bytes) -> Vec<&'static str> {
        let inside = |member: &Bytes| Entry::decode(member.clone()).is_some_and(|entry| entry.element == element);
        let times = [
            ("scheduled", self.scheduled.iter().filter(|(_, at)| at == element).count()),
            ("ready", self.ready.iter().filter(|at| *at == element).count()),
            ("in flight", self.in_flight.iter().filter(|(_, at)| inside(at)).count()),
            ("retry", self.retry.iter().filter(|(_, at)| inside(at)).count()),
            ("dead", self.dead.iter().filter(|letter| letter.bytes("element") == Some(element)).count()),
            ("pushed", self.pushed.iter().filter(|at| *at == element).count()),
        ];
        times.into_iter().flat_map(|(place, times)| std::iter::repeat_n(place, times)).collect()
    }
}

/// The id with this number.
pub(crate) fn id(n: u64) -> MessageId {
    MessageId(n.to_be_bytes())
}

/// The element with this number.
pub(crate) fn element(rig: &impl Rig, n: u64) -> Bytes {
    rig.element(id(n), format!("payload {n}").as_bytes())
}

/// Schedules elements with these numbers for now.
pub(crate) async fn offer(rig: &mut impl Rig, numbers: impl IntoIterator<Item = u64>) -> Vec<Bytes> {
    let mut elements = Vec::new();
    for n in numbers {
        elements.push(element(rig, n));
        rig.offer(&elements[elements.len() - 1], rig.now_ms()).await;
    }
    elements
}

/// A claim without limits.
pub(crate) fn request(number: u64) -> ClaimRequest {
    ClaimRequest {
        number,
        not_after_ms: i64::MAX,
        lease: LEASE,
        ahead: Duration::ZERO,
        most: 500,
        bytes: 1 << 20,
        alone: false,
        rotation: 0,
        hints: Hints::default(),
    }
}

/// Makes a claim, which must not be late.
pub(crate) async fn claim(store: &dyn Store, request: &ClaimRequest) -> Claimed {
    match store.claim(request).await.expect("the server claims") {
        ClaimReply::Claimed(claimed) => claimed,
        ClaimReply::Late { now_ms } => panic!("late at {now_ms}: {request:?}"),
    }
}

/// Claims without limits what must be one entry.
pub(crate) async fn claim_one(store: &dyn Store, number: u64) -> (ClaimedFrom, Entry) {
    let mut claimed = claim(store, &request(number)).await;
    assert_eq!(claimed.entries.len(), 1, "{claimed:?}");
    claimed.entries.remove(0)
}

/// The elements of a claim.
pub(crate) fn taken(claimed: &Claimed) -> Vec<Bytes> {
    claimed.entries.iter().map(|(_, entry)| entry.element.clone()).collect()
}

/// Writes verdicts.
pub(crate) async fn settle(store: &dyn Store, batch: &[(Bytes, Move)]) -> Vec<Answer> {
    store.settle(batch, Some(&LIST), None).await.expect("the server settles").answers
}

/// Writes one verdict on an entry.
pub(crate) async fn settle_one(store: &dyn Store, entry: &Entry, step: Move) -> Answer {
    let answers = settle(store, &[(entry.member.clone(), step)]).await;
    assert_eq!(answers.len(), 1);
    answers[0]
}

/// The verdict that an entry is dead.
pub(crate) fn dead(entry: &Entry) -> Move {
    Move::Dead { fields: vec![("id", Bytes::from_static(b"x")), ("element", entry.element.clone())] }
}

/// The verdict that an entry is tried again after this time, with one attempt more.
pub(crate) fn retry(entry: &Entry, delay: Duration) -> Move {
    let mut header = entry.header.clone();
    header.attempts += 1;
    header.expiries = 0;
    Move::Retry { header, delay_ms: delay.as_millis() as u64 }
}

/// The verdict that an entry goes back to its due time.
pub(crate) fn release(entry: &Entry) -> Move {
    Move::Release { header: entry.header.clone(), at_ms: entry.header.time_ms }
}

/// Milliseconds as a duration.
pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// One test of each clause of the contract, on rigs made by the expression.
macro_rules! contract_tests {
    ($rig:expr) => {
        $crate::source::contract::contract_tests! { $rig,
            claims::nothing_is_claimed_before_its_due_time,
            claims::on_request_elements_are_claimed_ahead_of_their_due_times,
            claims::elements_are_claimed_in_the_order_of_their_due_times,
            claims::a_claim_takes_no_more_than_it_may,
            claims::a_claim_takes_no_more_bytes_than_it_may_but_always_one_element,
            claims::a_late_claim_does_nothing,
            claims::no_place_starves_another,
            claims::a_claim_says_when_something_falls_due_next,
            claims::an_element_that_is_offered_again_falls_due_at_the_latest_time,
            claims::an_element_that_is_offered_while_in_flight_is_an_entry_of_its_own,
            claims::the_same_bytes_have_the_same_id_for_ever,
            claims::a_payload_of_the_ready_list_keeps_the_id_of_its_first_claim,
            claims::junk_is_claimed_and_has_an_id,
            leases::an_expired_lease_is_claimed_by_another_process_with_one_expiry_more,
            leases::own_expired_leases_are_renewed_and_reported,
            leases::who_lost_an_entry_can_do_nothing_to_it,
            leases::a_late_verdict_counts_while_no_process_took_over,
            leases::an_extended_lease_lasts_from_then_on,
            leases::an_entry_whose_lease_ran_out_three_times_is_claimed_alone,
            leases::an_entry_whose_lease_ran_out_ten_times_is_exhausted,
            leases::entries_to_be_claimed_alone_do_not_hide_others,
            places::an_element_is_always_in_exactly_one_place,
            recovery::nothing_is_recovered_while_the_claim_may_still_run,
            recovery::a_recovery_finds_the_entries_of_its_claim_and_no_others,
            recovery::a_recovery_goes_through_many_entries_slice_by_slice,
            recovery::a_recovery_can_be_sent_again,
            recovery::of_a_claim_that_did_not_run_nothing_is_found,
            verdicts::a_confirmed_element_is_gone,
            verdicts::a_retry_is_due_after_its_delay_by_the_server_s_clock,
            verdicts::a_released_entry_keeps_its_order,
            verdicts::progress_is_noted_and_the_lease_runs_on,
            verdicts::a_dead_element_is_one_letter,
            verdicts::dead_letters_are_trimmed_when_one_is_added,
            verdicts::a_push_happens_once,
            verdicts::a_push_to_what_is_no_list_changes_nothing,
            verdicts::each_verdict_of_a_batch_has_its_answer,
            verdicts::of_confirmations_alone_the_number_is_right,
            verdicts::a_verdict_that_comes_again_after_the_next_claim_does_nothing,
            dead_letters::letters_are_read_from_either_end,
            dead_letters::one_process_at_a_time_forwards_letters,
            dead_letters::forwarded_letters_are_removed_whoever_says_so,
            reads::an_empty_queue_is_empty,
            reads::a_poll_finds_what_a_claim_would_take,
            reads::the_gauges_count_what_is_at_each_place,
            reads::scheduled_elements_are_read_in_due_order_from_any_place,
            reads::overdue_elements_are_transferred_and_others_are_not,
            walk::random_calls_keep_every_element_in_one_place,
        }
    };
    ($rig:expr, $($file:ident::$clause:ident,)*) => {
        $(
            #[tokio::test]
            async fn $clause() {
                $crate::source::contract::$file::$clause($rig).await;
            }
        )*
    };
}
pub(crate) use contract_tests;
