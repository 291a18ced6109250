//! The input `kafka`: records of topics, as a member of a consumer group.
//!
//! `record` reads a record, `consumer` is the thread with the `client`, `starts` says from where it reads, `others` whether that is
//! another topic by now, `decide` what becomes of its records, and `held` what that means for its partitions. `questions` is a thread
//! beside it: `reading` asks whether it can read, `lag` what waits. `check` asks before all of it, and `may_write` whether refused
//! records have a place.

mod check;
mod client;
mod consumer;
#[cfg(test)]
mod contract;
mod decide;
mod errors;
mod held;
mod lag;
#[cfg(test)]
mod lags;
#[cfg(test)]
mod lives;
mod may_write;
mod offsets;
mod others;
mod partitions;
mod questions;
mod reading;
mod record;
mod starts;
#[cfg(test)]
mod truth;

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::config::{CLUSTER_KEYS, cluster};
use crate::errors::codes;
use crate::target::unfit_topic;
use crate::{KafkaSpec, NAME};
use decide::KafkaInput;
use delaybridge_input::{Input, InputConnector, InputKind, RedeliveryPlace};
use delaybridge_settings::Settings;
use delaybridge_settings::keys::{Group, Kind, key};
use delaybridge_settings::reader::Section;
use delaybridge_settings::words::words;
use delaybridge_sink::Connector;

/// The kind.
pub static KIND: InputKind = InputKind {
    key: key(NAME, Kind::Section(&input_kafka::TABLE), "Topics of a Kafka cluster."),
    tables: &[&input_kafka::TABLE],
    read: Some(read),
    codes,
};

static CLUSTER: &[Group] = &[Group { of: None, keys: CLUSTER_KEYS }];

/// Topics whose records wait in Redis until they are due. An offset is committed when Redis has all jobs before it.
#[derive(Debug, Clone, Settings)]
#[settings(input_kafka, at = "inputs.NAME.kafka", offered = CLUSTER)]
pub struct KafkaInputSpec {
    /// The topics. They must exist.
    #[key(Kind::Texts, required)]
    pub topics: Vec<String>,
    /// Consumer group; daemons share the partitions.
    #[key(Kind::Text, default = "delaybridge")]
    pub group: String,
    /// Id of a static member (`group.instance.id`), different in each process: `${HOSTNAME}`. A process that is back
    /// within 45 s keeps its partitions, which wait meanwhile. Without it, a process that ends leaves the group at
    /// once.
    #[key(Kind::Text)]
    pub group_instance_id: Option<String>,
    /// First record without a committed offset. Partitions that are added later begin at their first record.
    #[key(word::<StartFrom>(), default = "earliest")]
    pub start: StartFrom,
    /// Identity by which a record is scheduled once: its key, the header `x-message-id`, or its position (topic,
    /// partition and offset), also if it has no other.
    #[key(word::<IdentityFrom>(), default = "position")]
    pub identity: IdentityFrom,
    /// Begin of the delay `x-delay`: arrival at the daemon, or the record's timestamp.
    #[key(word::<DelayFrom>(), default = "arrival")]
    pub delay_from: DelayFrom,
    /// Topic for refused records. Without it, a refused record holds its partition.
    #[key(Kind::Text)]
    pub dead_letter_topic: Option<String>,
    /// Bytes of records that are fetched ahead.
    #[key(Kind::Size, default = "16MiB")]
    pub prefetch_bytes: u64,
    /// The cluster and the login.
    #[settings(later = Arc::new(cluster(section)))]
    pub cluster: Arc<KafkaSpec>,
}

words! {
    /// The first record of a topic of which the group has no committed offset.
    pub enum StartFrom {
        /// The next record that is written.
        Latest = "latest",
        /// The oldest record.
        Earliest = "earliest",
    }
}

words! {
    /// The identity of a record.
    pub enum IdentityFrom {
        /// The key.
        Key = "key",
        /// The header `x-message-id`.
        Header = "header",
        /// Topic, partition and offset.
        Position = "position",
    }
}

words! {
    /// The begin of a delay.
    pub enum DelayFrom {
        /// The timestamp of the record.
        Timestamp = "timestamp",
        /// The arrival at the daemon.
        Arrival = "arrival",
    }
}

fn read(section: &Section<'_>) -> Arc<dyn InputConnector> {
    let spec = KafkaInputSpec::of(section);
    let names = spec.topics.iter().map(|name| (name, &input_kafka::TOPICS));
    let dead = spec.dead_letter_topic.iter().map(|name| (name, &input_kafka::DEAD_LETTER_TOPIC));
    for (name, key) in names.chain(dead) {
        if let Some(problem) = unfit_topic(name) {
            let help = "topics have letters (a to z), digits, `.`, `_` and `-`";
            section.cx.report.problem(&section.spot(key), problem, help);
        }
    }
    // Brokers have the rule of names of topics for it.
    if spec.group_instance_id.as_deref().is_some_and(|id| unfit_topic(id).is_some()) {
        let message = "this is no id of a member";
        let help = "write up to 249 letters (a to z), digits, `.`, `_` and `-`";
        section.cx.report.problem(&section.spot(&input_kafka::GROUP_INSTANCE_ID), message, help);
    }
    if spec.dead_letter_topic.as_ref().is_some_and(|dead| spec.topics.contains(dead)) {
        let message = "refused records would come back by the input";
        let help = "write a topic that the input does not consume";
        section.cx.report.problem(&section.spot(&input_kafka::DEAD_LETTER_TOPIC), message, help);
    }
    Arc::new(spec)
}

impl InputConnector for KafkaInputSpec {
    fn kind(&self) -> &'static str {
        NAME
    }

    fn input(&self) -> Arc<dyn Input> {
        Arc::new(KafkaInput::new(self.clone()))
    }

    fn settings(&self) -> Map<String, Value> {
        let cluster = self.cluster.settings();
        let of_cluster = |name: &str| CLUSTER_KEYS.iter().any(|key| key.name == name);
        cluster.into_iter().filter(|(name, _)| of_cluster(name)).chain(self.shown()).collect()
    }

    fn address(&self) -> String {
        format!("topics {} at {}", self.topics.join(", "), self.cluster.address())
    }

    fn descriptors(&self) -> u64 {
        // The consumer, and the producer of the dead-letter topic.
        2 * self.cluster.descriptors()
    }

    fn takes_from(&self, place: &RedeliveryPlace<'_>) -> bool {
        let to_topic = place.text("topic").is_some_and(|topic| self.topics.iter().any(|own| own == topic));
        place.kind == NAME && to_topic && place.address == self.cluster.address()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an input from the topic `delay-in`.
    pub(super) fn spec() -> KafkaInputSpec {
        KafkaInputSpec {
            topics: vec!["delay-in".to_owned()],
            group: "delaybridge".to_owned(),
            group_instance_id: None,
            start: StartFrom::Earliest,
            identity: IdentityFrom::Position,
            delay_from: DelayFrom::Arrival,
            dead_letter_topic: None,
            prefetch_bytes: 1 << 20,
            cluster: Arc::new(crate::client::tests::spec("127.0.0.1:1")),
        }
    }
}
