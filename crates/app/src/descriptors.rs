//! File descriptors: as many as the kernel allows, of which clients of the job queue get what the daemon itself does not need.

use delaybridge_model::{ApiSpec, Config};
use delaybridge_ops::descriptors::Descriptors;
use delaybridge_telemetry::events::Events;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard one, as every program may; returns it. Most systems start with a
/// soft limit of 1,024, for programs that use `select`, which this one does not.
pub(super) fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let raised = setrlimit(Resource::Nofile, raised).is_ok();
    // Without a number there is no limit.
    (if raised { limit.maximum } else { limit.current }).unwrap_or(u64::MAX)
}

/// Returns the listeners with as many connections as there are descriptors for: without one, no probe would be
/// answered, and the daemon would be killed for it. Reports what the configuration may need, and that a bound was
/// lowered.
pub(super) fn share(limit: u64, config: &Config, events: &Events) -> Vec<ApiSpec> {
    let needed = Descriptors::of(config);
    let wanted = needed.clients;
    let room = room(limit, &needed);
    events.descriptors(limit, needed.sum(), (wanted > room).then_some(room));
    let part = |spec: &ApiSpec| {
        if wanted > room { part(spec.max_connections as u64, wanted, room) } else { spec.max_connections }
    };
    config.api.iter().map(|spec| ApiSpec { max_connections: part(spec), ..spec.clone() }).collect()
}

/// Returns the descriptors for clients: what all else leaves, but at least half of all, because the rest is rarely
/// needed at once.
fn room(limit: u64, needed: &Descriptors) -> u64 {
    limit.saturating_sub(needed.without_clients()).max(limit / 2)
}

/// Returns the share of a listener that wants this many of all.
fn part(own: u64, all: u64, room: u64) -> usize {
    usize::try_from((own.saturating_mul(room) / all.max(1)).max(1)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_share_what_the_daemon_does_not_need() {
        let needed = Descriptors { redis: 8, sinks: 64, inputs: 0, clients: 1024, own: 328 };
        let rooms = [1_024, 524_288, 300, u64::MAX].map(|limit| room(limit, &needed));
        assert_eq!(rooms, [624, 523_888, 150, u64::MAX - 400]);
        assert_eq!([part(1_024, 1_024, 768), part(1_024, 2_048, 768), part(1, 10_000, 150)], [768, 384, 1]);
    }
}
