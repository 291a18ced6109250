//! A thread beside the one that takes records: it asks whether the topics can be read, and how many records wait. An answer may take
//! ten seconds, and a member of a group that is not polled for long is thrown out.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};

use super::client::{InputListener, LOOK};
use super::lag;
use super::reading::{self, Reading};
use delaybridge_core::clock::Instant;

/// The interval between the questions while all is well.
const ASK: Duration = Duration::from_secs(5);

/// Asks until nobody can send to `ended` any more.
pub(super) fn ask(consumer: &BaseConsumer<InputListener>, topics: &[&str], ended: &Receiver<()>) {
    let context = consumer.context();
    let mut reads_all = true;
    let mut asked = Instant::now();
    while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        let doubts = context.doubts.load(Ordering::Relaxed);
        let is_in_doubt = doubts > 0 || !reads_all;
        let is_time = asked.elapsed() >= ASK;
        if (is_time || is_in_doubt)
            && let Some(found) = reading::look(consumer, topics, &context.spec.group, is_in_doubt)
        {
            // What has come into doubt meanwhile is asked again.
            let _more = context.doubts.compare_exchange(doubts, 0, Ordering::Relaxed, Ordering::Relaxed);
            context.silent.store(matches!(found, Reading::Nothing(_)), Ordering::Relaxed);
            reads_all = found == Reading::All;
            *context.found.lock() = Some(found);
        }
        if is_time {
            if let Some(lags) = lag::ask(consumer, topics) {
                context.events.lags(&lags);
            }
            asked = Instant::now();
        }
    }
}
