//! The file descriptors that a configuration may need at once, as far as it tells.

use std::fmt;

use delaybridge_model::Config;
use rustix::process::{Resource, getrlimit};

/// Connections of `http.listen`, of which a new one beyond them closes the oldest.
const PROBES: u64 = 256;
/// Connections of `http.admin`, and those that answer its questions.
const OPERATORS: u64 = 96;
/// Listening sockets, standard streams, event queues, name look-ups, the collector of traces, and files that are read again.
const REST: u64 = 64;

/// The file descriptors that a configuration may need at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    /// For the Redis servers that hold queues and jobs.
    pub redis: u64,
    /// For the sinks.
    pub sinks: u64,
    /// For the inputs.
    pub inputs: u64,
    /// For clients of the job queue: `jobs.max_connections` of every listener.
    pub clients: u64,
    /// For probes, metrics, operators and what every process needs.
    pub own: u64,
}

impl Descriptors {
    /// Adds up what this configuration may need.
    pub fn of(config: &Config) -> Descriptors {
        let operators = if config.admin.is_some() { OPERATORS } else { 0 };
        let probes = if config.http_listen.is_some() { PROBES } else { 0 };
        Descriptors {
            redis: config.redis.iter().map(|(_, target)| target.descriptors()).sum(),
            sinks: config.sinks.iter().map(|spec| spec.connector.descriptors()).sum(),
            inputs: config.inputs.iter().map(|spec| spec.connector.descriptors()).sum(),
            clients: config.api.iter().map(|spec| spec.max_connections as u64).sum(),
            own: probes + operators + REST,
        }
    }

    /// Returns all of them.
    pub fn sum(&self) -> u64 {
        self.clients.saturating_add(self.without_clients())
    }

    /// Returns all but those for clients of the job queue.
    pub fn without_clients(&self) -> u64 {
        self.redis + self.sinks + self.inputs + self.own
    }
}

impl fmt::Display for Descriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Descriptors { redis, sinks, inputs, clients, own } = self;
        write!(
            f,
            "Redis {redis}, sinks {sinks}, inputs {inputs}, clients of the job queue {clients}, the process itself {own}"
        )
    }
}

/// Returns the limit that a daemon started like this process would have: it raises the soft one to the hard one.
/// `None`: there is none.
pub fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).maximum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_configuration_counts() {
        let of = |rest: &str| {
            let yaml = format!("redis: {{ url: 'redis://h' }}\n{rest}");
            Descriptors::of(&delaybridge_config::load_str(&yaml, "c.yaml", &|_| None).unwrap().config)
        };
        let jobs = of("jobs: { listen: '127.0.0.1:1', max_connections: 5000 }\n");
        assert_eq!((jobs.clients, jobs.sinks, jobs.inputs), (5000, 0, 0));
        assert_eq!(jobs.sum(), jobs.without_clients() + 5000);
        let queue = "queues: { q: { source: { redisson: { name: n } }, to: [{ sink: out }] } }\n";
        let hooks = |requests: u64| {
            of(&format!("sinks: {{ out: {{ http: {{ url: 'http://h/', max_concurrency: {requests} }} }} }}\n{queue}"))
        };
        assert_eq!(hooks(2064).sum() - hooks(64).sum(), 2000);
        let cluster = of(&format!("sinks: {{ out: {{ redis: {{ cluster: ['a:1', 'b:1'], list: l }} }} }}\n{queue}"));
        assert!(cluster.sinks > hooks(1).redis, "{cluster}");
        assert!(of(&format!("http: none\nsinks: {{ out: {{ stdout: }} }}\n{queue}")).own < jobs.own);
    }
}
