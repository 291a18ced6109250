//! The reading of partitions by a search: what the searches before have not read, up to the end.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka::{Offset, TopicPartitionList};

use super::backlog::{BacklogListener, failure};
use super::search::{Search, failed};
use super::seen::{Gap, SeenMark, SeenMarks, TopicPartition};
use crate::errors;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure};
use delaybridge_sink::CopyMark;
use delaybridge_sink::headers::MARK;

/// Bytes of records that one search reads. Behind them, nothing is known.
const MOST_BYTES: usize = 64 << 20;
/// Bytes that a record counts for beside its key and payload.
const RECORD: usize = 100;
/// One wait for a record.
const POLL: Duration = Duration::from_millis(100);

pub(super) type SearchConsumer = BaseConsumer<BacklogListener>;

pub(super) struct Reading<'a> {
    pub(super) consumer: &'a SearchConsumer,
    pub(super) seen: &'a mut SeenMarks,
    pub(super) bytes: usize,
    pub(super) deadline: Instant,
}

/// A part of a partition, while it is read.
struct OpenGap {
    gap: Gap,
    /// All records before this offset were read.
    next: i64,
    marks: Vec<SeenMark>,
}

impl Reading<'_> {
    /// Reads what is not known of the partitions, until each record has an answer.
    pub(super) fn read(&mut self, search: &mut Search) -> Result<(), Failure> {
        // One topic after the other: the event of an end names none.
        for topic in search.topics() {
            loop {
                let gaps = self.gaps(search, &topic);
                if gaps.is_empty() || search.is_over() {
                    break;
                }
                self.read_gaps(search, &topic, gaps)?;
            }
        }
        Ok(())
    }

    /// Finds the next part of each partition of a topic. Those without one are read.
    fn gaps(&mut self, search: &mut Search, topic: &str) -> HashMap<i32, OpenGap> {
        let mut gaps = HashMap::new();
        for place in search.unread(topic) {
            match self.gap(search, &place) {
                Some(gap) => {
                    gaps.insert(place.1, OpenGap { gap, next: gap.from, marks: Vec::new() });
                }
                None => search.is_read(&place, Ok(())),
            }
        }
        gaps
    }

    /// Finds the next part of a partition; none if it is read, which is remembered.
    fn gap(&mut self, search: &Search, place: &TopicPartition) -> Option<Gap> {
        let range = search.ranges.get(place)?;
        let gap = self.seen.gap(place, range.from, range.end);
        if gap.is_none() {
            self.seen.is_whole(place, range.from, range.end, range.from_ms);
        }
        gap
    }

    /// Reads a part of each of these partitions. What was read is remembered, whatever ends it.
    fn read_gaps(
        &mut self,
        search: &mut Search,
        topic: &Arc<str>,
        mut gaps: HashMap<i32, OpenGap>,
    ) -> Result<(), Failure> {
        let ended = self.poll(search, topic, &mut gaps);
        for (partition, OpenGap { gap, next, marks }) in gaps {
            self.seen.add(&(topic.clone(), partition), gap, next, marks);
        }
        // What comes from here on is not fetched before the next search.
        let left = self.consumer.assign(&TopicPartitionList::new());
        ended.and(left.map_err(|error| failure("end to read", &error)))
    }

    fn poll(&mut self, search: &mut Search, topic: &Arc<str>, gaps: &mut HashMap<i32, OpenGap>) -> Result<(), Failure> {
        let what = format!("look for records in topic {topic}");
        self.assign(topic, gaps).map_err(|error| failure(&what, &error))?;
        let mut trouble = String::new();
        let mut open = gaps.len();
        while open > 0 && !search.is_over() {
            if Instant::now() >= self.deadline {
                return Err(failed(format!("topic {topic} was not read to its end in time{trouble}")));
            }
            if self.bytes > MOST_BYTES {
                let most = MOST_BYTES >> 20;
                let text = format!("look for records: topic {topic} has more than {most} MiB since the first attempt");
                return Err(Failure::new(Class::Unknown, "look", text));
            }
            // The partition, and the offset to which it was read; to its end, if none.
            let (partition, next) = match self.consumer.poll(POLL) {
                Some(Ok(message)) if message.topic() == &**topic => {
                    self.bytes += message.payload_len() + message.key_len() + RECORD;
                    let open = gaps.get_mut(&message.partition());
                    if let Some(open) = open.filter(|open| (open.next..open.gap.to).contains(&message.offset()))
                        && let Some(seen) = seen(&message)
                    {
                        search.compare(topic, &seen);
                        open.marks.push(seen);
                    }
                    (message.partition(), Some(message.offset() + 1))
                }
                // It was asked for after the end of the range was.
                Some(Err(KafkaError::PartitionEOF(ended))) => (ended, None),
                Some(Err(error)) => {
                    let code = error.rdkafka_error_code();
                    if code == Some(Code::AutoOffsetReset) {
                        // Retention has removed what was to be read next.
                        self.seen.forget(topic);
                        return Err(failed(format!("topic {topic} has lost what was to be read: {error}")));
                    }
                    if code.is_some_and(errors::is_about_topic) {
                        return Err(failure(&what, &error));
                    }
                    trouble = format!("; {error}");
                    continue;
                }
                Some(Ok(_)) | None => continue,
            };
            let Some(gap) = gaps.get_mut(&partition).filter(|gap| gap.next < gap.gap.to) else { continue };
            gap.next = gap.next.max(next.unwrap_or(gap.gap.to).min(gap.gap.to));
            if gap.next < gap.gap.to {
                continue;
            }
            open -= 1;
            let place = (topic.clone(), partition);
            if let Some(OpenGap { gap, next, marks }) = gaps.remove(&partition) {
                self.seen.add(&place, gap, next, marks);
            }
            if self.gap(search, &place).is_none() {
                search.is_read(&place, Ok(()));
            }
        }
        Ok(())
    }

    fn assign(&self, topic: &str, gaps: &HashMap<i32, OpenGap>) -> Result<(), KafkaError> {
        let mut list = TopicPartitionList::new();
        for (partition, open) in gaps {
            list.add_partition_offset(topic, *partition, Offset::Offset(open.gap.from))?;
        }
        self.consumer.assign(&list)
    }
}

