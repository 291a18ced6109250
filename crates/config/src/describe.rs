//! The settings in effect, defaults filled in, for `check`. Shows no secret: passwords are "hidden" or a file's name.

use std::net::SocketAddr;
use std::num::NonZeroU64;

use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::Xxh3Default;

use crate::words::JavaTypeNames;
use delaybridge_model::*;
use delaybridge_settings::units::{show_duration, show_size};
use delaybridge_settings::words::Words as _;
use delaybridge_sink::SinkSpec;

/// Returns the settings in effect, in the shape and the units of the YAML.
pub fn describe_json(config: &Config) -> Value {
    let mut all = shared(config);
    all["sinks"] = config.sinks.iter().map(|spec| (spec.name.to_string(), sink(spec))).collect::<Map<_, _>>().into();
    let several = config.redis.count() > 1;
    all["queues"] =
        config.queues.iter().map(|spec| (spec.id.to_string(), queue(spec, several))).collect::<Map<_, _>>().into();
    all
}

/// Returns the settings that belong to no queue and no sink, with the places of those.
fn shared(config: &Config) -> Value {
    let mut all = json!({
        "http": config.http_listen.map_or(json!("none"), |listen| http(listen, config.admin.as_ref())),
        "shutdown_timeout": show_duration(config.shutdown_timeout),
        "reload": config.reload,
        "limits": config.limits,
        "redis": servers(&config.redis),
        "sinks": {},
        "queues": {},
    });
    if let (Some(otlp), Some(fields)) = (&config.tracing, all.as_object_mut()) {
        fields.insert("tracing".to_owned(), json!({ "otlp": otlp }));
    }
    if let (Some(jobs), Some(fields)) = (&config.jobs, all.as_object_mut()) {
        let mut shown = delaybridge_settings::Settings::shown(jobs);
        if config.redis.count() > 1 {
            shown.insert("redis".to_owned(), json!(&*config.jobs_redis));
        }
        shown.extend(delaybridge_jobs_http::config::shown(&config.api));
        fields.insert("jobs".to_owned(), shown.into());
    }
    if let (false, Some(fields)) = (config.inputs.is_empty(), all.as_object_mut()) {
        let inputs = config.inputs.iter().map(|spec| (spec.name.to_string(), input(spec)));
        fields.insert("inputs".to_owned(), inputs.collect::<Map<_, _>>().into());
    }
    all
}

/// Returns an input under its kind; its queue is among the queues.
fn input(spec: &InputSpec) -> Value {
    let mut fields = Map::from_iter([
        (spec.connector.kind().to_owned(), spec.connector.settings().into()),
        ("topic".to_owned(), json!(spec.topic.as_str())),
    ]);
    fields.extend(delaybridge_settings::Settings::shown(&spec.rules));
    fields.into()
}

/// Returns the only Redis, or all of them by their names.
fn servers(servers: &Servers) -> Map<String, Value> {
    match servers.only() {
        Some(target) => target.settings(),
        None => servers.iter().map(|(name, target)| (name.to_string(), target.settings().into())).collect(),
    }
}

fn http(listen: SocketAddr, admin: Option<&AdminSpec>) -> Value {
    let mut shown = json!({ "listen": listen.to_string() });
    if let Some(admin) = admin {
        shown["admin"] = json!(admin);
    }
    shown
}

/// Returns a hash of the settings in effect, without secrets. Configurations with equal settings have equal hashes.
pub fn summary(config: &Config) -> String {
    let mut hash = Xxh3Default::new();
    let mut add = |name: &str, settings: Value| hash.update(format!("{name} {settings}\n").as_bytes());
    add("", shared(config));
    // One after the other: ten thousand queues as one value take a hundred megabytes.
    config.sinks.iter().for_each(|spec| add(&spec.name, sink(spec)));
    let several = config.redis.count() > 1;
    config.queues.iter().for_each(|spec| add(&spec.id, queue(spec, several)));
    format!("{:016x}", hash.digest())
}

