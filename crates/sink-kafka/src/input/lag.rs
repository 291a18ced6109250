//! The number of records that the group has not done yet, of all partitions of the topics: this member's, those of other members, and
//! unassigned ones.

use std::collections::HashMap;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::{Offset, TopicPartitionList};

use super::record::Partition;
use delaybridge_input::PartitionLag;

/// The time-out of each question.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Asks the brokers for the lag of each partition; `None` if no broker answers. A partition without a leader is left
/// out.
pub(super) fn ask<C: ConsumerContext>(consumer: &BaseConsumer<C>, topics: &[&str]) -> Option<Vec<PartitionLag>> {
    let mut all = TopicPartitionList::new();
    for topic in topics {
        let found = consumer.fetch_metadata(Some(topic), TIMEOUT).ok()?;
        let partitions =
            found.topics().iter().filter(|found| found.name() == *topic).flat_map(|found| found.partitions());
        for partition in partitions {
            all.add_partition(topic, partition.id());
        }
    }
    if all.count() == 0 {
        return Some(Vec::new());
    }
    // The ends first: what is written and done meanwhile does not wait.
    let ends = offsets(consumer, &all, Offset::End)?;
    let committed = known(&consumer.committed_offsets(all.clone(), TIMEOUT).ok()?);
    let mut open = TopicPartitionList::new();
    for (partition, end) in &ends {
        if committed.get(partition).is_none_or(|done| done < end) {
            open.add_partition(&partition.0, partition.1);
        }
    }
    let first = if open.count() == 0 { HashMap::new() } else { offsets(consumer, &open, Offset::Beginning)? };
    let lags = ends.into_iter().map(|(partition, end)| {
        let records = waiting(end, committed.get(&partition).copied(), first.get(&partition).copied());
        PartitionLag { topic: partition.0, partition: partition.1, records }
    });
    Some(lags.collect())
}

/// Reads the first or last offsets of these partitions. Of an open transaction, the end is its beginning.
fn offsets<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    partitions: &TopicPartitionList,
    which: Offset,
) -> Option<HashMap<Partition, i64>> {
    let mut asked = partitions.clone();
    asked.set_all_offsets(which).ok()?;
    consumer.offsets_for_times(asked, TIMEOUT).ok().map(|found| known(&found))
}

fn known(list: &TopicPartitionList) -> HashMap<Partition, i64> {
    let offset = |offset: Offset| if let Offset::Offset(offset) = offset { Some(offset) } else { None };
    let elements = list.elements();
    let found = elements.iter().filter(|of| of.error().is_ok());
    found.filter_map(|of| Some(((of.topic().to_owned(), of.partition()), offset(of.offset())?))).collect()
}

/// Counts the records up to the end that are not done: of those that are still there. Pure.
fn waiting(end: i64, committed: Option<i64>, first: Option<i64>) -> u64 {
    u64::try_from(end - committed.max(first).unwrap_or(end)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_and_not_done_waits() {
        let rows = [
            (10, Some(10), None, 0),
            (10, Some(7), Some(0), 3),
            // Removed before it was read.
            (10, Some(3), Some(8), 2),
            (10, None, Some(4), 6),
            (0, None, Some(0), 0),
            // Committed since the end was asked for.
            (10, Some(12), None, 0),
            (10, None, None, 0),
        ];
        for (end, committed, first, found) in rows {
            assert_eq!(waiting(end, committed, first), found, "{end} {committed:?} {first:?}");
        }
    }
}