/// Reads a topic at the end of its first partition, and nothing more.
pub(super) fn read_end(consumer: &SearchConsumer, topic: &str, deadline: Instant) -> Result<(), Failure> {
    let what = format!("read topic {topic} for `duplicates: look`");
    let mut list = TopicPartitionList::new();
    let assigned = list.add_partition_offset(topic, 0, Offset::End).and_then(|()| consumer.assign(&list));
    assigned.map_err(|error| failure(&what, &error))?;
    let mut trouble = String::new();
    while Instant::now() < deadline {
        match consumer.poll(POLL) {
            Some(Ok(_) | Err(KafkaError::PartitionEOF(_))) => return Ok(()),
            Some(Err(error)) => match error.rdkafka_error_code() {
                Some(Code::TopicAuthorizationFailed) => {
                    let refused = failure(&what, &error);
                    let message = format!("{what}: {error}: allow the user to READ the topic");
                    return Err(Failure { message, ..refused });
                }
                Some(code) if errors::is_about_topic(code) => return Err(failure(&what, &error)),
                _ => trouble = format!("; {error}"),
            },
            None => {}
        }
    }
    Err(Failure::new(Class::Transient, "look", format!("{what}: no answer in time{trouble}")))
}

/// Returns the mark of a record: the first header with its name, which the daemon writes before all that others may
/// have given it.
fn seen(message: &BorrowedMessage<'_>) -> Option<SeenMark> {
    let value = delivery_status::header(message, MARK.as_bytes())?;
    let mark = CopyMark::read(std::str::from_utf8(&value).ok()?)?;
    Some(SeenMark { mark, time_ms: message.timestamp().to_millis() })
}