/// Returns the settings in effect as YAML-like text, for a person.
pub fn describe(config: &Config) -> String {
    let mut text = String::new();
    lines(&mut text, &describe_json(config), 0);
    text
}

fn lines(text: &mut String, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    let Some(fields) = value.as_object() else { return };
    for (name, value) in fields {
        match value {
            Value::Object(fields) if fields.is_empty() => text.push_str(&format!("{indent}{name}: {{}}\n")),
            Value::Object(_) => {
                text.push_str(&format!("{indent}{name}:\n"));
                lines(text, value, depth + 1);
            }
            Value::Array(items) if items.iter().all(Value::is_object) => {
                text.push_str(&format!("{indent}{name}:\n"));
                for item in items {
                    let mut block = String::new();
                    lines(&mut block, item, depth + 2);
                    // The first line of an item carries the dash.
                    let dash = format!("{indent}  - ");
                    text.push_str(&block.replacen(&"  ".repeat(depth + 2), &dash, 1));
                }
            }
            Value::String(word) => text.push_str(&format!("{indent}{name}: {word}\n")),
            Value::Array(items) => {
                let items: Vec<_> = items.iter().filter_map(Value::as_str).collect();
                text.push_str(&format!("{indent}{name}: [{}]\n", items.join(", ")));
            }
            other => text.push_str(&format!("{indent}{name}: {other}\n")),
        }
    }
}

/// Returns an object without the fields that have no value.
fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect::<Map<_, _>>().into()
}

/// Returns the settings of one queue in effect, in the shape and the units of the YAML.
pub fn describe_queue(config: &Config, spec: &QueueSpec) -> Value {
    queue(spec, config.redis.count() > 1)
}

fn queue(spec: &QueueSpec, named: bool) -> Value {
    let coding = spec.codec;
    let first = object([
        ("mode", Some(spec.mode.as_str().into())),
        ("source", Some(source(spec, named))),
        ("codec", Some(coding.as_str().into())),
        ("java_types", coding.codec.has_java_types().then(|| JavaTypeNames::text(coding.java_types).into())),
        ("json_in_text", coding.has_texts().then(|| coding.json_in_text.into())),
        ("max_decoded_size", coding.uses_max_decoded_size().then(|| show_size(coding.max_decoded_size as u64).into())),
        ("durability", spec.durability.as_deref().map(|need| json!(need))),
    ]);
    let rest = json!({
        "on_decode_error": spec.on_decode_error,
        "on_opaque": spec.on_opaque,
        "on_absurd_due": spec.on_absurd_due,
        "lease": show_duration(spec.lease),
        "claim_ahead": show_duration(spec.claim_ahead),
        "max_in_flight": match spec.max_in_flight {
            MaxInFlight::Auto => json!("auto"),
            MaxInFlight::Fixed(count) => json!(count),
        },
        "max_in_flight_bytes": show_size(spec.max_in_flight_bytes),
        "order": spec.order.as_ref().map_or(Order::None.as_str(), |order| order.as_str()),
        "max_rate": rate(spec.max_rate.as_deref().copied()),
        "max_lateness": spec.max_lateness.map_or_else(none, show_duration),
        "on_expired": spec.on_expired,
        "unroutable_after": match (spec.unroutable.action, spec.unroutable.after) {
            (OnUnroutable::Hold, _) => None,
            (OnUnroutable::DeadLetter, None) => Some("never".to_owned()),
            (OnUnroutable::DeadLetter, Some(after)) => Some(show_duration(after)),
        },
        "on_unroutable": spec.unroutable.action,
        "to": spec.to.iter().map(route).collect::<Vec<_>>(),
        "retry": *spec.retry,
        "dead_letter": dead_letter(spec),
    });
    let order_key = match spec.order.as_deref() {
        Some(Ordered::Key(Some(template))) => Some(template.source().into()),
        _ => None,
    };
    let skips = spec.to.iter().all(|route| route.when().is_some()) && !spec.to.is_empty();
    let on_skipped = skips.then(|| json!(spec.on_skipped));
    let all = [
        first,
        rest,
        object([("order_key", order_key), ("on_skipped", on_skipped), ("audit", spec.audit.as_deref().map(audit))]),
    ]
    .into_iter()
    .filter_map(|part| match part {
        Value::Object(fields) => Some(fields),
        _ => None,
    });
    all.flatten().collect::<Map<_, _>>().into()
}

