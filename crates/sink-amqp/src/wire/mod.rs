//! The bytes that come from a broker, made readable for the client library.
//!
//! The library takes every short text of the protocol for UTF-8 and ends the connection at one that is not; it reads tables
//! within tables by recursion and overflows its stack. RabbitMQ passes both on, and any publisher can write them. A message
//! that is sent again after each connection would stop its queue for ever. So a stream of ours is below the library:
//! `stream` reads, `frames` finds the frames and replaces what the library cannot read, `table` says what that is.
//! `runtime` gives the library this stream.
//!
//! Nothing else may be changed here, and a message that was replaced says so ([`UNREADABLE`]): it may be rejected, as the broker
//! has it unchanged, and must not be taken.

mod frames;
mod runtime;
mod stream;
mod table;

pub(crate) use frames::UNREADABLE;
pub(crate) use runtime::runtime;
pub(crate) use stream::ReadableStream;
#[cfg(test)]
pub(crate) use table::DEEPEST;
