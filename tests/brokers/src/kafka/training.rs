//! Makes the archives of classes that halve the time of every later start: one run of a node and of a tool, which write
//! down what they loaded.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::java::{Java, Role};
use super::tools::consumer_arguments;
use super::{Kafka, KafkaOptions, MAIN};
use crate::cache;
use crate::error::{During, Result};
use crate::tool::run;

/// Trains unless that has been done on this machine with this Java.
pub(super) fn once(java: &Java) -> Result<()> {
    let role = Role::Node { fast_jit: true };
    cache::once(&java.archive(role), |archive| {
        let options = KafkaOptions { sasl: true, tls: true, ..KafkaOptions::default() };
        let kafka =
            Kafka::start_on_free_ports(java, &options, |role, log4j| java.training(role, log4j, MAIN, archive))?;
        kafka.create_topic("training", 1, &[])?;
        kafka.java_produce("training", &["key"])?;
        cache::once(&java.archive(Role::Tool), |archive| {
            let class = "org.apache.kafka.tools.consumer.ConsoleConsumer";
            let mut command = java.training(Role::Tool, &kafka.log4j(), class, archive);
            consumer_arguments(&mut command, &kafka.bootstrap(), "training", 1, Duration::from_secs(20));
            run(command, None, "the Java consumer")?;
            written(archive)
        })?;
        // It writes when it ends.
        kafka.stop();
        written(archive)
    })
}

/// A Java that writes no archive goes without: an empty file says so to the next start.
fn written(archive: &Path) -> Result<()> {
    if archive.exists() {
        return Ok(());
    }
    fs::write(archive, "").during(format_args!("write {}", archive.display()))
}
