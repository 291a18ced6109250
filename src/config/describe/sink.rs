//! Sinks and the servers behind them.

use serde_json::{Map, Value, json};

use super::{object, rate};
use crate::config::build::is_secret;
use crate::config::model::*;
use crate::config::units::{show_duration, show_size};

/// A Redis server.
pub(super) fn endpoint(endpoint: &RedisEndpoint) -> Value {
    let scheme = if endpoint.tls.is_some() { "rediss" } else { "redis" };
    let (password, password_file) = secret(endpoint.password.as_ref());
    object([
        ("url", Some(json!(format!("{scheme}://{}", endpoint.address())))),
        ("username", endpoint.username.as_ref().map(|name| json!(name))),
        ("password", password),
        ("password_file", password_file),
        ("tls", endpoint.tls.as_ref().map(tls)),
        ("connect_timeout", Some(json!(show_duration(endpoint.connect_timeout)))),
        ("command_timeout", Some(json!(show_duration(endpoint.command_timeout)))),
    ])
}

/// A password: hidden, or the file that it is in.
fn secret(secret: Option<&Secret>) -> (Option<Value>, Option<Value>) {
    match secret {
        None => (None, None),
        Some(Secret::Literal(_)) => (Some(json!("(hidden)")), None),
        Some(Secret::File(path)) => (None, Some(json!(path.display().to_string()))),
    }
}

fn tls(tls: &TlsFiles) -> Value {
    let path = |path: &std::path::PathBuf| json!(path.display().to_string());
    object([
        ("ca_file", Some(tls.ca_file.as_ref().map_or(json!("(the system's)"), path))),
        ("cert_file", tls.client.as_ref().map(|(certificate, _)| path(certificate))),
        ("key_file", tls.client.as_ref().map(|(_, key)| path(key))),
    ])
}

fn kafka(spec: &KafkaSpec) -> Value {
    let sasl = spec.sasl.as_ref().map(|login| {
        let (password, password_file) = secret(Some(&login.password));
        object([
            ("mechanism", Some(json!(login.mechanism.as_str()))),
            ("username", Some(json!(login.username))),
            ("password", password),
            ("password_file", password_file),
        ])
    });
    let shown = |(name, value): &(String, String)| {
        let value = if is_secret(name) { "(set)" } else { value };
        (name.clone(), json!(value))
    };
    let properties = spec.properties.iter().map(shown).collect::<Map<_, _>>();
    object([
        ("brokers", Some(json!(spec.brokers))),
        ("client_id", Some(json!(spec.client_id))),
        ("tls", spec.tls.as_ref().map(tls)),
        ("sasl", sasl),
        ("compression", Some(json!(spec.compression.as_str()))),
        ("linger", Some(json!(show_duration(spec.linger)))),
        ("batch_size", Some(json!(show_size(spec.batch_bytes.into())))),
        ("max_message_size", Some(json!(show_size(spec.max_message_bytes.into())))),
        ("properties", (!properties.is_empty()).then(|| properties.into())),
    ])
}

fn amqp(spec: &AmqpSpec) -> Value {
    let scheme = if spec.tls.is_some() { "amqps" } else { "amqp" };
    let (login, username, password) = match &spec.login {
        AmqpLogin::Plain { username, password } => ("plain", Some(json!(username)), Some(password)),
        AmqpLogin::External => ("external", None, None),
    };
    let (password, password_file) = secret(password);
    let urls: Vec<_> = spec.addresses().into_iter().map(|address| format!("{scheme}://{address}")).collect();
    object([
        ("urls", Some(json!(urls))),
        ("vhost", Some(json!(spec.vhost))),
        ("login", Some(json!(login))),
        ("username", username),
        ("password", password),
        ("password_file", password_file),
        ("tls", spec.tls.as_ref().map(tls)),
        ("connect_timeout", Some(json!(show_duration(spec.connect_timeout)))),
        ("heartbeat", Some(json!(show_duration(spec.heartbeat)))),
        ("max_unconfirmed", Some(json!(spec.window))),
        ("mandatory", Some(json!(spec.mandatory))),
        ("persistent", Some(json!(spec.persistent))),
        ("max_message_size", Some(json!(show_size(spec.max_message_bytes)))),
        ("topology", Some(json!(if spec.declare.is_some() { "declare" } else { "expect" }))),
        ("declare", spec.declare.as_ref().map(declare)),
    ])
}

fn declare(topology: &AmqpTopology) -> Value {
    let queue = topology.queue.as_ref().map(|queue| {
        let argument = |(name, value): &(String, AmqpArgument)| {
            let value = match value {
                AmqpArgument::Flag(flag) => json!(flag),
                AmqpArgument::Number(number) => json!(number),
                AmqpArgument::Text(text) => json!(text),
            };
            (name.clone(), value)
        };
        let arguments = queue.arguments.iter().map(argument).collect::<Map<_, _>>();
        object([
            ("name", Some(json!(queue.name))),
            ("arguments", (!arguments.is_empty()).then(|| arguments.into())),
            ("binding_key", (!topology.exchange.is_empty()).then(|| json!(queue.binding_key))),
        ])
    });
    let exchange = (!topology.exchange.is_empty()).then_some(topology);
    object([
        ("exchange", exchange.map(|topology| json!(topology.exchange))),
        ("type", exchange.map(|topology| json!(topology.exchange_kind))),
        ("durable", Some(json!(topology.durable))),
        ("queue", queue),
    ])
}

/// A sink under its kind.
pub(super) fn sink(spec: &SinkSpec) -> Value {
    let (kind, mut fields) = match &spec.kind {
        SinkKind::Redis { endpoint: None } => ("redis", json!({ "url": "(the Redis that holds the queues)" })),
        SinkKind::Redis { endpoint: Some(own) } => ("redis", endpoint(own)),
        SinkKind::Kafka(cluster) => ("kafka", kafka(cluster)),
        SinkKind::Amqp(cluster) => ("amqp", amqp(cluster)),
        SinkKind::Stdout => ("stdout", json!({})),
    };
    fields["timeout"] = json!(show_duration(spec.timeout));
    fields["max_rate"] = rate(spec.max_rate);
    json!({ kind: fields })
}
