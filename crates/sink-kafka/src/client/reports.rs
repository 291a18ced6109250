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
    /// The run of the element, which has this place there.
    Run(Arc<RunReports>, usize),
}

/// The reports of a batch. Confirmations are answers; the batch's task finds out what the others mean.
#[derive(Debug)]
pub(super) struct BatchReports {
    answers: Answers,
    failed: Mutex<Vec<(usize, DeliveryReport)>>,
    failure: Notify,
}

impl BatchReports {
    pub(super) fn new(answers: Answers) -> BatchReports {
        BatchReports { answers, failed: Mutex::default(), failure: Notify::new() }
    }

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

/// The reports of a run. Its task is woken by those of failures, and by the last one.
#[derive(Debug, Default)]
pub(super) struct RunReports {
    state: Mutex<RunState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct RunState {
    came: Vec<(usize, DeliveryReport)>,
    count: usize,
    /// The number of records; not known while they are queued.
    expected: Option<usize>,
}

impl RunReports {
    pub(super) fn put(&self, place: usize, report: DeliveryReport) {
        let mut state = self.state.lock();
        state.came.push((place, report));
        state.count += 1;
        if report.error.is_some() || state.expected == Some(state.count) {
            self.changed.notify_one();
        }
    }

    /// Sets the number of reports to come.
    pub(super) fn expect(&self, count: usize) {
        self.state.lock().expected = Some(count);
    }

    /// Takes the reports that have come since the last time, with the places of their elements.
    pub(super) fn take(&self) -> Vec<(usize, DeliveryReport)> {
        std::mem::take(&mut self.state.lock().came)
    }

    /// Waits for a failure or the last report. Cancel safe.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}
