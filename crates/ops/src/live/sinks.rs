//! The sinks: connected, logged in, and asked for what the routes name.

use super::super::acl;
use super::super::session::{first, redis};
use super::finding::{Health, LiveFinding, finding};
use super::rights::remedy;
use delaybridge_link::{Conn, Redis, missing_rights, whoami};
use delaybridge_model::{Config, RouteSpec};
use delaybridge_sink::{Fixed, SinkRedis, SinkSpec};

pub(super) async fn look(config: &Config, spec: &SinkSpec, source: &Redis, source_conn: Option<&Conn>) -> LiveFinding {
    let what = format!("sink {}", spec.name);
    let (own, conn) = match spec.connector.redis() {
        None => (None, None),
        Some(SinkRedis::OfTheQueues) => match source_conn {
            Some(conn) => (None, Some(conn.clone())),
            None => return finding(what, Health::Failed, "uses the Redis of the queues, which is not connected"),
        },
        Some(SinkRedis::Own(endpoint)) => {
            let own = redis(endpoint);
            match first(&own).await {
                Ok(conn) => (Some(own), Some(conn)),
                Err(error) => return finding(what, Health::Failed, error.to_string()),
            }
        }
    };
    let destinations = destinations(config, spec);
    let sink = spec.connect_to_check(source);
    let wanted: Vec<_> = destinations.iter().map(|fixed| fixed.destination.clone()).collect();
    let mut checked = sink.check(&wanted).await;
    if let (Ok(_), Some(lookup)) = (&checked, sink.lookup()) {
        // A look that fails makes duplicates. Without this check the first of them would be the first sign.
        let looking: Vec<_> = looking(config, spec).into_iter().map(|fixed| fixed.destination).collect();
        if let (false, Err(failure)) = (looking.is_empty(), lookup.check(&looking).await) {
            checked = Err(failure);
        }
    }
    let drawbacks = match &checked {
        Ok(_) => sink.drawbacks(&wanted).await,
        Err(_) => Vec::new(),
    };
    sink.close().await;
    let place = place(spec, conn.as_ref());
    let undeclared = match checked {
        Ok(undeclared) => undeclared,
        Err(failure) => return finding(what, Health::Failed, format!("{place}: {failure}")),
    };
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
            finding(what, Health::Failed, remedy(&user, missing))
        }
        Err(error) => finding(what, Health::Failed, error.to_string()),
        Ok(_) if !drawbacks.is_empty() => finding(what, Health::Warning, format!("{place}: {}", drawbacks.join("; "))),
        Ok(_) => finding(what, Health::Well, format!("{place}{}", asked(spec, &destinations, &undeclared))),
    };
    // Only now: the connection ends with its link.
    drop(own);
    found
}

/// Returns the kind, and where it is.
fn place(spec: &SinkSpec, conn: Option<&Conn>) -> String {
    let address = conn.map_or_else(|| spec.connector.address(), |conn| conn.address().to_owned());
    format!("{} {address}", spec.kind()).trim_end().to_owned()
}

/// Returns the destinations that the sink was asked for, and those that the daemon would make; of the rest nothing can
/// be known before there is an element.
fn asked(spec: &SinkSpec, destinations: &[Fixed], undeclared: &[String]) -> String {
    let found: Vec<_> = destinations.iter().map(|fixed| &*fixed.name).collect();
    let found: Vec<_> = found.into_iter().filter(|name| !undeclared.iter().any(|other| other == name)).collect();
    let mut text = match (destinations, found.is_empty()) {
        _ if !spec.connector.looks_for_destinations() => String::new(),
        ([], _) => "; connected and logged in, every destination is a template".to_owned(),
        (_, true) => String::new(),
        (_, false) => format!("; found {}", found.join(", ")),
    };
    if !undeclared.is_empty() {
        text.push_str(&format!("; would declare {}", undeclared.join(", ")));
    }
    text
}

