//! The parts of a configuration as hashes, and the difference between two configurations.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::daemon::Config;
use super::queue::QueueSpec;
use delaybridge_settings::problem::Position;

/// The parts of a configuration as hashes, which hold no secret.
#[derive(Debug, Clone, Default)]
pub struct Parts {
    /// The queues, by their ids.
    pub queues: BTreeMap<Arc<str>, u64>,
    /// The sinks, by their names.
    pub sinks: BTreeMap<Arc<str>, u64>,
    /// Each value outside of queues and sinks that becomes no part of one, by its path, with its place in the file.
    pub others: BTreeMap<String, (u64, Position)>,
    /// The file, and the files that it names.
    pub files: BTreeMap<PathBuf, u64>,
}

/// The changes of the queues, or of the sinks, from one configuration to another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Names that only the second has.
    pub added: Vec<Arc<str>>,
    /// Names that both have, with different settings.
    pub changed: Vec<Arc<str>>,
    /// Names that only the first has.
    pub removed: Vec<Arc<str>>,
    /// The number of those that are the same.
    pub unchanged: usize,
}

impl Difference {
    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

impl Parts {
    /// Returns the changes of the queues. A queue with a changed sink has changed as well.
    pub fn queue_changes(&self, new: &Parts, config: &Config) -> Difference {
        let sinks: HashSet<_> = self.sink_changes(new).changed.into_iter().collect();
        let uses = |spec: &&Arc<QueueSpec>| spec.routes().any(|route| sinks.contains(&route.sink));
        let with_other_sinks = config.queues.iter().filter(uses).map(|spec| spec.id.clone()).collect();
        difference(&self.queues, &new.queues, &with_other_sinks)
    }

    /// Returns the changes of the sinks.
    pub fn sink_changes(&self, new: &Parts) -> Difference {
        difference(&self.sinks, &new.sinks, &HashSet::new())
    }

    /// Returns the keys outside of queues and sinks that differ, in the order of their names, each with its place in
    /// the second file if it is in it.
    pub fn other_changes<'a>(&'a self, new: &'a Parts) -> BTreeMap<&'a str, Option<Position>> {
        let a = &self.others;
        let b = &new.others;
        let same = |key: &String| a.get(key).map(|(hash, _)| hash) == b.get(key).map(|(hash, _)| hash);
        let place = |key: &String| b.get(key).map(|(_, at)| *at);
        a.keys().chain(b.keys()).filter(|key| !same(key)).map(|key| (key.as_str(), place(key))).collect()
    }

    /// Returns the file, and the files that it names, with hashes of their contents.
    pub fn files(&self) -> impl Iterator<Item = (&Path, u64)> {
        self.files.iter().map(|(path, content)| (path.as_path(), *content))
    }
}

fn difference(old: &BTreeMap<Arc<str>, u64>, new: &BTreeMap<Arc<str>, u64>, also: &HashSet<Arc<str>>) -> Difference {
    let mut all = Difference::default();
    for (name, part) in new {
        match old.get(name) {
            None => all.added.push(name.clone()),
            Some(before) if before != part || also.contains(name) => all.changed.push(name.clone()),
            Some(_) => all.unchanged += 1,
        }
    }
    all.removed = old.keys().filter(|name| !new.contains_key(*name)).cloned().collect();
    all
}
