//! Checks that look at several parts of the file at once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use redisson_codecs::{Codec, Coding, JavaTypes};

use super::queue::QueueDraft;
use super::retry::PolicyDraft;
use super::sink::SinkDraft;
use crate::tables::top;
use delaybridge_jobs::JobSettings;
use delaybridge_model::{MaxInFlight, ProcessLimits, RouteSpec, Servers};
use delaybridge_settings::keys::nearest;
use delaybridge_settings::reader::{Section, clip};
use delaybridge_settings::units::{show_duration, show_size};
use delaybridge_sink::{RedisCommand, RedisWrite, SinkRedis};
use delaybridge_source::SourceConfig;
use delaybridge_source::config::RESERVED_KEYS;
use delaybridge_source::job_pool::JobPoolSpec;

/// Longest time-out that `auto` chooses.
const AUTO_MAX: Duration = Duration::from_secs(30);

/// Gives each sink that leaves its time-out to the leases half of the shortest of them.
pub(super) fn timeouts(queues: &[QueueDraft<'_>], sinks: &mut [SinkDraft<'_>]) {
    for sink in sinks {
        let shortest = queues.iter().filter(|queue| queue.uses(&sink.name)).min_by_key(|queue| queue.spec.lease);
        let Some(known) = &mut sink.known else { continue };
        if known.auto_timeout.is_some() {
            let half = shortest.map_or(AUTO_MAX, |queue| queue.spec.lease / 2);
            Arc::make_mut(&mut known.spec).timeout = half.min(AUTO_MAX);
        }
        let spec = &known.spec;
        let title = known.kind.title;
        let least = spec.connector.least_timeout();
        if let (Some(queue), true) = (shortest, spec.timeout < least) {
            let shown = show_duration(least);
            let message = format!(
                "the lease ({}) is too short for {title}: half of it is the time-out of sink `{}`, which is {shown} at least",
                show_duration(queue.spec.lease),
                sink.name,
            );
            let help =
                format!("write `lease: {}` or more, or `timeout: {shown}` on the sink", show_duration(2 * least));
            queue.report.problem(&queue.lease_spot, message, help);
        }
        if let Some((message, help)) = spec.connector.against_timeout(spec.timeout) {
            sink.report.problem(&sink.spot, message, help);
        }
    }
}

