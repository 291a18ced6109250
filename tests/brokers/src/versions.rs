//! The versions of the servers, for reports.

use crate::{cache, rabbit, redisson};

/// Name and version of everything that this crate starts, as far as it is installed.
pub fn versions() -> Vec<String> {
    let newest = redisson::VERSIONS.last().map(|version| format!("Redisson {version}"));
    let rabbit = rabbit::version().map(|version| format!("RabbitMQ {version}"));
    [Some(cache::KAFKA.replace("kafka-", "Kafka ")), rabbit, newest].into_iter().flatten().collect()
}
