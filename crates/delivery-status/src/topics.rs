//! The ids of topics. A topic that is deleted and made again has another id, and the same name.

use std::ffi::{CStr, CString, c_int};
use std::ptr;
use std::time::Duration;

use rdkafka::bindings::{
    rd_kafka_AdminOptions_destroy, rd_kafka_AdminOptions_new, rd_kafka_AdminOptions_set_request_timeout,
    rd_kafka_AdminOptions_t, rd_kafka_DescribeTopics, rd_kafka_DescribeTopics_result_topics,
    rd_kafka_TopicCollection_destroy, rd_kafka_TopicCollection_of_topic_names, rd_kafka_TopicCollection_t,
    rd_kafka_TopicDescription_error, rd_kafka_TopicDescription_name, rd_kafka_TopicDescription_partitions,
    rd_kafka_TopicDescription_t, rd_kafka_TopicDescription_topic_id, rd_kafka_Uuid_base64str,
    rd_kafka_Uuid_least_significant_bits, rd_kafka_Uuid_most_significant_bits, rd_kafka_admin_op_t,
    rd_kafka_error_code, rd_kafka_event_DescribeTopics_result, rd_kafka_event_destroy, rd_kafka_event_error,
    rd_kafka_event_t, rd_kafka_queue_destroy, rd_kafka_queue_new, rd_kafka_queue_poll, rd_kafka_queue_t,
    rd_kafka_resp_err_t,
};
use rdkafka::client::{Client, ClientContext};
use rdkafka::error::{IsError, KafkaError, KafkaResult};
use rdkafka::types::RDKafkaErrorCode;

/// The answer about one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicDescription {
    /// The name.
    pub name: String,
    /// The id, in base64; `None` from brokers before Kafka 2.8.
    pub id: Option<String>,
    /// The number of partitions.
    pub partitions: usize,
}

/// A native object, and the function that gives it back.
struct Native<T>(*mut T, unsafe extern "C" fn(*mut T));

impl<T> Native<T> {
    /// Takes over an object, unless it is null.
    fn new(object: *mut T, destroy: unsafe extern "C" fn(*mut T)) -> Option<Native<T>> {
        (!object.is_null()).then_some(Native(object, destroy))
    }
}

impl<T> Drop for Native<T> {
    fn drop(&mut self) {
        // SAFETY: the object is not null, has no other owner, and is given back once.
        unsafe { (self.1)(self.0) }
    }
}

/// Asks a broker for these topics, which differ. Those that do not exist, or may not be seen, are not in the answer. Blocks.
///
/// # Errors
///
/// No broker has answered within `timeout`, or the question cannot be asked.
pub fn describe<C: ClientContext>(
    client: &Client<C>,
    topics: &[&str],
    timeout: Duration,
) -> KafkaResult<Vec<TopicDescription>> {
    let names: Vec<CString> = topics.iter().map(|name| CString::new(*name)).collect::<Result<_, _>>()?;
    let mut pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
    let failed = || KafkaError::AdminOpCreation("describe topics: no room".to_owned());
    let timeout_ms = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);
    let rk = client.native_ptr();
    // SAFETY: the names live beyond the call, which copies them.
    let collection: *mut rd_kafka_TopicCollection_t =
        unsafe { rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len()) };
    let collection = Native::new(collection, rd_kafka_TopicCollection_destroy).ok_or_else(failed)?;
    // SAFETY: the client lives as long as `client`.
    let options: *mut rd_kafka_AdminOptions_t =
        unsafe { rd_kafka_AdminOptions_new(rk, rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS) };
    let options = Native::new(options, rd_kafka_AdminOptions_destroy).ok_or_else(failed)?;
    // SAFETY: the options are valid; no text of an error is wanted.
    let set = unsafe { rd_kafka_AdminOptions_set_request_timeout(options.0, timeout_ms, ptr::null_mut(), 0) };
    checked(set)?;
    // SAFETY: the client lives as long as `client`.
    let queue: *mut rd_kafka_queue_t = unsafe { rd_kafka_queue_new(rk) };
    let queue = Native::new(queue, rd_kafka_queue_destroy).ok_or_else(failed)?;
    // SAFETY: all are valid during the call, which copies what it needs and keeps a reference of its own to the queue.
    unsafe { rd_kafka_DescribeTopics(rk, collection.0, options.0, queue.0) };
    // SAFETY: the queue is valid. The answer is one event, which comes within the time-out of the request.
    let event: *mut rd_kafka_event_t = unsafe { rd_kafka_queue_poll(queue.0, timeout_ms.saturating_add(1_000)) };
    let timed_out = || KafkaError::AdminOp(RDKafkaErrorCode::OperationTimedOut);
    let event = Native::new(event, rd_kafka_event_destroy).ok_or_else(timed_out)?;
    // SAFETY: the event is valid.
    checked(unsafe { rd_kafka_event_error(event.0) })?;
    // SAFETY: the event is valid, and the result, if it is one of this kind, belongs to it.
    let result = unsafe { rd_kafka_event_DescribeTopics_result(event.0) };
    if result.is_null() {
        return Err(timed_out());
    }
    let mut count = 0;
    // SAFETY: the result is valid as long as the event.
    let found = unsafe { rd_kafka_DescribeTopics_result_topics(result, &raw mut count) };
    if found.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: there are `count` pointers to descriptions, which belong to the event.
    let found = unsafe { std::slice::from_raw_parts(found, count) };
    Ok(found.iter().filter_map(|topic| description(*topic)).collect())
}

/// Reads one description, which belongs to an event; `None` if it has an error.
fn description(topic: *const rd_kafka_TopicDescription_t) -> Option<TopicDescription> {
    if topic.is_null() {
        return None;
    }
    // SAFETY: the description is valid. Its error belongs to it, or is null, which is none.
    let error = unsafe { rd_kafka_error_code(rd_kafka_TopicDescription_error(topic)) };
    if error.is_error() {
        return None;
    }
    let mut partitions = 0;
    // SAFETY: the description is valid, and the call writes a number.
    unsafe { rd_kafka_TopicDescription_partitions(topic, &raw mut partitions) };
    // SAFETY: the description is valid; its name is a text that ends with a zero, and belongs to it.
    let name = unsafe { CStr::from_ptr(rd_kafka_TopicDescription_name(topic)) };
    // SAFETY: the description is valid, and its id belongs to it.
    let id = unsafe { rd_kafka_TopicDescription_topic_id(topic) };
    let id = (!id.is_null()).then(|| {
        // SAFETY: the id is valid as long as the description.
        let bits = unsafe { (rd_kafka_Uuid_most_significant_bits(id), rd_kafka_Uuid_least_significant_bits(id)) };
        // SAFETY: the same. The text belongs to the id.
        let text = unsafe { rd_kafka_Uuid_base64str(id) };
        // SAFETY: the text ends with a zero.
        (bits != (0, 0) && !text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    });
    Some(TopicDescription { name: name.to_string_lossy().into_owned(), id: id.flatten(), partitions })
}

fn checked(error: rd_kafka_resp_err_t) -> KafkaResult<()> {
    if error.is_error() { Err(KafkaError::AdminOp(error.into())) } else { Ok(()) }
}
