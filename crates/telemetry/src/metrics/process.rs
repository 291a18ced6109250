//! The metrics of the process. The library counts CPU time in whole seconds, which is too coarse for a daemon that uses
//! a few milliseconds of each.

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::process_collector::ProcessCollector;
use prometheus::proto::MetricFamily;
use prometheus::{Counter, Opts};

use delaybridge_core::clock::cpu_time;

const CPU: &str = "process_cpu_seconds_total";

/// The library's metrics, with an exact CPU time.
pub(super) struct OwnProcess {
    library: ProcessCollector,
    /// Locked, because two concurrent scrapes would add the same time twice.
    cpu: Mutex<Counter>,
}

impl OwnProcess {
    pub(super) fn new() -> prometheus::Result<Self> {
        let cpu = Counter::with_opts(Opts::new(CPU, "Total user and system CPU time spent in seconds."))?;
        Ok(OwnProcess { library: ProcessCollector::for_self(), cpu: Mutex::new(cpu) })
    }
}

impl Collector for OwnProcess {
    fn desc(&self) -> Vec<&Desc> {
        self.library.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = self.library.collect();
        families.retain(|family| family.name() != CPU);
        let cpu = self.cpu.lock();
        cpu.inc_by((cpu_time().as_secs_f64() - cpu.get()).max(0.0));
        families.extend(cpu.collect());
        families
    }
}
