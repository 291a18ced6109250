//! The hashes of a configuration's parts, to find those that differ between two configurations.
//!
//! A queue or a sink is the same if the same was written for it, if the files that it names have the same contents
//! (passwords, certificates), and if the same was made of it: what it takes from elsewhere, such as a retry policy, shows
//! there. Only hashes are kept, so that no secret is.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Write as _};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use redisson_codecs::Codec;
use xxhash_rust::xxh3::Xxh3Default;

use super::input::STANDARD_INPUT;
use super::tables::top;
use delaybridge_model::{Config, Parts, QueueSpec};
use delaybridge_settings::files::content_hash;
use delaybridge_settings::node::{Node, Value};
use delaybridge_settings::problem::Position;
use delaybridge_settings::reader::Files;
use delaybridge_sink::{SinkRedis, SinkSpec};

/// Creates the parts of a configuration that was read from `tree` in the file `file` with this text, with the files
/// that it names.
pub(super) fn of(tree: &Node, (file, text): (&str, &str), files: &Files, config: &Config) -> Parts {
    let written = |section: &str| -> BTreeMap<&str, u64> {
        let Some(Value::Map(entries)) = child(tree, section).map(|node| &node.value) else {
            return BTreeMap::new();
        };
        entries.iter().map(|(name, node)| (name.text.as_str(), hash_of(|hash| write(node, files, hash)))).collect()
    };
    let queues = written(top::QUEUES.name);
    let sinks = written(top::SINKS.name);
    let classes = child(tree, top::CLASSES.name).map(|node| hash_of(|hash| write(node, files, hash)));
    let sink_hash = |spec: &Arc<SinkSpec>| {
        // One with a server of its own does not care where its queues are.
        let borrows = matches!(spec.connector.redis(), Some(SinkRedis::OfTheQueues));
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
    let mut files: BTreeMap<_, _> = files.values().cloned().collect();
    if file != STANDARD_INPUT {
        files.insert(file.into(), content_hash(text.as_bytes()));
    }
    Parts {
        queues: config.queues.iter().map(queue_hash).collect(),
        sinks: config.sinks.iter().map(sink_hash).collect(),
        others,
        files,
    }
}

fn hash_of(write: impl FnOnce(&mut DefaultHasher)) -> u64 {
    let mut hash = DefaultHasher::new();
    write(&mut hash);
    hash.finish()
}

/// Returns the hash of the model of a part: of its text with all of its fields, later ones included.
fn made(spec: &impl Debug) -> u64 {
    /// A hash of a text that is never there as a whole.
    struct Hashed(Xxh3Default);

    impl fmt::Write for Hashed {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.update(text.as_bytes());
            Ok(())
        }
    }

    let mut hashed = Hashed(Xxh3Default::new());
    // The hash takes every text.
    let _ = write!(hashed, "{spec:?}");
    hashed.0.digest()
}

fn child<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    match &node.value {
        Value::Map(entries) => entries.iter().find(|(known, _)| known.text == name).map(|(_, node)| node),
        _ => None,
    }
}

/// Hashes everything in a node, with the contents of the files that it names.
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

/// Collects each value in a node by its path; not the contents of files, which are read again where they are used.
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
