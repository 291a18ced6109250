//! Which parts of two configurations differ.
//!
//! A queue or a sink is the same if the same was written for it, if the files that it names have the same contents
//! (passwords, certificates), and if the same was made of it: what it takes from elsewhere, such as a retry policy, shows
//! there. Only hashes are kept, so that no secret is.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redisson_codecs::Codec;
use serde::Serialize;

use super::tables::top;
use crate::model::{Config, QueueSpec};
use crate::settings::node::{Node, Value};
use crate::settings::problem::Position;
use crate::settings::reader::{Files, content_hash};
use crate::sink::{RedisServer, SinkSpec};

/// The parts of a configuration, as hashes.
#[derive(Debug, Clone, Default)]
pub struct Parts {
    queues: BTreeMap<Arc<str>, u64>,
    sinks: BTreeMap<Arc<str>, u64>,
    /// Each value of what is neither in a queue nor in a sink, nor becomes a part of one, by its path.
    others: BTreeMap<String, (u64, Position)>,
    files: BTreeMap<PathBuf, u64>,
}

/// What becomes of the queues, or of the sinks, when one configuration takes the place of another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// They are only in the second.
    pub added: Vec<Arc<str>>,
    /// They are in both, and differ.
    pub changed: Vec<Arc<str>>,
    /// They are only in the first.
    pub removed: Vec<Arc<str>>,
    /// So many are the same.
    pub unchanged: usize,
}

impl Difference {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

impl Parts {
    /// Those of a tree, of the files that it names, and of what was made of it.
    pub(super) fn of(tree: &Node, files: &Files, config: &Config) -> Parts {
        let written = |section: &str| -> BTreeMap<&str, u64> {
            let Some(Value::Map(entries)) = child(tree, section).map(|node| &node.value) else {
                return BTreeMap::new();
            };
            entries.iter().map(|(name, node)| (name.text.as_str(), hash_of(|hash| write(node, files, hash)))).collect()
        };
        let (queues, sinks) = (written(top::QUEUES.name), written(top::SINKS.name));
        let classes = child(tree, top::CLASSES.name).map(|node| hash_of(|hash| write(node, files, hash)));
        let sink_hash = |spec: &Arc<SinkSpec>| {
            // One with a server of its own does not care where its queues are.
            let borrows = matches!(spec.connector.redis(), Some(RedisServer::OfTheQueues));
            let redis = borrows.then(|| config.redis_of_sink(&spec.name));
            (spec.name.clone(), hash_of(|hash| (sinks.get(&*spec.name), made(spec), redis).hash(hash)))
        };
        let queue_hash = |spec: &Arc<QueueSpec>| {
            let classes = classes.filter(|_| matches!(spec.codec.codec, Codec::Kryo5 | Codec::Kryo5Refs | Codec::Auto));
            // Their order in memory differs from one reading to the next.
            let plain = QueueSpec { classes: Default::default(), ..(**spec).clone() };
            let of = |hash: &mut DefaultHasher| (queues.get(&*spec.id), made(&plain), classes).hash(hash);
            (spec.id.clone(), hash_of(of))
        };
        let mut others = BTreeMap::new();
        if let Value::Map(entries) = &tree.value {
            let within = [top::QUEUES, top::SINKS, top::RETRY, top::CLASSES].map(|key| key.name);
            for (name, node) in entries.iter().filter(|(name, _)| !within.contains(&name.text.as_str())) {
                leaves(node, name.text.clone(), &mut others);
            }
        }
        Parts {
            queues: config.queues.iter().map(queue_hash).collect(),
            sinks: config.sinks.iter().map(sink_hash).collect(),
            others,
            files: files.values().cloned().collect(),
        }
    }

    /// The file itself.
    pub(super) fn read_from(&mut self, file: &str, text: &str) {
        self.files.insert(file.into(), content_hash(text.as_bytes()));
    }

    /// What becomes of the queues. One with a sink that is another one is another one as well.
    pub fn queues(&self, new: &Parts, config: &Config) -> Difference {
        let sinks: HashSet<_> = self.sinks(new).changed.into_iter().collect();
        let uses = |spec: &&Arc<QueueSpec>| {
            spec.to.iter().chain(spec.dead_letter_to.as_deref()).any(|route| sinks.contains(&route.sink))
        };
        let with_other_sinks = config.queues.iter().filter(uses).map(|spec| spec.id.clone()).collect();
        difference(&self.queues, &new.queues, &with_other_sinks)
    }

    /// What becomes of the sinks.
    pub fn sinks(&self, new: &Parts) -> Difference {
        difference(&self.sinks, &new.sinks, &HashSet::new())
    }

    /// The keys beside queues and sinks that differ, in the order of their names; with the place in the second file, if they
    /// are in it.
    pub fn other_keys<'a>(&'a self, new: &'a Parts) -> BTreeMap<&'a str, Option<Position>> {
        let (a, b) = (&self.others, &new.others);
        let same = |key: &String| a.get(key).map(|(hash, _)| hash) == b.get(key).map(|(hash, _)| hash);
        let place = |key: &String| b.get(key).map(|(_, at)| *at);
        a.keys().chain(b.keys()).filter(|key| !same(key)).map(|key| (key.as_str(), place(key))).collect()
    }

    /// The file, and those that it names, with hashes of their contents.
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

fn hash_of(write: impl FnOnce(&mut DefaultHasher)) -> u64 {
    let mut hash = DefaultHasher::new();
    write(&mut hash);
    hash.finish()
}

/// What was made of a part: every field is in this text, also one that is added one day.
fn made(spec: &impl Debug) -> String {
    format!("{spec:?}")
}

fn child<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    match &node.value {
        Value::Map(entries) => entries.iter().find(|(known, _)| known.text == name).map(|(_, node)| node),
        _ => None,
    }
}

/// Everything that was written in a node, with the contents of the files that it names.
fn write(node: &Node, files: &Files, hash: &mut DefaultHasher) {
    node.value.kind().hash(hash);
    match &node.value {
        Value::Null => {}
        Value::Flag(flag) => flag.hash(hash),
        Value::Number(text) | Value::Text(text) => {
            text.hash(hash);
            files.get(&node.at).hash(hash);
        }
        Value::List(items) => {
            items.len().hash(hash);
            items.iter().for_each(|item| write(item, files, hash));
        }
        Value::Map(entries) => {
            entries.len().hash(hash);
            for (name, node) in entries {
                name.text.hash(hash);
                write(node, files, hash);
            }
        }
    }
}

/// Each value in a node by its path; not the contents of files, which are read again where they are used.
fn leaves(node: &Node, path: String, found: &mut BTreeMap<String, (u64, Position)>) {
    match &node.value {
        Value::Map(entries) if !entries.is_empty() => {
            entries.iter().for_each(|(name, node)| leaves(node, format!("{path}.{}", name.text), found));
        }
        Value::List(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(at, node)| leaves(node, format!("{path}[{at}]"), found));
        }
        _ => {
            found.insert(path, (hash_of(|hash| write(node, &Files::default(), hash)), node.at));
        }
    }
}
