//! Brings what was claimed to the sinks, batch after batch in the order of the claims, while the next claim is on its way.
//!
//! Decoding and routing five hundred elements takes as long as Redis needs for half a claim. The claimer does not wait for
//! that; and since one task at a time hands over, no batch overtakes another. A few small elements take less time than
//! starting a task: the claimer's hands them over itself.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::pipeline::claim::ClaimBatch;
use crate::pipeline::deliver::relay::{self, Started};
use crate::pipeline::queue::Queue;
use parking_lot::{Mutex, MutexGuard};

/// The most elements, and the most bytes of them, that are handed over in the claimer's task.
const FEW: usize = 16;
const FEW_BYTES: usize = 64 << 10;

/// The claimed batches of one queue that are not at their sinks yet.
#[derive(Debug, Default)]
pub struct Dispatch(Mutex<DispatchState>);

#[derive(Debug, Default)]
struct DispatchState {
    waiting: VecDeque<ClaimBatch>,
    /// A task is at work and will see what is pushed.
    running: bool,
    /// It may wait for room. Elements behind it have no guard: an element that must be alone would wait for them, and they
    /// for a guard.
    slow: bool,
}

impl Dispatch {
    /// Hands over a batch. Bounded by what is in flight.
    pub fn push(&self, queue: &Arc<Queue>, mut batch: ClaimBatch) {
        if batch.is_alone() {
            // It needs no room and has the only guard, for which those in line may wait.
            return queue.process.contain("dispatch", || _ = hand_over(queue, &mut batch));
        }
        let few = is_few(&batch);
        let first = {
            let mut state = self.lock();
            if state.slow {
                batch.leave_shared();
            }
            state.waiting.push_back(batch);
            !std::mem::replace(&mut state.running, true)
        };
        match first {
            true if few => queue.process.contain("dispatch", || run(queue)),
            true => {
                let queue = queue.clone();
                queue.clone().spawn("dispatch", async move { run(&queue) });
            }
            false => {}
        }
    }

    /// Whether every batch was handed over.
    pub fn is_idle(&self) -> bool {
        !self.lock().running
    }

    fn next(&self) -> Option<ClaimBatch> {
        let mut state = self.lock();
        let batch = state.waiting.pop_front();
        state.running = batch.is_some();
        state.slow &= state.running;
        batch
    }

    /// From now on batches wait.
    fn slow_down(&self) {
        let mut state = self.lock();
        state.slow = true;
        state.waiting.iter_mut().for_each(ClaimBatch::leave_shared);
    }

    fn lock(&self) -> MutexGuard<'_, DispatchState> {
        self.0.lock()
    }
}

fn is_few(batch: &ClaimBatch) -> bool {
    let elements = &batch.claim().elements;
    elements.len() <= FEW && elements.iter().map(|element| element.member.len()).sum::<usize>() <= FEW_BYTES
}

fn run(queue: &Arc<Queue>) {
    let rest = Leftover(queue.clone());
    while let Some(mut batch) = queue.dispatch.next() {
        if let Some(missing_bytes) = hand_over(queue, &mut batch) {
            queue.dispatch.slow_down();
            return queue.spawn("dispatch", go_on(rest, batch, missing_bytes));
        }
    }
}

/// Goes on when there is room for the next element of a batch, and for each that follows in this batch and those behind it.
async fn go_on(rest: Leftover, mut batch: ClaimBatch, missing_bytes: u64) {
    let queue = rest.0.clone();
    let mut missing_bytes = Some(missing_bytes);
    loop {
        // Order: a stop goes first, and releases what is left. A place in a line may be left at any time.
        let ready = tokio::select! {
            biased;
            () = queue.stopping.cancelled() => false,
            () = batch.get_ready(missing_bytes) => true,
        };
        missing_bytes = if ready { hand_over(&queue, &mut batch) } else { None };
        queue.watch.moves();
        if missing_bytes.is_none() {
            let Some(next) = queue.dispatch.next() else { return };
            batch = next;
        }
    }
}

/// Hands over what there is room for; what the next element missing_bytes.
fn hand_over(queue: &Arc<Queue>, batch: &mut ClaimBatch) -> Option<u64> {
    let Started { work, missing_bytes } = relay::begin(batch);
    if let Some(work) = work {
        queue.spawn("relay", work);
    }
    missing_bytes
}

/// What a panic leaves behind is released.
#[derive(Debug)]
struct Leftover(Arc<Queue>);

impl Drop for Leftover {
    fn drop(&mut self) {
        // Without one, the batches that came since are those of another task.
        while std::thread::panicking()
            && let Some(batch) = self.0.dispatch.next()
        {
            drop(batch);
        }
    }
}
