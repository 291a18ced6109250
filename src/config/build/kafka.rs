//! Kafka: the cluster, and topics as destinations.

use secrecy::SecretString;

use super::place::At;
use super::sink::Sink;
use super::url::host_and_port;
use super::{kafka_properties, secrets, tls};
use crate::config::keys::{Key, sasl, sink_kafka, to};
use crate::config::model::{Compression, KafkaSasl, KafkaSpec, SaslMechanism, Secret, TargetSpec};
use crate::config::problem::Spot;
use crate::config::reader::Section;
use crate::config::units::show_size;
use crate::route::{Template, fit};

/// The cluster under `section`.
pub(super) fn spec(section: &Section<'_>) -> KafkaSpec {
    let compressions = [
        ("none", Compression::None),
        ("gzip", Compression::Gzip),
        ("snappy", Compression::Snappy),
        ("lz4", Compression::Lz4),
        ("zstd", Compression::Zstd),
    ];
    let tls = section.opt_section(&sink_kafka::TLS).map(|section| tls::files(&section));
    let sasl = section.opt_section(&sink_kafka::SASL).map(|section| (login(&section), section.spot.clone()));
    if let (None, Some((Some(login), spot))) = (&tls, &sasl)
        && login.mechanism == SaslMechanism::Plain
    {
        let help = "write `tls: {}`, or a SCRAM mechanism";
        section.cx.report.warning(spot, "mechanism PLAIN without `tls` shows the password to the network", help);
    }
    KafkaSpec {
        brokers: brokers(section),
        client_id: section.text(&sink_kafka::CLIENT_ID).map(|id| id.value).unwrap_or_default(),
        tls,
        sasl: sasl.and_then(|(login, _)| login),
        compression: section.word(&sink_kafka::COMPRESSION, &compressions).unwrap_or(Compression::None),
        linger: section.duration(&sink_kafka::LINGER),
        // The ranges are librdkafka's.
        batch_bytes: bounded(section, &sink_kafka::BATCH_SIZE, 1, i32::MAX.unsigned_abs()),
        max_message_bytes: bounded(section, &sink_kafka::MAX_MESSAGE_SIZE, 1_000, 1_000_000_000),
        properties: kafka_properties::read(section),
    }
}

fn bounded(section: &Section<'_>, key: &Key, min: u32, max: u32) -> u32 {
    let bytes = section.size(key);
    let fits = u32::try_from(bytes).ok().filter(|bytes| (min..=max).contains(bytes));
    if fits.is_none() {
        let message = format!("{} is out of range", show_size(bytes));
        section.cx.report.problem(&section.spot(key), message, format!("write a size from {min}B to {max}B"));
    }
    fits.unwrap_or(max)
}

fn brokers(section: &Section<'_>) -> Vec<String> {
    let mut brokers = Vec::new();
    for text in section.texts(&sink_kafka::BROKERS) {
        for address in text.value.split(',').map(str::trim) {
            let read = match address.contains(['/', '@']) {
                true => Err("a broker is `host:port`, without a protocol, user or path"),
                false => host_and_port(address, 9092),
            };
            match read {
                Ok((host, port)) if host.contains(':') => brokers.push(format!("[{host}]:{port}")),
                Ok((host, port)) => brokers.push(format!("{host}:{port}")),
                // Not repeated: who writes a user there writes the password as well.
                Err(problem) => section.cx.report.problem(&text.spot, problem, "write `kafka-0:9092`"),
            }
        }
    }
    brokers
}

fn login(section: &Section<'_>) -> Option<KafkaSasl> {
    let mechanisms = [SaslMechanism::Plain, SaslMechanism::ScramSha256, SaslMechanism::ScramSha512];
    let mechanism = section.word(&sasl::MECHANISM, &mechanisms.map(|mechanism| (mechanism.as_str(), mechanism)));
    let username = section.text(&sasl::USERNAME).map(|name| name.value);
    let password = secrets::password(section, "KAFKA_PASSWORD");
    if !section.has(&sasl::PASSWORD) && !section.has(&sasl::PASSWORD_FILE) {
        let help = "write `password_file: PATH`, or `password: ${KAFKA_PASSWORD}`";
        section.cx.report.problem(&section.spot, "there is a login, but no password", help);
    }
    let password = password.unwrap_or_else(|| Secret::Literal(SecretString::default()));
    Some(KafkaSasl { mechanism: mechanism?, username: username?, password })
}

/// The destination keys of a Kafka sink; absent is what was not written.
#[derive(Default)]
pub(super) struct KafkaPlace {
    topic: Option<(Template, Spot)>,
    key: Option<(Template, Spot)>,
    /// Whether a topic was written, be it one that cannot be read.
    written: bool,
}

impl KafkaPlace {
    /// Reads the keys of a sink or a route.
    pub(super) fn read(section: &Section<'_>) -> KafkaPlace {
        let template = |key| section.template(key).map(|template| (template, section.spot(key)));
        KafkaPlace { topic: template(&to::TOPIC), key: template(&to::KEY), written: section.has(&to::TOPIC) }
    }

    /// The target, from these keys of the route and those of its sink.
    pub(super) fn target(&self, at: &At<'_, '_>, sink: &Sink<'_>) -> Option<(TargetSpec, Spot)> {
        let sinks = &sink.place.kafka;
        let place = if self.written { self } else { sinks };
        if !place.written {
            let message = format!("no destination: sink `{}` names no topic", sink.name);
            at.section.cx.report.problem(&at.section.spot, message, "write `topic: NAME` here or on the sink");
        }
        let key = self.key.as_ref().or(sinks.key.as_ref());
        if let Some((key, spot)) = key {
            at.fits(key, spot);
        }
        let (topic, spot) = place.topic.as_ref()?;
        at.fits(topic, spot);
        if let Some(problem) = topic.static_text().and_then(fit::topic) {
            at.section.cx.report.problem(spot, problem, "topics have letters (a to z), digits, `.`, `_` and `-`");
        }
        let key = key.map(|(key, _)| key.clone());
        Some((TargetSpec::KafkaTopic { topic: topic.clone(), key }, spot.clone()))
    }
}
