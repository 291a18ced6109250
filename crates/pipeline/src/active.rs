//! One queue at work: its context, and what it has in flight.

use std::ops::Deref;
use std::sync::Arc;

use crate::deliver::dispatch::Dispatch;
use crate::deliver::key_queues::KeyQueues;
use crate::deliver::sink_handle::SinkHandle;
use crate::leases::Leases;
use crate::process::Process;
use crate::queue::Queue;
use crate::settle::Settler;
use delaybridge_ledger::store::Store;
use delaybridge_model::QueueSpec;
use delaybridge_telemetry::events::QueueEvents;

/// One queue at work.
#[derive(Debug)]
pub struct ActiveQueue {
    /// The context of its tasks.
    pub queue: Arc<Queue>,
    /// The claims in hand.
    pub leases: Arc<Leases>,
    /// Writes its verdicts.
    pub settler: Arc<Settler>,
    /// Brings its claims to the sinks.
    pub dispatch: Arc<Dispatch>,
}

impl ActiveQueue {
    /// Puts a queue to work. `handle` finds a sink by its name; the configuration has checked that it exists.
    pub fn new(
        spec: Arc<QueueSpec>,
        process: Arc<Process>,
        store: Arc<dyn Store>,
        handle: impl Fn(&str) -> Option<Arc<SinkHandle>>,
    ) -> Arc<Self> {
        let events = process.events.queue(&spec.id);
        ActiveQueue::with_events(spec, process, store, events, handle)
    }

    /// Puts a queue to work that has log lines and counters already.
    pub fn with_events(
        spec: Arc<QueueSpec>,
        process: Arc<Process>,
        store: Arc<dyn Store>,
        events: QueueEvents,
        handle: impl Fn(&str) -> Option<Arc<SinkHandle>>,
    ) -> Arc<Self> {
        let queue = Queue::new(spec, process, store, events, handle);
        let leases = Arc::new(Leases::new(queue.clone()));
        let settler = Arc::new(Settler::new(leases.clone()));
        let dispatch = Arc::new(Dispatch::new(queue.clone()));
        Arc::new(ActiveQueue { queue, leases, settler, dispatch })
    }

    /// Returns the elements that wait for others with their key, if the queue is in order.
    pub fn key_queues(&self) -> Option<&Arc<KeyQueues>> {
        self.dispatch.key_queues()
    }

    /// Returns whether nothing is lost if this is dropped, and built again when there is something to do.
    pub fn may_rest(&self) -> bool {
        self.leases.is_forgotten() && self.settler.is_idle() && self.queue.may_be_forgotten()
    }

    /// Leaves what is in flight to its leases and releases its room. Returns the number of elements.
    pub fn forget(&self) -> usize {
        self.settler.forget();
        self.leases.forget()
    }
}

impl Deref for ActiveQueue {
    type Target = Arc<Queue>;

    fn deref(&self) -> &Arc<Queue> {
        &self.queue
    }
}
