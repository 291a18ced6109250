//! The sinks: connected, logged in, and asked for what the routes name.

use super::super::acl;
use super::super::session::{first, link};
use super::{Finding, State, finding, mending};
use crate::config::{Config, RouteSpec, SinkKind, SinkSpec, TargetSpec};
use crate::link::{Conn, Link, missing_rights, whoami};
use crate::message::Destination;
use crate::sink;

/// Looks at one sink.
pub(super) async fn look(config: &Config, spec: &SinkSpec, source: &Link, source_conn: Option<&Conn>) -> Finding {
    let what = format!("sink {}", spec.name);
    let (own, conn) = match &spec.kind {
        SinkKind::Stdout | SinkKind::Kafka(_) | SinkKind::Amqp(_) => (None, None),
        SinkKind::Redis { endpoint: None } => match source_conn {
            Some(conn) => (None, Some(conn.clone())),
            None => return finding(what, State::Failed, "uses the Redis of the queues, which is not connected"),
        },
        SinkKind::Redis { endpoint: Some(endpoint) } => {
            let own = link(endpoint);
            match first(&own).await {
                Ok(conn) => (Some(own), Some(conn)),
                Err(error) => return finding(what, State::Failed, error.to_string()),
            }
        }
    };
    let destinations = destinations(config, spec);
    let sink = sink::build(spec, source);
    let checked = sink.check(&destinations).await;
    sink.close().await;
    let place = place(spec, conn.as_ref());
    if let Err(failure) = checked {
        return finding(what, State::Failed, format!("{place}: {failure}"));
    }
    let missing = match &conn {
        Some(conn) => missing_rights(conn, &acl::of_sink(config, &spec.name)).await,
        None => Ok(None),
    };
    let found = match missing {
        Ok(Some(missing)) if !missing.is_empty() => {
            let user = match &conn {
                Some(conn) => whoami(conn).await.unwrap_or_default(),
                None => String::new(),
            };
            finding(what, State::Failed, mending(&user, missing))
        }
        Err(error) => finding(what, State::Failed, error.to_string()),
        Ok(_) => finding(what, State::Well, format!("{place}{}", asked(spec, &destinations))),
    };
    // Only now: the connection ends with its link.
    drop(own);
    found
}

/// The kind, and where it is.
fn place(spec: &SinkSpec, conn: Option<&Conn>) -> String {
    match (&spec.kind, conn) {
        (SinkKind::Kafka(kafka), _) => format!("kafka {}", kafka.brokers.join(", ")),
        (SinkKind::Amqp(amqp), _) => format!("amqp {}, vhost {}", amqp.addresses().join(", "), amqp.vhost),
        (kind, Some(conn)) => format!("{} {}", kind.as_str(), conn.address()),
        (kind, None) => kind.as_str().to_owned(),
    }
}

