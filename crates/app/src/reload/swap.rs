//! Carries out a plan. The order of the steps loses no element and does not interrupt other queues:
//!
//! 1. New sinks are opened. They connect by themselves; nothing waits for them.
//! 2. The slots of queues that are changed or removed are closed: no queue starts in them.
//! 3. The names of sinks are switched to the new sinks.
//! 4. Each of these queues is drained, within a time limit; its slot is opened with the new settings, or cleared.
//! 5. New queues are added. A queue with a new name and the same source follows the one before it.
//! 6. Sinks that are no longer in use are closed.
//!
//! A SIGTERM in the middle leaves the reload as it is, and drains its queue with the others. A sink that lost its name
//! finishes its elements and reports no state any more.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::plan::Plan;
use crate::group::Group;
use crate::sinks::{ByName, Sinks};
use crate::tasks::forward;
use delaybridge_model::{Config, QueueSpec};
use delaybridge_pipeline::active::ActiveQueue;
use delaybridge_pipeline::process::Process;
use delaybridge_pipeline::retire;

/// A queue that is retired, and its successor.
struct Leaving<'a> {
    group: &'a Group,
    place: usize,
    queue: Option<Arc<ActiveQueue>>,
    before: Arc<QueueSpec>,
    after: Option<(&'a Group, Arc<QueueSpec>)>,
}

/// Makes the daemon run the configuration of the plan.
pub(super) async fn apply(process: &Process, groups: &[Group], sinks: &Arc<Sinks>, plan: &Plan) {
    let config = &plan.config;
    let group_of = |redis: &str| groups.iter().find(|group| **group.redis.name() == *redis).unwrap_or(&groups[0]);
    let by_name = open_sinks(groups, sinks, plan);

    let specs: HashMap<&str, &Arc<QueueSpec>> = config.queues.iter().map(|spec| (&*spec.id, spec)).collect();
    let mut added: Vec<&Arc<QueueSpec>> = plan.queues.added.iter().filter_map(|id| specs.get(&**id).copied()).collect();
    // A queue may have been renamed. If none was removed, none was renamed.
    let mut renamed: HashMap<(Arc<str>, String), &Arc<QueueSpec>> = if plan.queues.removed.is_empty() {
        HashMap::new()
    } else {
        added.iter().rev().map(|spec| (elements(spec), *spec)).collect()
    };
    let mut leaving = Vec::new();
    let places: Vec<_> = groups.iter().map(|group| (group, group.registry.by_id())).collect();
    for id in plan.queues.changed.iter().chain(&plan.queues.removed) {
        let place = places.iter().find_map(|(group, by_id)| Some((*group, *by_id.get(id)?)));
        let Some((group, place)) = place else { continue };
        let before = group.registry.spec(place);
        let mut after = specs.get(&**id).map(|spec| (group_of(&spec.redis), (*spec).clone()));
        if after.is_none() {
            let spec = renamed.remove(&elements(&before));
            after = spec.map(|spec| (group_of(&spec.redis), spec.clone()));
        }
        leaving.push(Leaving { group, place, queue: group.registry.close(place), before, after });
    }

    groups.iter().for_each(|group| group.registry.set_sinks(by_name.clone()));
    let old = sinks.replace(by_name);
    plan.sinks.changed.iter().for_each(|name| process.events.sink_changed(name));

    let renamed: HashSet<&str> =
        leaving.iter().filter_map(|leaving| leaving.after.as_ref()).map(|(_, spec)| &*spec.id).collect();
    added.retain(|spec| !renamed.contains(&*spec.id));
    for spec in added {
        add(group_of(&spec.redis), spec);
    }
    // New queues are subscribed to before the others are drained.
    groups.iter().for_each(Group::listen);
    join_all(leaving.into_iter().map(|leaving| follow(process, config, leaving))).await;
    groups.iter().for_each(Group::listen);

    process.events.queues_removed(&plan.queues.removed);
    process.events.configured(&config.queue_ids());
    process.events.sinks_removed(&plan.sinks.removed);
    sinks.close(old);
}

/// Returns the sinks by name, after opening those that are new or changed.
fn open_sinks(groups: &[Group], sinks: &Sinks, plan: &Plan) -> ByName {
    let mut by_name = sinks.at_work();
    plan.sinks.removed.iter().for_each(|name| drop(by_name.remove(name)));
    let new: HashSet<_> = plan.sinks.added.iter().chain(&plan.sinks.changed).collect();
    for spec in plan.config.sinks.iter().filter(|spec| new.contains(&spec.name)) {
        let redis = plan.config.redis_of_sink(&spec.name);
        let group = groups.iter().find(|group| **group.redis.name() == *redis).unwrap_or(&groups[0]);
        by_name.insert(spec.name.clone(), sinks.open(spec, &group.redis));
    }
    by_name
}

/// Drains a queue, and puts its successor in its slot.
async fn follow(process: &Process, config: &Config, leaving: Leaving<'_>) {
    let Leaving { group, place, queue, before, after } = leaving;
    let goes_on = after.as_ref().is_some_and(|(to, spec)| std::ptr::eq(*to, group) && spec.id == before.id);
    if let Some(queue) = queue {
        let left = retire::drain(&queue, within(&before, config)).await;
        if left > 0 {
            process.events.queue_left(&before.id, left);
        }
        if !goes_on {
            retire::bury(&queue).await;
        }
    }
    match after {
        Some((_, spec)) if goes_on => {
            group.registry.open(place, spec);
            forward(&group.registry, place);
        }
        after => {
            group.registry.clear(place);
            if let Some((to, spec)) = after {
                add(to, &spec);
            }
        }
    }
}

fn add(group: &Group, spec: &Arc<QueueSpec>) {
    let place = group.registry.add(spec.clone());
    forward(&group.registry, place);
}

/// Returns the time limit for draining a queue: its lease, or the shutdown timeout if that is shorter.
fn within(spec: &QueueSpec, config: &Config) -> Duration {
    spec.lease.min(config.shutdown_timeout)
}

/// Returns the identity of a queue's elements: two queues with equal identities replace each other.
fn elements(spec: &QueueSpec) -> (Arc<str>, String) {
    (spec.redis.clone(), format!("{:?}", spec.source))
}
