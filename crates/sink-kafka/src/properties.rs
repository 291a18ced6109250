//! `properties` of a Kafka sink: settings of librdkafka that go through as they are, and those that must not.
//!
//! Only harmful names, and names with a key of their own, are here. librdkafka checks the others: it
//! refuses names and values of its own accord when the sink is made or checked.

use serde_json::{Map, Value};

use delaybridge_settings::keys::Key;
use delaybridge_settings::reader::{Section, clip};

#[derive(Clone, Copy)]
enum RefusedProperty {
    /// A property with a key of its own, which is named here.
    Own(&'static str),
    /// A property that would weaken delivery, or break something else: the reason, and the advice.
    Harm(&'static str, &'static str),
}

use RefusedProperty::{Harm, Own};

const IDEMPOTENCE: RefusedProperty = Harm(
    "elements would be lost, or written twice, while the brokers change leaders",
    "remove it: idempotent delivery to all in-sync replicas is always on",
);
const RETRIES: RefusedProperty = Harm(
    "librdkafka would give up early, or send again out of order",
    "remove it: records are sent again until `timeout`",
);
const TIMEOUT: RefusedProperty =
    Harm("a record must have its verdict before the element's lease ends", "write `timeout` on the sink");
const REPORTS: RefusedProperty =
    Harm("an element is settled by its delivery report", "remove it: every record is reported");
const TRANSACTIONS: RefusedProperty = Harm("transactions are not available in this version", "remove it");
const CODE: RefusedProperty = Harm("it loads code into the daemon", "remove it");
const CONSUMER: RefusedProperty = Harm("it is a setting of consumers, without effect here", "remove it");
const MECHANISM: RefusedProperty =
    Harm("the mechanism that it belongs to is not available in this version", "use PLAIN or SCRAM under `sasl:`");

/// Refused names; one that ends in `*` covers all names with this prefix.
const REFUSED: &[(&str, RefusedProperty)] = &[
    ("bootstrap.servers", Own("brokers")),
    ("metadata.broker.list", Own("brokers")),
    ("client.id", Own("client_id")),
    ("security.protocol", Own("tls")),
    ("ssl.ca.location", Own("tls.ca_file")),
    ("ssl.ca.pem", Own("tls.ca_file")),
    ("ssl.certificate.location", Own("tls.cert_file")),
    ("ssl.certificate.pem", Own("tls.cert_file")),
    ("ssl.key.location", Own("tls.key_file")),
    ("ssl.key.pem", Own("tls.key_file")),
    ("sasl.mechanism", Own("sasl.mechanism")),
    ("sasl.mechanisms", Own("sasl.mechanism")),
    ("sasl.username", Own("sasl.username")),
    ("sasl.password", Own("sasl.password_file")),
    ("compression.codec", Own("compression")),
    ("compression.type", Own("compression")),
    ("linger.ms", Own("linger")),
    ("queue.buffering.max.ms", Own("linger")),
    ("batch.size", Own("batch_size")),
    ("message.max.bytes", Own("max_message_size")),
    ("delivery.timeout.ms", TIMEOUT),
    ("message.timeout.ms", TIMEOUT),
    ("enable.idempotence", IDEMPOTENCE),
    ("acks", IDEMPOTENCE),
    ("request.required.acks", IDEMPOTENCE),
    ("max.in.flight", IDEMPOTENCE),
    ("max.in.flight.requests.per.connection", IDEMPOTENCE),
    ("retries", RETRIES),
    ("message.send.max.retries", RETRIES),
    ("queuing.strategy", RETRIES),
    ("msg_order_cmp", RETRIES),
    ("enable.gapless.guarantee", Harm("one failed record would end the whole producer", "remove it")),
    ("transactional.id", TRANSACTIONS),
    ("transaction.timeout.ms", TRANSACTIONS),
    (
        "partitioner",
        Harm(
            "a key would no longer land where a Java producer puts it",
            "remove it: the partitioner is murmur2_random",
        ),
    ),
    ("partitioner_cb", Harm("a key would no longer land where a Java producer puts it", "remove it")),
    ("delivery.report.only.error", REPORTS),
    ("dr_cb", REPORTS),
    ("dr_msg_cb", REPORTS),
    ("enabled_events", REPORTS),
    ("log.queue", Harm("the client's logs would not be read", "remove it")),
    ("test.mock.*", Harm("records would go to a mock inside the daemon, and nowhere else", "name real `brokers`")),
    ("plugin.library.paths", CODE),
    ("ssl.engine.*", CODE),
    ("ssl.providers", CODE),
    ("interceptors", CODE),
    ("opaque", CODE),
    ("default_topic_conf", CODE),
    ("builtin.features", Harm("it only reports librdkafka's build options", "remove it")),
    ("sasl.kerberos.*", MECHANISM),
    ("sasl.oauthbearer.*", MECHANISM),
    ("enable.sasl.oauthbearer.*", MECHANISM),
    ("group.*", CONSUMER),
    ("auto.offset.reset", CONSUMER),
    ("auto.commit.*", CONSUMER),
    ("enable.auto.*", CONSUMER),
    ("offset.store.*", CONSUMER),
    ("fetch.*", CONSUMER),
    ("max.poll.interval.ms", CONSUMER),
    ("session.timeout.ms", CONSUMER),
    ("isolation.level", CONSUMER),
    ("partition.assignment.strategy", CONSUMER),
];

/// Returns the properties that go through, in the order of the file, each under one name: librdkafka is given them in
/// no order, and a second spelling of a name must not decide which of two values holds.
pub(super) fn read(section: &Section<'_>, key: &Key, verify_hostname: bool) -> Vec<(String, String)> {
    let report = &section.cx.report;
    let mut properties: Vec<(String, String)> = Vec::new();
    for (written, value) in section.scalars(key) {
        let name = bare(&written).to_owned();
        if properties.iter().any(|(other, _)| *other == name) {
            let message = format!("`{}` is there twice", clip(&name));
            report.problem(&value.spot, message, "keep one; a name with `topic.` in front is the same");
            continue;
        }
        match refused(&name, &value.value, verify_hostname) {
            Some(Own(key)) => {
                let message = format!("`{}` has a key of its own here", clip(&written));
                report.problem(&value.spot, message, format!("write `{key}` on the sink"));
            }
            Some(Harm(reason, help)) => {
                report.problem(&value.spot, format!("`{}` is refused: {reason}", clip(&written)), help);
            }
            None => {
                if is_secret(&name) && value.is_plain() {
                    let help = "write a variable, as in `${KAFKA_SECRET}`";
                    report.warning(&value.spot, "a secret is in the file in plain text", help);
                }
                properties.push((name, value.value));
            }
        }
    }
    properties
}

/// Returns the name that counts: librdkafka takes `topic.` off where it knows no such property.
fn bare(written: &str) -> &str {
    match written.strip_prefix("topic.") {
        Some(name) if !OF_TOPICS.iter().any(|own| name.starts_with(own)) => bare(name),
        _ => written,
    }
}

/// Continuations of names that begin with `topic.` themselves.
const OF_TOPICS: &[&str] = &["metadata.", "blacklist"];

fn refused(name: &str, value: &str, verify_hostname: bool) -> Option<RefusedProperty> {
    if name == "ssl.endpoint.identification.algorithm" && value.eq_ignore_ascii_case("https") != verify_hostname {
        return Some(Own("tls: { verify_hostname: false }"));
    }
    if name == "enable.ssl.certificate.verification" && !value.eq_ignore_ascii_case("true") {
        return Some(Harm("any server could impersonate a broker", "write the CA as `tls: { ca_file: ... }`"));
    }
    if name.ends_with("_cb") && !REFUSED.iter().any(|(refused, _)| *refused == name) {
        return Some(CODE);
    }
    let covers = |refused: &str| match refused.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == refused,
    };
    REFUSED.iter().find(|(refused, _)| covers(refused)).map(|(_, why)| *why)
}

/// Returns whether the value is never shown.
fn is_secret(name: &str) -> bool {
    ["password", "secret", "token", "pem", "key", "jaas"].iter().any(|part| name.contains(part))
}

/// Returns the properties for `check`: the value of a secret is left out.
pub(super) fn shown(properties: &[(String, String)]) -> Option<Value> {
    let shown = |(name, value): &'_ (String, String)| {
        let value = if is_secret(name) { "(set)".to_owned() } else { value.clone() };
        (name.clone(), value.into())
    };
    (!properties.is_empty()).then(|| properties.iter().map(shown).collect::<Map<_, _>>().into())
}
