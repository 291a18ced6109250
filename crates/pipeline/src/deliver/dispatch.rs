//! Brings what was claimed to the sinks, batch after batch in the order of the claims, while the next claim is on its way.
//!
//! Decoding and routing five hundred elements takes as long as Redis needs for half a claim. The claimer does not wait for
//! that; and since one task at a time hands over, no batch overtakes another. A few small elements take less time than
//! starting a task: the claimer's hands them over itself.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};

use crate::claim::batch::{ClaimBatch, Lack};
use crate::deliver::in_order;
use crate::deliver::key_queues::KeyQueues;
use crate::deliver::outgoing;
use crate::queue::Queue;

/// The most elements, and the most bytes of them, that are handed over in the claimer's task.
const FEW: usize = 16;
const FEW_BYTES: usize = 64 << 10;

/// The claimed batches of one queue that are not at their sinks yet.
#[derive(Debug)]
pub struct Dispatch {
    queue: Arc<Queue>,
    /// In front of the sinks, where the queue is in order.
    key_queues: Option<Arc<KeyQueues>>,
    state: Mutex<DispatchState>,
}

#[derive(Debug, Default)]
struct DispatchState {
    waiting: VecDeque<ClaimBatch>,
    /// A task is at work and will see what is pushed.
    running: bool,
    /// The task may wait for room. Elements behind it have no guard: an element that must be alone would wait for them, and they
    /// for a guard.
    slow: bool,
}

impl Dispatch {
    /// Creates a dispatcher that has nothing to hand over yet.
    pub fn new(queue: Arc<Queue>) -> Self {
        let key_queues = queue.spec.order.is_some().then(|| Arc::new(KeyQueues::new(queue.clone())));
        Dispatch { queue, key_queues, state: Mutex::default() }
    }

    /// Returns the elements that wait for others with their key, if the queue is in order.
    pub fn key_queues(&self) -> Option<&Arc<KeyQueues>> {
        self.key_queues.as_ref()
    }

    /// Hands over a batch. Bounded by what is in flight.
    pub fn push(self: &Arc<Self>, mut batch: ClaimBatch) {
        if batch.is_alone() {
            // It needs no room and has the only guard, for which those in line may wait.
            return self.queue.process.contain("dispatch", || _ = self.hand_over(batch));
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
            true if few => self.queue.process.contain("dispatch", || run(self)),
            true => {
                let dispatch = self.clone();
                self.queue.spawn("dispatch", async move { run(&dispatch) });
            }
            false => {}
        }
    }

    /// Returns whether every batch was handed over.
    pub fn is_idle(&self) -> bool {
        !self.lock().running
    }

    fn next(&self) -> Option<ClaimBatch> {
        let batch = {
            let mut state = self.lock();
            let batch = state.waiting.pop_front();
            state.running = batch.is_some();
            state.slow &= state.running;
            batch
        };
        if batch.is_none() {
            self.queue.came_to_rest();
        }
        batch
    }

    /// Lets batches wait from now on.
    fn slow_down(&self) {
        let mut state = self.lock();
        state.slow = true;
        state.waiting.iter_mut().for_each(ClaimBatch::leave_shared);
    }

    /// Hands over what is due, as far as there is room. Returns the batch if its next element lacks room: those behind it wait with
    /// it. What is not due holds nothing up.
    fn hand_over(self: &Arc<Self>, mut batch: ClaimBatch) -> Option<ClaimBatch> {
        if let Some(queues) = &self.key_queues {
            self.queue.spawn("relay", in_order::begin(queues, batch));
            return None;
        }
        if let Some(delivery) = outgoing::begin(&mut batch) {
            self.queue.spawn_deferred("relay", delivery.finish().boxed());
        }
        match batch.lack()? {
            Lack::Room(_) => return Some(batch),
            Lack::Time(_) => self.queue.spawn("dispatch", go_on(self.clone(), None, batch)),
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, DispatchState> {
        self.state.lock()
    }
}

fn is_few(batch: &ClaimBatch) -> bool {
    let elements = &batch.claim().elements;
    elements.len() <= FEW && elements.iter().map(|element| element.member.len()).sum::<usize>() <= FEW_BYTES
}

fn run(dispatch: &Arc<Dispatch>) {
    let rest = Leftover(dispatch.clone());
    while let Some(batch) = dispatch.next() {
        if let Some(batch) = dispatch.hand_over(batch) {
            dispatch.slow_down();
            return dispatch.queue.spawn("dispatch", go_on(dispatch.clone(), Some(rest), batch));
        }
    }
}

/// Goes on with a batch when its next element has what it lacks, and with each that follows in it; with `rest`, also with those
/// behind it.
fn go_on(dispatch: Arc<Dispatch>, rest: Option<Leftover>, mut batch: ClaimBatch) -> BoxFuture<'static, ()> {
    let goes_on = async move {
        loop {
            // Order: a stop goes first, and releases what is left. A place in a line may be left at any time.
            let ready = tokio::select! {
                biased;
                () = dispatch.queue.stopping.cancelled() => false,
                () = batch.get_ready() => true,
            };
            let left = if ready { dispatch.hand_over(batch) } else { None };
            dispatch.queue.progress.moves();
            batch = match (left, &rest) {
                (Some(left), _) => left,
                (None, Some(rest)) => match rest.0.next() {
                    Some(next) => next,
                    None => return,
                },
                (None, None) => return,
            };
        }
    };
    goes_on.boxed()
}

/// The batches that a panic leaves behind, to be released.
#[derive(Debug)]
struct Leftover(Arc<Dispatch>);

impl Drop for Leftover {
    fn drop(&mut self) {
        // Without one, the batches that came since are those of another task.
        while std::thread::panicking()
            && let Some(batch) = self.0.next()
        {
            drop(batch);
        }
    }
}
