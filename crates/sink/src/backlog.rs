//! Reads a destination back: its messages, from the first that was not taken yet to its end.

use bytes::Bytes;

use delaybridge_core::message::Failure;

/// A message of a destination.
#[derive(Debug, Clone)]
pub struct BacklogMessage {
    /// Position, for a person: `topic[0]@17`.
    pub place: String,
    /// The part of the destination that it is in.
    pub part: u64,
    /// Number in that part, from 1 on; later messages have larger ones.
    pub number: u64,
    /// The body.
    pub body: Bytes,
    /// The headers.
    pub headers: Vec<(String, Bytes)>,
}

/// The messages of a destination up to the end that it had at first, part by part. Every method blocks.
pub trait Backlog: Send {
    /// Returns the number of messages, as far as it is known before they are read.
    fn total(&self) -> u64;

    /// Reads the next messages, of one part; none after the last.
    ///
    /// # Errors
    /// The destination does not answer, or refuses.
    fn next(&mut self) -> Result<Vec<BacklogMessage>, Failure>;

    /// Marks this message as read: a reader of the same name begins behind it.
    ///
    /// # Errors
    /// The destination does not answer, or refuses: the message may be handed out again.
    fn taken(&mut self, message: &BacklogMessage) -> Result<(), Failure>;
}
