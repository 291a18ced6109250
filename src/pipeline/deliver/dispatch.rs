//! Brings what was claimed to the sinks, batch after batch in the order of the claims, while the next claim is on its way.
//!
//! Decoding and routing five hundred elements takes as long as Redis needs for half a claim. The claimer does not wait for
//! that; and since one task at a time hands over, no batch overtakes another.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::pipeline::claim::Batch;
use crate::pipeline::deliver::relay;
use crate::pipeline::queue::Queue;
use parking_lot::{Mutex, MutexGuard};

/// The claimed batches of one queue that are not at their sinks yet.
#[derive(Debug, Default)]
pub struct Dispatch(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Batch>,
    /// A task is at work and will see what is pushed.
    running: bool,
}

impl Dispatch {
    /// Hands over a batch. Bounded by what is in flight.
    pub fn push(&self, queue: &Arc<Queue>, batch: Batch) {
        let start = {
            let mut state = self.lock();
            state.waiting.push_back(batch);
            !std::mem::replace(&mut state.running, true)
        };
        if start {
            queue.process.spawn("dispatch", run(queue.clone()));
        }
    }

    fn next(&self) -> Option<Batch> {
        let mut state = self.lock();
        let batch = state.waiting.pop_front();
        state.running = batch.is_some();
        batch
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

async fn run(queue: Arc<Queue>) {
    let _rest = Rest(&queue.dispatch);
    while let Some(batch) = queue.dispatch.next() {
        queue.process.spawn("relay", relay::begin(batch));
    }
}

/// What a panic leaves behind is released.
struct Rest<'a>(&'a Dispatch);

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        while let Some(batch) = self.0.next() {
            drop(batch);
        }
    }
}