/// What the sink was asked for; of the rest nothing can be known before there is an element.
fn asked(spec: &SinkSpec, destinations: &[Destination]) -> String {
    match spec.kind {
        SinkKind::Redis { .. } | SinkKind::Stdout => String::new(),
        SinkKind::Kafka(_) | SinkKind::Amqp(_) if destinations.is_empty() => {
            "; connected and logged in, every destination is a template".to_owned()
        }
        SinkKind::Kafka(_) | SinkKind::Amqp(_) => {
            let name = |destination: &Destination| match destination {
                Destination::AmqpExchange { exchange, routing_key, .. } if exchange.is_empty() => {
                    format!("queue {routing_key}")
                }
                Destination::AmqpExchange { exchange, .. } => format!("exchange {exchange}"),
                other => other.to_string(),
            };
            format!("; found {}", destinations.iter().map(name).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Destinations in the sink that are the same for every element, each once; those of dead letters too.
fn destinations(config: &Config, spec: &SinkSpec) -> Vec<Destination> {
    let routes = config.queues.iter().flat_map(|queue| queue.to.iter().chain(&queue.dead_letter_to));
    let mut all = Vec::new();
    for destination in routes.filter(|route| route.sink == spec.name).filter_map(fixed) {
        if !all.contains(&destination) {
            all.push(destination);
        }
    }
    all
}

fn fixed(route: &RouteSpec) -> Option<Destination> {
    Some(match &route.target {
        TargetSpec::RedisList { key, push, .. } => {
            Destination::RedisList { key: key.static_bytes()?.clone(), push: *push }
        }
        TargetSpec::RedisStream { key, max_len } => {
            Destination::RedisStream { key: key.static_bytes()?.clone(), max_len: *max_len }
        }
        // What tells records of one topic, or messages of one exchange and key, apart is not asked for.
        TargetSpec::KafkaTopic { topic, key: _ } => {
            Destination::KafkaTopic { topic: topic.static_shared()?.clone(), key: None }
        }
        TargetSpec::AmqpExchange { exchange, routing_key, properties: _ } => {
            let exchange = exchange.static_shared()?.clone();
            // Whether an exchange is there does not depend on the routing key; the default exchange always is.
            let routing_key = match routing_key.static_shared() {
                Some(routing_key) if exchange.is_empty() => routing_key.clone(),
                None if exchange.is_empty() => return None,
                _ => "".into(),
            };
            Destination::AmqpExchange { exchange, routing_key, properties: Vec::new() }
        }
        TargetSpec::Stdout => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load_str;

    #[test]
    fn what_is_the_same_for_every_element_is_asked_for_once() {
        let text = "
redis: { url: 'redis://h' }
sinks: { out: { redis: { list: all } }, own: { redis: { url: 'redis://o:1', stream: s } } }
queues:
  a: { source: { redisson: { name: a } }, to: [{ sink: out }, { sink: own, stream: 's${id}' }], dead_letter: { sink: own } }
  b: { source: { redisson: { name: b } }, to: [{ sink: out }], dead_letter: { sink: out, list: dead } }
";
        let config = load_str(text, "c.yaml", &|_| None).unwrap_or_else(|errors| panic!("{errors}")).config;
        let asked = |sink: usize| -> Vec<String> {
            destinations(&config, &config.sinks[sink]).iter().map(ToString::to_string).collect()
        };
        assert_eq!(asked(0), ["list all", "list dead"]);
        assert_eq!(asked(1), ["stream s"]);
    }

    #[cfg(all(feature = "kafka", feature = "amqp"))]
    #[test]
    fn a_broker_is_named_with_what_it_was_asked_for() {
        let text = "
redis: { url: 'redis://h' }
sinks:
  k: { kafka: { brokers: [k0, 'k1:1'], topic: t, key: '${id}' } }
  r: { amqp: { url: 'amqp://u:${P}@r/shop', exchange: x, routing_key: '${id}' } }
  s: { amqp: { url: 'amqp://u:${P}@s', routing_key: '${id}' } }
queues:
  a: { source: { redisson: { name: a } }, to: [{ sink: k }, { sink: r }], dead_letter: { sink: k, topic: dead } }
  b: { source: { redisson: { name: b } }, to: [{ sink: s }], dead_letter: { sink: r, exchange: '', routing_key: q } }
";
        let env = |_: &str| Some("geheim".to_owned());
        let config = load_str(text, "c.yaml", &env).unwrap_or_else(|errors| panic!("{errors}")).config;
        let shown = |sink: usize| {
            let spec = &config.sinks[sink];
            place(spec, None) + &asked(spec, &destinations(&config, spec))
        };
        assert_eq!(shown(0), "kafka k0:9092, k1:1; found topic t, topic dead");
        assert_eq!(shown(1), "amqp r:5672, vhost shop; found exchange x, queue q");
        assert_eq!(shown(2), "amqp s:5672, vhost /; connected and logged in, every destination is a template");
    }
}
