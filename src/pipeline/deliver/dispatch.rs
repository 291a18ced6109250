//! Brings what was claimed to the sinks, batch after batch in the order of the claims, while the next claim is on its way.
//!
//! Decoding and routing five hundred elements takes as long as Redis needs for half a claim. The claimer does not wait for
//! that; and since one task at a time hands over, no batch overtakes another. A few small elements take less time than
//! starting a task: the claimer's hands them over itself.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::pipeline::claim::Batch;
use crate::pipeline::deliver::relay;
use crate::pipeline::queue::Queue;
use parking_lot::{Mutex, MutexGuard};

/// The most elements, and the most bytes of them, that are handed over in the claimer's task.
const FEW: usize = 16;
const FEW_BYTES: usize = 64 << 10;

/// The claimed batches of one queue that are not at their sinks yet.
#[derive(Debug, Default)]
pub struct Dispatch(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Batch>,
    /// Somebody is at work and will see what is pushed.
    running: bool,
}

impl Dispatch {
    /// Hands over a batch. Bounded by what is in flight.
    pub fn push(&self, queue: &Arc<Queue>, batch: Batch) {
        let few = is_few(&batch);
        let first = {
            let mut state = self.lock();
            state.waiting.push_back(batch);
            !std::mem::replace(&mut state.running, true)
        };
        match first {
            true if few => queue.process.contain("dispatch", || run(queue)),
            true => {
                let queue = queue.clone();
                queue.process.clone().spawn("dispatch", async move { run(&queue) });
            }
            false => {}
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

fn is_few(batch: &Batch) -> bool {
    let elements = &batch.claim().elements;
    elements.len() <= FEW && elements.iter().map(|element| element.member.len()).sum::<usize>() <= FEW_BYTES
}

fn run(queue: &Arc<Queue>) {
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
