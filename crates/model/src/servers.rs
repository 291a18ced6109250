//! The Redis of a configuration: one, or several by their names.

use std::sync::Arc;

use delaybridge_link::RedisTarget;
pub use delaybridge_link::UNNAMED as ONLY;

/// Every Redis that holds queues or jobs, in the order of the file: at least one.
#[derive(Debug, Clone)]
pub struct Servers(Vec<(Arc<str>, RedisTarget)>);

impl Servers {
    /// Creates the list; `None` if `servers` is empty.
    pub fn of(servers: Vec<(Arc<str>, RedisTarget)>) -> Option<Servers> {
        (!servers.is_empty()).then_some(Servers(servers))
    }

    /// Replaces each Redis by the one that `change` makes of it, and keeps the names.
    pub fn map(&self, change: impl Fn(&RedisTarget) -> RedisTarget) -> Servers {
        Servers(self.0.iter().map(|(name, target)| (name.clone(), change(target))).collect())
    }

    /// Returns every Redis with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &RedisTarget)> {
        self.0.iter().map(|(name, target)| (name, target))
    }

    /// Returns the number of Redis, at least 1.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the only Redis, if there are not several.
    pub fn only(&self) -> Option<&RedisTarget> {
        match self.0.as_slice() {
            [(_, target)] => Some(target),
            _ => None,
        }
    }

    /// Returns the Redis of this name. The configuration has checked that there is one.
    pub fn named(&self, name: &str) -> &RedisTarget {
        let found = self.0.iter().find(|(known, _)| &**known == name);
        &found.unwrap_or(&self.0[0]).1
    }
}
