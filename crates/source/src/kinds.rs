//! The list of kinds, one line each, and the functions over all of them.

use std::sync::Arc;

use bytes::Bytes;

use super::config::{SourceConfig, SourceKind, SourceSettings};
use super::{job_pool, jobs, redisson, zset};
use delaybridge_core::metric::SourceTerms;
use delaybridge_ledger::{Packed, look_script};
use delaybridge_link::{Script, slot};
use delaybridge_settings::keys::{Group, Table};
use delaybridge_settings::reader::Section;

macro_rules! kinds {
    ($($module:ident),* $(,)?) => {
        /// Every kind, in the order of the reference.
        static KINDS: &[&SourceKind] = &[$(&$module::KIND),*];

        /// The key of each kind under `queues.NAME.source`.
        pub static KIND_KEYS: &[Group] = &[$(Group { of: None, keys: std::slice::from_ref(&$module::KIND.key) }),*];
    };
}

kinds! {
    redisson,
    zset,
    job_pool,
    jobs,
}

/// The kind that a source has whose key is missing.
static DEFAULT: &SourceKind = &redisson::KIND;

/// Returns every table of the kinds' keys, in the order of the reference.
pub fn tables() -> impl Iterator<Item = &'static Table> {
    KINDS.iter().flat_map(|kind| kind.tables.iter().copied())
}

/// Reads what is under `source:`.
pub fn read(section: &Section<'_>) -> SourceSettings {
    let mut written = section.written();
    written.retain(|name| *name != "redis");
    if written.len() > 1 {
        let message = format!("a queue has one source, and this one has {}", written.len());
        section.cx.report.problem(&section.spot, message, format!("keep one of: {}", written.join(", ")));
    }
    // All are read, so that the problems of all are reported. The default goes last: it is what there is without another one.
    let others = KINDS.iter().copied().filter(|kind| !std::ptr::eq(*kind, DEFAULT));
    let of_kind = |kind: &SourceKind| section.opt_section(&kind.key).map(|section| (kind.read)(&section));
    let read: Vec<_> = others.chain([DEFAULT]).map(of_kind).collect();
    read.into_iter().flatten().next().unwrap_or_else(|| (DEFAULT.read)(&section.section(&DEFAULT.key)))
}

/// Returns two keys of a queue that a Redis Cluster may keep on different nodes, if there are such. Scripts name many
/// keys at once.
pub fn apart(config: &SourceConfig) -> Option<(String, String)> {
    let source = config.build();
    let ledger = source.ledger_keys();
    // A member that is an id, for keys that have it in their names.
    let body = source.body_at(&Bytes::from_static(b"1")).map(|at| at.key().clone());
    let schedules = source.schedules();
    let others = source.keys().into_iter().chain(source.ready_lists()).chain(body);
    let first = schedules.first()?;
    let other =
        ledger.stored().into_iter().chain(&schedules).cloned().chain(others).find(|key| slot(key) != slot(first))?;
    let text = |key: &Bytes| String::from_utf8_lossy(key).into_owned();
    Some((text(first), text(&other)))
}

/// Reads an element that comes without its queue; `None` for bytes in no format of any source.
pub fn recognise(element: &Bytes) -> Option<Packed> {
    KINDS.iter().find_map(|kind| (kind.recognise)(element))
}

/// Returns the metric names of every kind of source that has some.
pub fn metric_names() -> Vec<&'static SourceTerms> {
    KINDS.iter().filter_map(|kind| kind.metric_names).collect()
}

/// Returns every script that a daemon runs for these queues, to be loaded when a connection is made.
pub fn scripts<'a>(configs: impl Iterator<Item = &'a Arc<SourceConfig>>) -> Vec<&'static Script> {
    let mut kinds: Vec<&Arc<SourceConfig>> = Vec::new();
    for config in configs {
        if kinds.iter().all(|known| !std::ptr::eq(known.kind(), config.kind())) {
            kinds.push(config);
        }
    }
    let sources = kinds.into_iter().map(|config| config.build());
    let of_kinds = sources.flat_map(|source| source.scripts().all().into_iter().chain(source.own_scripts()));
    of_kinds.chain([look_script()]).collect()
}
