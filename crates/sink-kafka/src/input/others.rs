//! Topics that were made again under their names while the input reads them.

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};
use std::time::Duration;

use super::client::{InputListener, TIMEOUT};
use super::errors::failure;
use super::{StartFrom, starts};
use delaybridge_core::message::Failure;
use delaybridge_input::InputReset;

/// The time-out of a look. Nothing else is done meanwhile.
const LOOK_TIMEOUT: Duration = Duration::from_millis(500);

/// Looks whether topics were made again since the last look, and begins such ones at their beginning: the client would go on at
/// the place in the one before. Returns their names. What was taken from the one before is kept.
pub(super) fn begin_other_topics(
    consumer: &BaseConsumer<InputListener>,
    topics: &[&str],
) -> Result<Vec<String>, Failure> {
    let context = consumer.context();
    // An outage is known from other questions.
    let Ok(found) = delivery_status::describe(consumer.client(), topics, LOOK_TIMEOUT) else { return Ok(Vec::new()) };
    let mut others = Vec::new();
    for topic in found {
        let Some(id) = topic.id.as_deref() else { continue };
        context.met.meet(&topic.name, id);
        let what = format!("consume topic {} from its beginning", topic.name);
        let failed = |error: KafkaError| failure(&what, &error);
        let own = consumer.assignment().map_err(failed)?;
        let own: Vec<_> = own.elements_for_topic(&topic.name).iter().map(|of| of.partition()).collect();
        // Without a partition of it, the next assignment decides.
        if own.is_empty() || !context.met.is_other(&topic.name, Some(id)) {
            continue;
        }
        // Its offsets went with the one before. Without any, `latest` would begin at the end once more.
        if context.spec.start == StartFrom::Latest {
            starts::settle(consumer, &context.spec, &topic, Offset::Beginning)?;
        }
        let mut list = TopicPartitionList::new();
        for partition in own {
            list.add_partition_offset(&topic.name, partition, Offset::Beginning).map_err(failed)?;
            context.states.begins(&topic.name, partition, None);
            context.events.begins_again(&topic.name, partition, None, InputReset::OtherTopic);
        }
        let moved = consumer.seek_partitions(list, TIMEOUT).map_err(failed)?;
        moved.elements().iter().try_for_each(|of| of.error()).map_err(failed)?;
        context.met.read(&topic.name, id);
        others.push(topic.name);
    }
    count_went_back(context, &others);
    Ok(others)
}

/// Counts and logs the partitions that went back, except those of these topics, which are counted as other topics.
pub(super) fn count_went_back(context: &InputListener, others: &[String]) {
    for ((topic, partition), expected) in std::mem::take(&mut *context.went_back.lock()) {
        if !others.contains(&topic) {
            context.events.begins_again(&topic, partition, Some(expected), InputReset::BeyondEnd);
        }
    }
}
