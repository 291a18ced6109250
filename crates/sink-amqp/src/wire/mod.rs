//! The bytes that come from a broker, bounded, and made readable for the client library.
//!
//! The library takes every short text of the protocol for UTF-8 and ends the connection at one that is not; it reads tables
//! within tables by recursion and overflows its stack. RabbitMQ passes both on, and any publisher can write them. A message
//! that is sent again after each connection would stop its queue for ever. It also believes every length, keeps whatever it is
//! sent, and answers whatever it is asked. So a stream of ours is below the library: `stream` reads and writes, `frames` finds the
//! frames that come, measures them, and replaces what the library cannot read, `table` says what that is. `sent` finds the frames
//! that go, `expected` knows by them what the broker may send. `arriving` bounds the messages of consumers. `runtime` gives the library
//! this stream.
//!
//! Nothing else may be changed here, and a message that was replaced says so ([`UNREADABLE`], [`TOO_LARGE`]): it may be rejected, as
//! the broker has it unchanged, and must not be taken.

mod arriving;
mod expected;
mod frames;
mod runtime;
mod sent;
mod stream;
mod table;

use std::{error, fmt, io};

pub(crate) use arriving::Arriving;
pub(crate) use runtime::runtime;
pub(crate) use stream::ReadableStream;
#[cfg(test)]
pub(crate) use table::DEEPEST;

/// The header of a message of which a part was replaced: the message itself is not what the broker has.
pub(crate) const UNREADABLE: &str = "delaybridge-unreadable";
/// The header of a message whose body is larger than the input takes, and was left out.
pub(crate) const TOO_LARGE: &str = "delaybridge-too-large";

/// A breach of the protocol by the broker, as a part of a sentence. It ends the connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation(String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the broker breaks the protocol: {}", self.0)
    }
}

impl error::Error for Violation {}

impl From<Violation> for io::Error {
    fn from(violation: Violation) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, violation)
    }
}
