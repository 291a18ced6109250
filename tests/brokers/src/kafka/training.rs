//! The archives of classes that halve the duration of later starts: a node and a tool run once, and write down the
//! classes that they loaded.

use std::time::Duration;

use super::java::{NODE, TOOL, tool};
use super::tools::consumer_arguments;
use super::{Kafka, KafkaOptions};
use crate::error::Result;
use crate::java::Java;
use crate::tool::run;

/// Trains unless that was done on this machine with this Java.
pub(super) fn once(java: &Java) -> Result<()> {
    java.train(NODE, |archive| {
        let options = KafkaOptions { sasl: true, tls: true, ..KafkaOptions::default() };
        let kafka = Kafka::start_on_free_ports(java, &options, &archive)?;
        kafka.create_topic("training", 1, &[])?;
        kafka.java_produce("training", &["key"])?;
        java.train(TOOL, |archive| {
            let mut command = tool(java, &archive, &kafka.log4j(), "org.apache.kafka.tools.consumer.ConsoleConsumer");
            consumer_arguments(&mut command, &kafka.bootstrap(), "training", 1, Duration::from_secs(20));
            run(command, None, "the Java consumer").map(drop)
        })?;
        // The archive is written at the end.
        kafka.stop();
        Ok(())
    })
}