/// Warns of queues that may hold more than the process.
pub(super) fn limits(queues: &[QueueDraft<'_>], limits: &ProcessLimits) {
    for queue in queues {
        let help = "the limit of the process is reached first; raise it under `limits:`";
        if let (MaxInFlight::Fixed(count), Some(spot)) = (queue.spec.max_in_flight, &queue.in_flight_spot)
            && count > limits.in_flight
        {
            let message = format!("max_in_flight ({count}) is more than limits.in_flight ({})", limits.in_flight);
            queue.report.warning(spot, message, help);
        }
        if let Some(spot) = &queue.in_flight_bytes_spot
            && queue.spec.max_in_flight_bytes > limits.in_flight_bytes
        {
            let own = show_size(queue.spec.max_in_flight_bytes);
            let all = show_size(limits.in_flight_bytes);
            let message = format!("max_in_flight_bytes ({own}) is more than limits.in_flight_bytes ({all})");
            queue.report.warning(spot, message, help);
        }
    }
}

/// Refuses two queues on the same keys, which would take each other's elements.
pub(super) fn names(queues: &[QueueDraft<'_>]) {
    let mut first: HashMap<(&str, String), &QueueDraft<'_>> = HashMap::new();
    for queue in queues.iter().filter(|queue| !queue.spec.source.name().is_empty()) {
        match first.entry((&queue.spec.redis, queue.spec.source.key_tag())) {
            Entry::Vacant(place) => {
                place.insert(queue);
            }
            Entry::Occupied(place) => {
                let other = &place.get().spec;
                let message = if other.source.name() == queue.spec.source.name() {
                    format!("queue `{}` has the same name", other.id)
                } else {
                    format!("queue `{}` has the same keys in Redis: NAME and {{NAME}} share them", other.id)
                };
                queue.report.problem(&queue.name_spot, message, "keep one of the two queues");
            }
        }
    }
}

/// Refuses a source under our own keys, and two prefixes over one queue: neither would know the claims, the pauses and the order of
/// the other.
pub(super) fn prefixes(queues: &[QueueDraft<'_>], servers: &Servers) {
    // Nothing is left to refuse, and ten thousand sources take their time to be made.
    if servers.iter().all(|(_, redis)| redis.servers().key_prefix.is_default()) {
        return;
    }
    let mut first: HashMap<String, Vec<&QueueDraft<'_>>> = HashMap::new();
    for queue in queues.iter().filter(|queue| !queue.spec.source.name().is_empty()) {
        let source = queue.spec.source.build();
        if source.is_ours() {
            continue;
        }
        let redis = servers.named(&queue.spec.redis);
        let prefix = &redis.servers().key_prefix;
        let keys = source.keys();
        let ours = keys.iter().filter_map(|key| std::str::from_utf8(key).ok()).find(|key| prefix.is_of(key));
        // Those of a queue of Redisson are not the user's to choose.
        let ours = ours.filter(|_| queue.spec.source.redisson().is_none());
        if let (Some(key), false) = (ours, prefix.is_default()) {
            let message = format!("`{key}` is among the daemon's own keys, which begin with `{prefix}`");
            queue.report.problem(&queue.name_spot, message, "choose another `redis.key_prefix`");
        }
        let others = first.entry(queue.spec.source.key_tag()).or_default();
        let same = |other: &&&QueueDraft<'_>| {
            let target = servers.named(&other.spec.redis);
            target.same_keys(redis) && target.servers().key_prefix != *prefix
        };
        if let Some(other) = others.iter().find(same) {
            let before = &servers.named(&other.spec.redis).servers().key_prefix;
            let message = format!("queue `{}` is the same queue with `key_prefix: '{before}'`", other.spec.id);
            let help = "two prefixes would break the order, the pauses and the ledger: keep one of the two queues";
            queue.report.problem(&queue.name_spot, message, help);
        }
        others.push(queue);
    }
}

/// Refuses a topic without the job queue or in another Redis, and gives each topic the job queue's settings.
pub(super) fn topics(queues: &mut [QueueDraft<'_>], jobs: Option<&JobSettings>, jobs_redis: Option<&str>) {
    for queue in queues {
        // Only its own Redis has the topic: in another one there would be nothing, for ever.
        if let (Some(spot), Some(jobs_redis)) = (&queue.redis_spot, jobs_redis)
            && queue.spec.source.jobs().is_some()
            && *queue.spec.redis != *jobs_redis
        {
            let message = format!(
                "queue `{}` reads its topic in Redis `{}`, and the job queue is in `{jobs_redis}`",
                queue.spec.id,
                clip(&queue.spec.redis)
            );
            queue.report.problem(spot, message, format!("write `redis: {jobs_redis}`"));
        }
        match jobs {
            Some(settings) => {
                if let SourceConfig::Jobs(topic) = Arc::make_mut(&mut queue.spec.source) {
                    topic.take_over(settings);
                }
            }
            None if queue.spec.source.jobs().is_some() => {
                let help = "write `jobs: {}` at the top of the file";
                queue.report.problem(&queue.name_spot, "a topic needs the job queue, and there is no `jobs`", help);
            }
            None => {}
        }
    }
}

/// Refuses a lease that may run out while a sink can still answer: its elements would be delivered twice.
pub(super) fn leases(queues: &[QueueDraft<'_>], sinks: &[SinkDraft<'_>]) {
    for queue in queues {
        let usable = queue.spec.lease.saturating_sub(queue.spec.lease_margin());
        let used = sinks.iter().filter(|sink| queue.uses(&sink.name)).filter_map(SinkDraft::spec);
        for sink in used.filter(|sink| sink.timeout >= usable) {
            let message = format!(
                "the lease ({}) less its margin of a fifth is not longer than the time-out of sink `{}` ({})",
                show_duration(queue.spec.lease),
                sink.name,
                show_duration(sink.timeout),
            );
            let enough = sink.timeout.as_secs().saturating_mul(3) / 2 + 1;
            let help = format!("write `lease: {enough}s`, or a shorter `timeout` on the sink");
            queue.report.problem(&queue.lease_spot, message, help);
        }
    }
}

/// Refuses `claim_ahead` where it has no effect, or where an unextended lease could end before the due time.
pub(super) fn claims_ahead(queues: &[QueueDraft<'_>], sinks: &[SinkDraft<'_>]) {
    for queue in queues {
        let ahead = queue.spec.claim_ahead;
        let lease = queue.spec.lease;
        if ahead > lease / 2 {
            let message = format!(
                "`claim_ahead` ({}) is more than half of the lease ({})",
                show_duration(ahead),
                show_duration(lease)
            );
            let help = format!("write `claim_ahead: {}` or less, or a longer lease", show_duration(lease / 2));
            queue.report.problem(&queue.ahead_spot, message, help);
        }
        let limited = sinks.iter().filter(|sink| queue.uses(&sink.name)).filter_map(SinkDraft::spec);
        if !ahead.is_zero() && (queue.spec.max_rate.is_some() || limited.clone().any(|sink| sink.max_rate.is_some())) {
            let help = "remove `claim_ahead`, or `max_rate` from the queue and its sinks";
            let message =
                "`claim_ahead` goes with no `max_rate`: claimed at that rate, the elements would be sent all at once";
            queue.report.problem(&queue.ahead_spot, message, help);
        }
        if !ahead.is_zero() && !queue.spec.source.consumes_due() {
            let help = "write `consume: [delayed]`, or remove `claim_ahead`";
            queue.report.problem(
                &queue.ahead_spot,
                "`claim_ahead` has no effect where only the ready list is consumed",
                help,
            );
        }
    }
}

/// Warns of leases that expire before a lost reply is noticed, which takes the command's time-out.
pub(super) fn slow_commands(queues: &[QueueDraft<'_>], servers: &Servers) {
    for queue in queues {
        let redis = servers.named(&queue.spec.redis).servers();
        if queue.spec.lease > redis.command_timeout.saturating_mul(2) {
            continue;
        }
        let message = format!(
            "the lease ({}) is not longer than twice redis.command_timeout ({})",
            show_duration(queue.spec.lease),
            show_duration(redis.command_timeout),
        );
        let help = "a lost reply is noticed so late that leases expire; shorten `redis.command_timeout`";
        queue.report.warning(&queue.lease_spot, message, help);
    }
}

/// Refuses queues in a cluster whose scripts name keys with different slots.
pub(super) fn slots(queues: &[QueueDraft<'_>], servers: &Servers) {
    let in_cluster = |queue: &&QueueDraft<'_>| servers.named(&queue.spec.redis).is_cluster();
    for queue in queues.iter().filter(in_cluster).filter(|queue| !queue.spec.source.name().is_empty()) {
        let source = &queue.spec.source;
        let apart = delaybridge_source::apart(source).map(|(one, other)| {
            let slots = format!("`{one}` and `{other}` have different hash slots");
            format!("a cluster may keep the keys of queue `{}` on different nodes: {slots}", queue.spec.id)
        });
        // Of a pool the keys of jobs have their ids in them, which are not known here.
        let apart = apart.or_else(|| source.job_pool().and_then(JobPoolSpec::why_not_in_cluster));
        let Some(message) = apart else { continue };
        let help = "write the same hash tag into all of them, as in `{orders}:delayed`; a name with one `{` needs a `}` behind it";
        queue.report.problem(&queue.name_spot, message, help);
    }
}

/// Refuses a time-out with which a claim counts as lost while it waits for that of the claim before, and then for its own.
pub(super) fn durable_claims(queues: &[QueueDraft<'_>], servers: &Servers) {
    for queue in queues {
        let (Some(need), Some(spot)) = (queue.spec.durability.as_deref(), &queue.durability_spot) else { continue };
        let redis = servers.named(&queue.spec.redis).servers();
        if need.timeout.saturating_mul(2) >= redis.command_timeout {
            let message = format!(
                "twice the time-out ({}) is not shorter than redis.command_timeout ({})",
                show_duration(need.timeout),
                show_duration(redis.command_timeout),
            );
            let help = "claims behind one that waits for replicas would count as lost; shorten it";
            queue.report.problem(spot, message, help);
        }
    }
}

/// Refuses queues in an unknown Redis, and sinks without a server of their own whose queues are in several.
pub(super) fn servers(queues: &mut [QueueDraft<'_>], sinks: &[SinkDraft<'_>], servers: &Servers) {
    let names: Vec<_> = servers.iter().map(|(name, _)| name.clone()).collect();
    let there_are = || names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    for queue in queues.iter_mut() {
        let redis = queue.spec.redis.clone();
        let report = queue.report;
        match &queue.redis_spot {
            Some(spot) if servers.only().is_some() && names != [redis.clone()] => {
                let message = "there is one Redis, and it has no name";
                report.problem(spot, message, "remove `redis` here, or name the Redis under `redis:` at the top");
            }
            Some(spot) if !names.contains(&redis) => {
                let message = format!("there is no Redis `{}`", clip(&redis));
                let help = match nearest(&redis, names.iter().map(|name| &**name)) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => format!("there are: {}", there_are()),
                };
                report.problem(spot, message, help);
            }
            None if servers.count() > 1 => {
                let message = format!("queue `{}` does not say in which Redis it is", queue.spec.id);
                report.problem(
                    &queue.name_spot,
                    message,
                    format!("write `redis: NAME` under `source`; there are: {}", there_are()),
                );
            }
            None => queue.spec.redis = names[0].clone(),
            Some(_) => {}
        }
    }
    for sink in sinks {
        if !matches!(sink.spec().and_then(|spec| spec.connector.redis()), Some(SinkRedis::OfTheQueues)) {
            continue;
        }
        let mut on: Vec<_> =
            queues.iter().filter(|queue| queue.uses(&sink.name)).map(|queue| &queue.spec.redis).collect();
        on.sort_unstable();
        on.dedup();
        if let [one, other, ..] = on[..] {
            let message =
                format!("sink `{}` has no server of its own, and its queues are in `{one}` and `{other}`", sink.name);
            sink.report.problem(&sink.spot, message, "write `url` on the sink, or one sink for each Redis");
        }
    }
}

/// Refuses destinations on the queues' Redis that are keys which a queue reads or keeps.
pub(super) fn destinations(queues: &[QueueDraft<'_>], sinks: &[SinkDraft<'_>], servers: &Servers) {
    // Whether a sink writes to the Redis that holds this queue, and the other holds the sink's.
    let writes_to = |name: &str, from: &QueueDraft<'_>, reader: &QueueDraft<'_>| {
        let spec = sinks.iter().find(|sink| sink.name == name).and_then(SinkDraft::spec);
        match spec.and_then(|spec| spec.connector.redis()) {
            Some(SinkRedis::OfTheQueues) => from.spec.redis == reader.spec.redis,
            Some(SinkRedis::Own(target)) => target.same_keys(servers.named(&reader.spec.redis)),
            None => false,
        }
    };
    let mut readers: HashMap<&str, Vec<&QueueDraft<'_>>> = HashMap::new();
    for queue in queues {
        readers.entry(queue.spec.source.name()).or_default().push(queue);
    }
    for queue in queues {
        for (route, target) in queue.routes() {
            let Some(RedisWrite { key, command, .. }) = route.target.redis_write() else { continue };
            let Some(key) = key.static_text() else { continue };
            let at_home = queues.iter().any(|reader| writes_to(&route.sink, queue, reader));
            let prefix = &servers.named(&queue.spec.redis).servers().key_prefix;
            if at_home && (prefix.is_of(key) || RESERVED_KEYS.iter().any(|reserved| key.starts_with(reserved))) {
                let help = "choose a key that begins otherwise";
                let message = format!("`{key}` is among the keys of delayed queues");
                queue.report.problem(target, message, help);
            }
            for reader in readers.get(key).into_iter().flatten().filter(|reader| writes_to(&route.sink, queue, reader))
            {
                if reader.spec.source.consumes_ready() {
                    let message =
                        format!("queue `{}` consumes the list `{key}`: elements would go in circles", reader.spec.id);
                    let help = "choose another key; where Java consumers read the list, write `consume: [delayed]`";
                    queue.report.problem(target, message, help);
                } else if reader.spec.source.redisson().is_none() {
                    let message = format!("`{key}` is the sorted set of queue `{}`", reader.spec.id);
                    queue.report.problem(target, message, "choose another key");
                } else if command == RedisCommand::Add {
                    let message =
                        format!("`{key}` is the ready list of queue `{}`, so it cannot be a stream", reader.spec.id);
                    queue.report.problem(target, message, "choose another key");
                }
            }
        }
    }
}

/// Warns of dead letters and records that go where the elements go: consumers would mistake them for elements.
pub(super) fn beside_elements(queues: &[QueueDraft<'_>]) {
    for queue in queues {
        let dead = queue.spec.dead_letter_to.as_deref().zip(queue.dead_target.as_ref());
        let dead = dead.map(|dead| ("dead letters", "dead_letter", dead));
        let records = queue.records().map(|records| ("records", "audit", records));
        for (what, key, (other, spot)) in dead.into_iter().chain(records) {
            let Some(place) = other.target.place() else { continue };
            let same = |route: &RouteSpec| route.sink == other.sink && route.target.place().as_ref() == Some(&place);
            if queue.spec.to.iter().any(same) {
                let message = format!("{what} of queue `{}` go where its elements go", queue.spec.id);
                queue.report.warning(spot, message, format!("name another place under `{key}:`"));
            }
        }
    }
}

/// Warns of classes that no queue's codec needs.
pub(super) fn classes(top: &Section<'_>, queues: &[QueueDraft<'_>]) {
    // Declared enums tell `java_types: strip` of the codecs of Jackson what a constant is.
    let reads = |coding: Coding| match coding.codec {
        Codec::Kryo5 | Codec::Kryo5Refs | Codec::Auto => true,
        Codec::Jackson | Codec::Cbor | Codec::Msgpack | Codec::Smile => coding.java_types == JavaTypes::Strip,
        _ => false,
    };
    if top.has(&top::CLASSES) && !queues.iter().any(|queue| reads(queue.spec.codec)) {
        let help = "write `codec: kryo5` on a queue, or remove `classes`";
        top.cx.report.warning(&top.spot(&top::CLASSES), "no queue has a codec that needs the classes", help);
    }
}

/// Warns of sinks and retry policies that no queue uses.
pub(super) fn unused(queues: &[QueueDraft<'_>], sinks: &[SinkDraft<'_>], policies: &[PolicyDraft<'_>]) {
    for sink in sinks.iter().filter(|sink| !queues.iter().any(|queue| queue.uses(&sink.name))) {
        sink.report.warning(
            &sink.spot,
            "no queue delivers to this sink",
            "name it under `to:` of a queue, or remove it",
        );
    }
    for policy in policies.iter().filter(|policy| policy.name != "default") {
        if let (Some((spot, report)), false) = (&policy.written, queues.iter().any(|queue| queue.policy == policy.name))
        {
            report.warning(spot, "no queue uses this retry policy", "name it under `retry:` of a queue, or remove it");
        }
    }
}