/// Destinations in the sink that are the same for every element, each once; those of dead letters too.
fn destinations(config: &Config, spec: &SinkSpec) -> Vec<Fixed> {
    fixed(config.queues.iter().flat_map(|queue| queue.routes()).filter(|route| route.sink == spec.name))
}

/// Returns the sinks that are asked for what they have already.
fn looking(config: &Config, spec: &SinkSpec) -> Vec<Fixed> {
    let routes = config.queues.iter().flat_map(|queue| queue.routes());
    fixed(routes.filter(|route| route.sink == spec.name && route.looks()))
}

fn fixed<'a>(routes: impl Iterator<Item = &'a RouteSpec>) -> Vec<Fixed> {
    let mut all = Vec::new();
    for fixed in routes.filter_map(|route| route.target.fixed()) {
        if !all.contains(&fixed) {
            all.push(fixed);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_config::load_str;

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
            destinations(&config, &config.sinks[sink]).into_iter().map(|fixed| fixed.name).collect()
        };
        assert_eq!(asked(0), ["list all", "list dead"]);
        assert_eq!(asked(1), ["stream s"]);
    }

    #[test]
    fn the_address_of_messages_without_one_is_asked_for() {
        let text = "
redis: { url: 'redis://h' }
sinks: { k: { kafka: { brokers: [k] } }, r: { amqp: { url: 'amqp://r' } } }
inputs:
  a: { kafka: { brokers: [k], topics: [in] }, topic: a, to: { sink: k, topic: events } }
  b: { kafka: { brokers: [k], topics: [in] }, topic: b, to: { sink: k, topic: '${input.header.kind}' } }
  c: { amqp: { url: 'amqp://r', queue: in }, topic: c, to: { sink: r, routing_key: orders } }
  d: { amqp: { url: 'amqp://r', queue: in }, topic: d, to: { sink: r, exchange: due } }
  e: { amqp: { url: 'amqp://r', queue: in }, topic: e, to: { sink: r } }
";
        let config = load_str(text, "c.yaml", &|_| None).unwrap_or_else(|errors| panic!("{errors}")).config;
        let asked = |sink: usize| -> Vec<String> {
            destinations(&config, &config.sinks[sink]).into_iter().map(|fixed| fixed.name).collect()
        };
        assert_eq!(
            (asked(0), asked(1)),
            (vec!["topic events".to_owned()], vec!["queue orders".to_owned(), "exchange due".to_owned()])
        );
    }

    #[test]
    fn destinations_that_are_asked_for_what_they_have_are_known() {
        let text = "
redis: { url: 'redis://h' }
sinks: { k: { kafka: { brokers: [k] } } }
queues:
  a: { source: { redisson: { name: a } }, to: [{ sink: k, topic: t, duplicates: look }] }
  b: { source: { redisson: { name: b } }, to: [{ sink: k, topic: u }], dead_letter: { sink: k, topic: dead } }
";
        let config = load_str(text, "c.yaml", &|_| None).unwrap_or_else(|errors| panic!("{errors}")).config;
        let looking: Vec<_> = looking(&config, &config.sinks[0]).into_iter().map(|fixed| fixed.name).collect();
        assert_eq!(looking, ["topic t"]);
    }

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
        let env = |_: &str| Some("geheim".into());
        let config = load_str(text, "c.yaml", &env).unwrap_or_else(|errors| panic!("{errors}")).config;
        let shown = |sink: usize| {
            let spec = &config.sinks[sink];
            place(spec, None) + &asked(spec, &destinations(&config, spec), &[])
        };
        assert_eq!(shown(0), "kafka k0:9092, k1:1; found topic t, topic dead");
        assert_eq!(shown(1), "amqp r:5672, vhost shop; found exchange x, queue q");
        assert_eq!(shown(2), "amqp s:5672, vhost /; connected and logged in, every destination is a template");
        let spec = &config.sinks[1];
        let undeclared = ["exchange x".to_owned(), "binding b".to_owned()];
        let text = asked(spec, &destinations(&config, spec), &undeclared);
        assert_eq!(text, "; found queue q; would declare exchange x, binding b");
    }
}
