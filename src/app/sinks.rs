//! The sinks at work: opened, replaced under their names, closed when nothing goes to them any more.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::link::Redis;
use crate::pipeline::deliver::probes;
use crate::pipeline::deliver::sink_handle::SinkHandle;
use crate::pipeline::process::Process;
use crate::sink::SinkSpec;

/// Sinks by their names.
pub(super) type ByName = HashMap<Arc<str>, Arc<SinkHandle>>;

/// Time for a sink to close while the daemon goes on. One that does not close in time is left behind.
const CLOSE: Duration = Duration::from_secs(5);

/// All sinks.
pub(super) struct Sinks {
    process: Arc<Process>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    at_work: ByName,
    /// Others have their names, or none; they finish what they have.
    old: Vec<Arc<SinkHandle>>,
}

impl Sinks {
    /// None yet.
    pub(super) fn new(process: Arc<Process>) -> Sinks {
        Sinks { process, open: Mutex::default() }
    }

    /// Opens a sink, which begins to connect. The end of its worker by itself ends the process.
    pub(super) fn open(&self, spec: &SinkSpec, redis: &Redis) -> Arc<SinkHandle> {
        let process = &self.process;
        let (events, gates) = (process.events.sink(&spec.name), process.gates.clone());
        let sink = spec.connect(redis);
        let handle = Arc::new(SinkHandle::new(spec.name.clone(), sink, spec.max_rate, events, gates));
        process.spawn("sink probe", probes::run(handle.clone(), process.stopping.clone()));
        process.spawn("sink watch", watch(process.clone(), handle.clone()));
        handle
    }

    /// Those at work.
    pub(super) fn at_work(&self) -> ByName {
        self.open.lock().at_work.clone()
    }

    /// These are at work from now on. Answers those that were and are not.
    pub(super) fn replace(&self, new: ByName) -> Vec<Arc<SinkHandle>> {
        let mut open = self.open.lock();
        let before = std::mem::replace(&mut open.at_work, new);
        let is_old =
            |handle: &Arc<SinkHandle>| open.at_work.get(&handle.name).is_none_or(|now| !Arc::ptr_eq(now, handle));
        let old: Vec<_> = before.into_values().filter(is_old).collect();
        old.iter().for_each(|handle| handle.retire());
        open.old.extend(old.iter().cloned());
        old
    }

    /// Closes sinks that no queue delivers to any more, in the background.
    pub(super) fn close(self: &Arc<Self>, old: Vec<Arc<SinkHandle>>) {
        for handle in old {
            let sinks = self.clone();
            self.process.spawn("sink close", async move {
                drop(tokio::time::timeout(CLOSE, handle.close()).await);
                sinks.open.lock().old.retain(|other| !Arc::ptr_eq(other, &handle));
            });
        }
    }

    /// Closes all: what had an answer to give has given it. One that does not close in time is left behind.
    pub(super) async fn close_all(&self, within: Duration) {
        let Open { at_work, old } = std::mem::take(&mut *self.open.lock());
        for handle in at_work.into_values().chain(old) {
            drop(tokio::time::timeout(within, handle.close()).await);
        }
    }
}

/// Nothing can be delivered to a sink whose worker has ended.
async fn watch(process: Arc<Process>, handle: Arc<SinkHandle>) {
    // Order: an end that was asked for goes first.
    tokio::select! {
        biased;
        () = process.stopping.cancelled() => {}
        () = handle.retired() => {}
        () = handle.ended() => {
            process.events.task_ended(&handle.name, "the worker of this sink ended");
            process.failed.cancel();
        }
    }
}
