//! The active sinks: opened, replaced under their names, and closed when they are no longer in use.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use delaybridge_link::Redis;
use delaybridge_pipeline::deliver::probes;
use delaybridge_pipeline::deliver::sink_handle::SinkHandle;
use delaybridge_pipeline::process::Process;
use delaybridge_sink::SinkSpec;

/// Sinks by their names.
pub(super) type ByName = HashMap<Arc<str>, Arc<SinkHandle>>;

/// Time for a sink to close while the daemon goes on. After it, the sink is abandoned.
const CLOSE: Duration = Duration::from_secs(5);

pub(super) struct Sinks {
    process: Arc<Process>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    at_work: ByName,
    /// Replaced and removed sinks, which finish their deliveries.
    old: Vec<Arc<SinkHandle>>,
}

impl Sinks {
    pub(super) fn new(process: Arc<Process>) -> Sinks {
        Sinks { process, open: Mutex::default() }
    }

    /// Opens a sink, which begins to connect. An unexpected end of its worker ends the process.
    pub(super) fn open(&self, spec: &SinkSpec, redis: &Redis) -> Arc<SinkHandle> {
        let process = &self.process;
        let events = process.events.sink(&spec.name);
        let gates = process.gates.clone();
        let sink = spec.connect(redis);
        #[cfg(debug_assertions)]
        let sink = delaybridge_pipeline::fault_injection::sink(sink);
        let handle = Arc::new(SinkHandle::new(spec.name.clone(), sink, spec.max_rate, events, gates));
        process.spawn("sink probe", probes::run(handle.clone(), process.stopping.clone()));
        process.spawn("sink watch", watch(process.clone(), handle.clone()));
        handle
    }

    pub(super) fn at_work(&self) -> ByName {
        self.open.lock().at_work.clone()
    }

    /// Installs the new sinks and returns the replaced ones.
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

    /// Closes sinks in the background that no queue delivers to any more.
    pub(super) fn close(self: &Arc<Self>, old: Vec<Arc<SinkHandle>>) {
        for handle in old {
            let sinks = self.clone();
            self.process.spawn("sink close", async move {
                let _ = tokio::time::timeout(CLOSE, handle.close()).await;
                sinks.open.lock().old.retain(|other| !Arc::ptr_eq(other, &handle));
            });
        }
    }

    /// Closes all sinks, after the last answer was given. A sink that does not close in time is abandoned.
    pub(super) async fn close_all(&self, within: Duration) {
        let Open { at_work, old } = std::mem::take(&mut *self.open.lock());
        for handle in at_work.into_values().chain(old) {
            let _ = tokio::time::timeout(within, handle.close()).await;
        }
    }
}

/// Ends the process when the worker of a sink ends, because nothing can be delivered to it any more.
async fn watch(process: Arc<Process>, handle: Arc<SinkHandle>) {
    // Biased: an end that was requested takes priority.
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
