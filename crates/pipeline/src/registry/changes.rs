//! Queues that come, go, or have other settings while the process runs.
//!
//! A place is [closed](QueueRegistry::close) first: what is at work there stays visible to the keeper of leases and to the drain,
//! and nothing is put to work. When nothing of it is in flight any more, the place [opens](QueueRegistry::open) with what is to
//! be there, or stays [empty](QueueRegistry::clear). All other places are as they were.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{QueueCounts, QueueRegistry, QueueSlot, RegistryState};
use crate::active::ActiveQueue;
use crate::deliver::sink_handle::SinkHandle;
use delaybridge_model::{Mode, QueueSpec};

impl QueueRegistry {
    /// Returns the places of all queues by their names.
    pub fn by_id(&self) -> HashMap<Arc<str>, usize> {
        self.places().into_iter().map(|place| (self.spec(place).id.clone(), place)).collect()
    }

    /// Returns whether no queue is there any more.
    pub fn is_gone(&self, place: usize) -> bool {
        self.state.lock().free.contains(&place)
    }

    /// Replaces the sinks that queues are built with.
    pub fn set_sinks(&self, sinks: HashMap<Arc<str>, Arc<SinkHandle>>) {
        *self.sinks.write() = sinks;
    }

    /// Closes a place: nothing is put to work there from now on. Returns the active queue, which is to be
    /// [drained](crate::retire).
    pub fn close(&self, place: usize) -> Option<Arc<ActiveQueue>> {
        let mut state = self.state.lock();
        state.closed.insert(place);
        state.looks.remove(&place);
        state.at_work.get(&place).cloned()
    }

    /// Puts a queue with these settings at a closed place, whose queue is gone. It looks at once. Its counters are those
    /// of the queue before, and so are the names of ended claims.
    pub fn open(&self, place: usize, spec: Arc<QueueSpec>) {
        let mut state = self.state.lock();
        let events = self.slot(place).events.get().cloned();
        let before = take(&mut state, place);
        let events = before.as_ref().map(|queue| queue.events.clone()).or(events);
        if let Some(events) = &events {
            events.changed();
        }
        let owner = self.owner_of(&spec);
        self.slots.write()[place] = QueueSlot::new(spec, owner, events);
        self.fill_slot(&mut state, place, before.as_deref());
        if let Some(before) = before {
            before.leases.give_up();
        }
    }

    /// Returns a further queue. It looks at once.
    pub fn add(&self, spec: Arc<QueueSpec>) -> usize {
        let mut state = self.state.lock();
        let owner = self.owner_of(&spec);
        let slot = QueueSlot::new(spec, owner, None);
        let place = match state.free.pop_first() {
            Some(place) => {
                self.slots.write()[place] = slot;
                place
            }
            None => {
                let mut slots = self.slots.write();
                slots.push(slot);
                slots.len() - 1
            }
        };
        self.process.events.status().add_queues(1);
        self.fill_slot(&mut state, place, None);
        place
    }

    /// Frees a closed place whose queue is gone. What is shown of it is the caller's to remove.
    pub fn clear(&self, place: usize) {
        let mut state = self.state.lock();
        if let Some(queue) = take(&mut state, place) {
            queue.leases.give_up();
        }
        state.free.insert(place);
        self.process.events.status().remove_queue();
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the owner of the claims of a queue that is new here. What the queue before left to its leases must not
    /// be overtaken: Redis lets another owner wait for them, whatever this process knows of them, and take them over
    /// first.
    fn owner_of(&self, spec: &QueueSpec) -> [u8; 8] {
        if spec.order.is_some() { self.process.another_owner() } else { self.process.owner }
    }

    fn fill_slot(&self, state: &mut RegistryState, place: usize, before: Option<&ActiveQueue>) {
        state.closed.remove(&place);
        match self.spec(place).mode {
            Mode::Deliver => match before {
                Some(before) => {
                    if let Some(queue) = self.wake_slot(state, place) {
                        queue.leases.inherit(&before.leases);
                    }
                }
                // Thousands may come at once: they are looked at some at a time.
                None => {
                    state.looks.insert(place);
                    self.bell.notify_one();
                }
            },
            // At work for good, without a claimer.
            Mode::Shadow | Mode::Rescue { .. } => {
                state.at_work.insert(place, self.build(place));
            }
        }
        self.changes.fetch_add(1, Ordering::AcqRel);
    }
}

/// Takes a queue off its place; what it has counted stays.
fn take(state: &mut RegistryState, place: usize) -> Option<Arc<ActiveQueue>> {
    let queue = state.at_work.remove(&place)?;
    state.woken.retain(|woken| *woken != place);
    state.before = QueueCounts::plus(state.before, QueueCounts::of(&queue));
    Some(queue)
}
