//! The versions of the servers, for reports.

use crate::{cache, nats, rabbit, redisson};

/// Name and version of everything that this crate starts, as far as it is installed.
pub fn versions() -> Vec<String> {
    let newest = redisson::VERSIONS.last().map(|version| format!("Redisson {version}"));
    let rabbit = rabbit::version().map(|version| format!("RabbitMQ {version}"));
    let nats = nats::version().map(|version| format!("NATS {version}"));
    let jars = [
        (cache::KAFKA, "Kafka"),
        (cache::ARTEMIS, "Artemis"),
        (cache::ELASTICMQ, "ElasticMQ"),
        (cache::ROCKETMQ_4, "RocketMQ"),
        (cache::ROCKETMQ_5, "RocketMQ"),
    ];
    let [kafka, artemis, elasticmq, rocketmq_4, rocketmq_5] =
        jars.map(|(folder, name)| folder.split_once('-').map(|(_, version)| format!("{name} {version}")));
    [kafka, rabbit, artemis, nats, elasticmq, rocketmq_4, rocketmq_5, newest].into_iter().flatten().collect()
}