/// Returns the source under its kind; with the name of its Redis where there are several.
fn source(spec: &QueueSpec, named: bool) -> Value {
    let mut fields = spec.source.settings(matches!(spec.mode, Mode::Rescue { .. }));
    if named {
        fields.insert("redis".to_owned(), json!(&*spec.redis));
    }
    fields.into()
}

fn dead_letter(spec: &QueueSpec) -> Value {
    let mut fields = spec.dead_letter_to.as_deref().map(target).unwrap_or_default();
    // `stream` is the one that the queue keeps; a sink's own is named on the sink.
    if let Some(stream) = fields.shift_remove("stream") {
        fields.insert("sink_stream".to_owned(), stream);
        fields.shift_remove("max_len");
    }
    fields.insert("stream".to_owned(), json!({ "max_len": count(spec.dead_letter_max_len.map(NonZeroU64::get)) }));
    fields.into()
}

fn audit(spec: &AuditSpec) -> Value {
    let mut fields = target(&spec.route);
    fields.insert("on".to_owned(), json!(spec.on));
    fields.into()
}

fn route(route: &RouteSpec) -> Value {
    let mut fields = target(route);
    if let Some(when) = route.when() {
        fields.insert("when".to_owned(), json!(when.source()));
    }
    if route.looks() {
        fields.insert("duplicates".to_owned(), json!(Duplicates::Look));
    }
    let MessageSpec { headers, envelope } = &route.message;
    if !headers.is_empty() {
        let headers = headers.iter().map(|(name, template)| (name.to_string(), json!(template)));
        fields.insert("headers".to_owned(), headers.collect::<Map<_, _>>().into());
    }
    if let Some(HeaderFilter { keep, drop }) = route.header_filter() {
        let shown = [("keep", keep.as_ref()), ("drop", (!drop.is_empty()).then_some(drop))];
        let shown = shown.into_iter().filter_map(|(key, names)| Some((key.to_owned(), json!(names?))));
        fields.insert("headers_from_message".to_owned(), shown.collect::<Map<_, _>>().into());
    }
    fields.insert("envelope".to_owned(), json!(envelope.as_str()));
    if let Envelope::CloudEvents(event) = envelope {
        fields.insert("cloudevents".to_owned(), json!(event));
    }
    fields.into()
}

/// Returns the sink and the place in it.
fn target(route: &RouteSpec) -> Map<String, Value> {
    std::iter::once(("sink".to_owned(), json!(&*route.sink))).chain(route.target.keys()).collect()
}

/// Returns a sink under its kind. The settings of one sink in effect, in the shape and the units of the YAML.
pub fn describe_sink(spec: &SinkSpec) -> Value {
    sink(spec)
}

fn sink(spec: &SinkSpec) -> Value {
    let mut fields = spec.connector.settings();
    fields.insert("timeout".to_owned(), json!(show_duration(spec.timeout)));
    fields.insert("max_rate".to_owned(), rate(spec.max_rate));
    json!({ spec.kind(): fields })
}

fn none() -> String {
    "none".to_owned()
}

fn count(count: Option<u64>) -> Value {
    count.map_or(json!("none"), |count| json!(count))
}

fn rate(per_second: Option<f64>) -> Value {
    json!(per_second.map_or_else(none, |rate| format!("{rate}/s")))
}
