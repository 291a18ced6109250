//! The way in: messages that are published to a broker with a delay, and come out of it when they are due.

mod amqp;
mod amqp_odd;
mod amqp_returns;
mod check;
mod durable;
#[cfg(all(feature = "http", feature = "nats"))]
mod headers;
#[cfg(feature = "kafka")]
mod kafka;
mod large;
mod people;
#[cfg(feature = "kafka")]
mod programs;
