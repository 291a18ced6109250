//! Whether librdkafka may have written a record that it reports as failed.
//!
//! librdkafka knows this of every record (`rd_kafka_message_status`), and it decides whether a retry may be a duplicate.
//! The `rdkafka` crate returns the message but not its status, so there is one foreign call here. It is in a crate
//! of its own because delaybridge itself forbids unsafe code.

use rdkafka::bindings::{rd_kafka_message_status, rd_kafka_msg_status_t};
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
