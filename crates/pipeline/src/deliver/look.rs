//! A look before what is suspect is sent again (`duplicates: look`): elements that their destination has are confirmed, and
//! the others are sent. Elements of the batch that are not suspect do not wait for it.
//!
//! A look confirms nothing by default. One that fails because the destination is away, or takes too long, is an outage of the
//! destination: the element is not sent, and looked for again when it comes back, for so long as [`LookOutages`] says. A look that
//! fails for another reason has found nothing, and the element is sent.
//!
//! [`LookOutages`]: crate::deliver::look_outages::LookOutages

use std::time::Duration;

use crate::deliver::sink_handle::SinkHandle;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure};
use delaybridge_sink::{Answers, Lookup, Outbound};

/// Returns whether elements of the batch are looked for before they are sent.
pub(super) fn is_needed(handle: &SinkHandle, batch: &[Outbound]) -> bool {
    batch.iter().any(is_suspect) && handle.lookup().is_some()
}

fn is_suspect(message: &Outbound) -> bool {
    message.mark.as_ref().is_some_and(|mark| mark.is_suspect())
}

/// Delivers a batch, and looks before for those of its elements that are suspect.
pub(super) async fn deliver(handle: &SinkHandle, batch: Vec<Outbound>, answers: &Answers) {
    let Some(lookup) = handle.lookup() else { return handle.deliver_all(batch, answers).await };
    let (suspects, others): (Vec<_>, Vec<_>) =
        batch.into_iter().enumerate().partition(|(_, message)| is_suspect(message));
    // The others first: they are on their way when this is polled first.
    tokio::join!(send(handle, others, answers), async {
        let absent = look(handle, lookup, suspects, answers).await;
        send(handle, absent, answers).await;
    });
}

/// Confirms what is there, and returns the rest.
async fn look(
    handle: &SinkHandle,
    lookup: &dyn Lookup,
    suspects: Vec<(usize, Outbound)>,
    answers: &Answers,
) -> Vec<(usize, Outbound)> {
    let (places, messages): (Vec<_>, Vec<_>) = suspects.into_iter().unzip();
    let limit = limit(handle.timeout(), &messages);
    let found = tokio::time::timeout(limit, lookup.look(&messages)).await.unwrap_or_else(|_elapsed| {
        let text = format!("look for copies at sink {}: no answer within {limit:?}", handle.name);
        vec![Err(Failure::new(Class::Transient, "timeout", text)); messages.len()]
    });
    let mut found = found.into_iter();
    let mut absent = Vec::new();
    for (place, message) in places.into_iter().zip(messages) {
        let silent =
            || Err(Failure::new(Class::Unknown, "look", "look for copies: the sink says nothing of an element"));
        match found.next().unwrap_or_else(silent) {
            Ok(is_there) => {
                handle.looked(&message.destination, is_there);
                if is_there {
                    answers.put_known(place);
                    continue;
                }
            }
            Err(failure) if handle.look_failed(&message.destination, &failure) => {
                answers.put(place, Err(not_looked(failure)));
                continue;
            }
            Err(_) => {}
        }
        absent.push((place, message));
    }
    absent
}

/// Builds the answer to an element that is not sent, because it is not known whether it is there.
fn not_looked(failure: Failure) -> Failure {
    let text = format!("send again: not sent, because a look for it failed: {} ({})", failure.message, failure.code);
    Failure::new(Class::Transient, Failure::NOT_LOOKED, text).about(failure.about)
}

/// Returns the time for a look: it leaves as much for the delivery.
fn limit(timeout: Duration, messages: &[Outbound]) -> Duration {
    let now = Instant::now();
    let left = messages.iter().map(|message| message.send_before.since(now)).min().unwrap_or_default();
    timeout.min(left / 2)
}

/// Delivers elements of a batch, and gives their answers the places that they have there.
async fn send(handle: &SinkHandle, part: Vec<(usize, Outbound)>, answers: &Answers) {
    if part.is_empty() {
        return;
    }
    let (places, messages): (Vec<_>, Vec<_>) = part.into_iter().unzip();
    let forward = Forward { from: Answers::new(places.len()), places, to: answers };
    handle.deliver_all(messages, &forward.from).await;
}

/// The answers to a part of a batch. When this is dropped, also half-way, those that have come are answers to the batch.
struct Forward<'a> {
    from: Answers,
    places: Vec<usize>,
    to: &'a Answers,
}

impl Drop for Forward<'_> {
    fn drop(&mut self) {
        self.to.put_all(self.from.take(), &self.places);
    }
}
