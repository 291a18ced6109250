//! The workers of the runtime. One that is silent is held by a call that blocks, and the tasks on it wait with it: elements are not
//! delivered, although all tasks are well.
//!
//! A worker that has nothing to do is parked. One that works looks for events again and again, and counts the time that it was busy.

use std::thread;
use std::time::Duration;

use delaybridge_telemetry::events::Events;
use tokio::runtime::{Handle, RuntimeMetrics};

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// Looks without a sign of life after which a worker is silent.
const SILENT: u64 = 5;

/// Watches the workers of this runtime until the process ends, on a thread of its own.
pub(super) fn watch(events: Events) -> std::io::Result<()> {
    let metrics = Handle::current().metrics();
    let look = move || {
        let mut workers = Workers::default();
        loop {
            thread::sleep(LOOK);
            workers.look(&metrics);
            events.silent_workers(&workers.silent());
        }
    };
    thread::Builder::new().name("watchdog".to_owned()).spawn(look).map(drop)
}

/// The workers at the last look.
#[derive(Default)]
struct Workers(Vec<Worker>);

#[derive(Default)]
struct Worker {
    /// The number of its parkings and wake-ups, and the time that it was busy.
    seen: (u64, Duration),
    /// The looks since then, while it was not parked. Not a time: the machine may have slept.
    same: u64,
}

impl Workers {
    fn look(&mut self, metrics: &RuntimeMetrics) {
        self.0.resize_with(metrics.num_workers(), Worker::default);
        for (number, worker) in self.0.iter_mut().enumerate() {
            let parkings = metrics.worker_park_unpark_count(number);
            let now = (parkings, metrics.worker_total_busy_duration(number));
            let is_parked = parkings % 2 == 1;
            worker.same = if is_parked || now != worker.seen { 0 } else { worker.same + 1 };
            worker.seen = now;
        }
    }

    /// Returns the workers that are silent, and for how long.
    fn silent(&self) -> Vec<(usize, Duration)> {
        let silent = self.0.iter().enumerate().filter(|(_, worker)| worker.same >= SILENT);
        silent.map(|(number, worker)| (number, LOOK * u32::try_from(worker.same).unwrap_or(u32::MAX))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_worker_is_silent_that_a_call_holds_and_not_one_that_works_or_rests() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let metrics = runtime.metrics();
        let mut workers = Workers::default();
        let mut looks = |count: u64| {
            for _ in 0..count {
                // A task that is always ready needs a moment to be looked at again.
                thread::sleep(Duration::from_millis(50));
                workers.look(&metrics);
            }
            workers.silent().len()
        };
        assert_eq!(looks(2 * SILENT), 0, "both rest");
        let works = runtime.spawn(async {
            loop {
                tokio::task::yield_now().await;
            }
        });
        assert_eq!(looks(2 * SILENT), 0, "one works");
        let (release, held) = mpsc::sync_channel::<()>(0);
        let blocked = runtime.spawn(async move { held.recv() });
        assert_eq!(looks(2 * SILENT), 1, "one is held");
        drop(release);
        runtime.block_on(blocked).unwrap().unwrap_err();
        assert_eq!(looks(1), 0, "it works again");
        works.abort();
    }
}
