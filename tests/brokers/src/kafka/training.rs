//! The archives of classes that halve the duration of later starts: a node and a tool run once, and write down the
//! classes that they loaded.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::java::{Java, Role};
use super::tools::consumer_arguments;
use super::{Kafka, KafkaOptions, MAIN};
use crate::cache;
use crate::error::{During, Result};
use crate::tool::run;

/// Trains unless that was done on this machine with this Java.
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
        // The archive is written at the end.
        kafka.stop();
        written(archive)
    })
}

/// Writes an empty file if the Java wrote no archive, so that later starts do without.
fn written(archive: &Path) -> Result<()> {
    if archive.exists() {
        return Ok(());
    }
    fs::write(archive, "").during(format_args!("write {}", archive.display()))
}
