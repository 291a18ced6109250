//! Whether librdkafka may have written a record that it reports as failed; the headers of a record as bytes; a commit of offsets
//! with an answer, and its metadata as bytes; the ids of topics; and the first offset of a partition as of the last fetch.
//!
//! librdkafka knows this of every record (`rd_kafka_message_status`), and it decides whether a retry may be a duplicate.
//! The `rdkafka` crate returns the message but not its status, so there is a foreign call here. Its own list of headers panics at a
//! name that is not UTF-8, which any producer can write, so there is another way to them. Its commit without a wait has no answer, and
//! the metadata of a commit panics where it is not UTF-8, which any other member of the group can write. It has no call for the ids of
//! topics. All are in a crate of their own because delaybridge itself forbids unsafe code.

mod topics;

use std::ffi::{CStr, CString};
use std::ptr;

pub use topics::{TopicDescription, describe};

use rdkafka::TopicPartitionList;
use rdkafka::bindings::{
    rd_kafka_commit_queue, rd_kafka_get_watermark_offsets, rd_kafka_header_get_all, rd_kafka_message_headers,
    rd_kafka_message_status, rd_kafka_msg_status_t, rd_kafka_queue_destroy, rd_kafka_queue_get_consumer,
};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{IsError, KafkaError, KafkaResult};
use rdkafka::message::BorrowedMessage;

/// The outcome of a record, as far as the producer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// Not written: never sent, or refused by a broker. Sending it again makes no duplicate.
    Not,
    /// Sent without an answer: it may have been written.
    Possibly,
    /// Confirmed by a broker.
    Persisted,
}

/// Returns the status of a record in its delivery report.
pub fn persistence(message: &BorrowedMessage<'_>) -> Persistence {
    // SAFETY: `ptr` is the message that `message` borrows, which lives for the whole call, and the function only reads a
    // field of it (`rd_kafka_msg_status_t rd_kafka_message_status(const rd_kafka_message_t *)`).
    let status = unsafe { rd_kafka_message_status(message.ptr()) };
    match status {
        rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_NOT_PERSISTED => Persistence::Not,
        rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_PERSISTED => Persistence::Persisted,
        rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_POSSIBLY_PERSISTED => Persistence::Possibly,
    }
}

/// A header of a record: its name, and its value if it has one.
pub type RawHeader = (Vec<u8>, Option<Vec<u8>>);

/// Returns the headers of a record that was consumed, in their order.
pub fn headers(message: &BorrowedMessage<'_>) -> Vec<RawHeader> {
    let mut found = Vec::new();
    visit(message, |name, value| {
        found.push((name.to_vec(), value.map(<[u8]>::to_vec)));
        true
    });
    found
}

/// Returns the value of the first header with this name, of a record that was consumed; `None` for no such header, or no value.
pub fn header(message: &BorrowedMessage<'_>, wanted: &[u8]) -> Option<Vec<u8>> {
    let mut found = None;
    visit(message, |name, value| {
        let fits = name == wanted;
        if fits {
            found = value.map(<[u8]>::to_vec);
        }
        !fits
    });
    found
}

/// Commits offsets of a group without waiting. The answer is given to the context's `commit_callback` while the consumer is polled.
/// `Consumer::commit` with `CommitMode::Async` gives none: librdkafka answers to a callback, and `rdkafka` 0.39 sets none, because it
/// reads events.
///
/// # Errors
///
/// The commit was not begun.
pub fn commit<C: ConsumerContext>(consumer: &BaseConsumer<C>, offsets: &TopicPartitionList) -> KafkaResult<()> {
    let client = consumer.client().native_ptr();
    // SAFETY: the client lives as long as `consumer`. Null, or a reference to a queue, which is given back below.
    let queue = unsafe { rd_kafka_queue_get_consumer(client) };
    if queue.is_null() {
        return Err(KafkaError::ClientCreation("a consumer without a queue".to_owned()));
    }
    // SAFETY: both pointers are valid during the call, which copies the list and keeps a reference of its own to the queue. Without a
    // callback the answer is an event in that queue.
    let error = unsafe { rd_kafka_commit_queue(client, offsets.ptr(), queue, None, ptr::null_mut()) };
    // SAFETY: the reference of above; the consumer has its own.
    unsafe { rd_kafka_queue_destroy(queue) };
    if error.is_error() { Err(KafkaError::ConsumerCommit(error.into())) } else { Ok(()) }
}

/// Returns the metadata of each partition of a list, in their order: what the last commit of its offset left beside it.
pub fn metadata(list: &TopicPartitionList) -> Vec<Vec<u8>> {
    // SAFETY: the list is valid as long as `list`, and nothing changes it during the call.
    let native = unsafe { &*list.ptr() };
    let count = usize::try_from(native.cnt).unwrap_or(0);
    if native.elems.is_null() || count == 0 {
        return Vec::new();
    }
    // SAFETY: there are `cnt` elements, which belong to the list.
    let elements = unsafe { std::slice::from_raw_parts(native.elems, count) };
    let bytes = elements.iter().map(|element| {
        if element.metadata.is_null() {
            Vec::new()
        } else {
            // SAFETY: a pointer that is not null points to `metadata_size` bytes, which belong to the list.
            unsafe { std::slice::from_raw_parts(element.metadata.cast::<u8>(), element.metadata_size) }.to_vec()
        }
    });
    bytes.collect()
}

/// Returns the first offset of a partition as the last fetch showed it; `None` before that. Asks no broker.
pub fn first_offset<C: ConsumerContext>(consumer: &BaseConsumer<C>, topic: &str, partition: i32) -> Option<i64> {
    let topic = CString::new(topic).ok()?;
    let mut low = -1;
    let mut high = -1;
    let client = consumer.client().native_ptr();
    // SAFETY: the client lives as long as `consumer`, and the name as long as the call, which writes two numbers.
    let error =
        unsafe { rd_kafka_get_watermark_offsets(client, topic.as_ptr(), partition, &raw mut low, &raw mut high) };
    (!error.is_error() && low >= 0).then_some(low)
}

/// Shows each header, until one answers `false`.
fn visit(message: &BorrowedMessage<'_>, mut show: impl FnMut(&[u8], Option<&[u8]>) -> bool) {
    let mut list = ptr::null_mut();
    // SAFETY: `ptr` is the message that `message` borrows, which lives for the whole call. The list that is written to `list` belongs
    // to the message.
    if unsafe { rd_kafka_message_headers(message.ptr(), &raw mut list) }.is_error() || list.is_null() {
        return;
    }
    for at in 0.. {
        let mut name = ptr::null();
        let mut value = ptr::null();
        let mut size = 0;
        // SAFETY: `list` is the list of above. Behind its end this is an error, and nothing is written.
        let end = unsafe { rd_kafka_header_get_all(list, at, &raw mut name, &raw mut value, &raw mut size) };
        if end.is_error() || name.is_null() {
            return;
        }
        // SAFETY: without an error `name` is a text that ends with a zero, and belongs to the list.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        // SAFETY: `value` is null, or there are `size` bytes, which belong to the list.
        let value = (!value.is_null()).then(|| unsafe { std::slice::from_raw_parts(value.cast::<u8>(), size) });
        if !show(name, value) {
            return;
        }
    }
}
