//! Delivery reports on their way from the thread that reads them to the tasks that wait for them.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::errors::DeliveryReport;
use delaybridge_sink::Answers;

/// The receiver of the report of one record.
#[derive(Debug)]
pub(super) enum ReportTo {
    /// The future of a single element.
    One(oneshot::Sender<DeliveryReport>),
    /// The batch of the element, which has this place there.
    Batch(Arc<BatchReports>, usize),
}

/// The reports of a batch. Confirmations are answers; the batch's task finds out what the others mean.
#[derive(Debug)]
pub(super) struct BatchReports {
    answers: Answers,
    failed: Mutex<Vec<(usize, DeliveryReport)>>,
    failure: Notify,
}

impl BatchReports {
    /// The reports of a batch with these answers.
    pub(super) fn new(answers: Answers) -> BatchReports {
        BatchReports { answers, failed: Mutex::default(), failure: Notify::new() }
    }

    /// Takes in the report of the element at this place.
    pub(super) fn put(&self, place: usize, report: DeliveryReport) {
        if report.error.is_none() {
            return self.answers.put(place, Ok(()));
        }
        self.failed.lock().push((place, report));
        self.failure.notify_one();
    }

    /// Takes the reports of failures that have come since the last time, with the places of their elements.
    pub(super) fn take_failed(&self) -> Vec<(usize, DeliveryReport)> {
        std::mem::take(&mut *self.failed.lock())
    }

    /// Waits for a failure. Cancel safe.
    pub(super) async fn failed(&self) {
        self.failure.notified().await;
    }
}
