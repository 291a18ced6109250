//! What the clients of HTTP share.
//!
//! `origin` splits a URL into its server and the rest, `tls` has the settings of a connection, made of its files again when they
//! change, `address` opens a TCP connection. The webhook sink builds its pool on these. `connection` is one that carries a
//! request after the other, for a client with a pool of its own; `exchange` is one request on a connection of its own, with a time limit
//! and a bounded answer: for what is asked now and then, as a token.

mod address;
mod connection;
mod exchange;
mod origin;
mod tls;

pub use address::first_to_answer;
pub use connection::{HttpConnection, SendError};
pub use exchange::{ExchangeError, HttpAnswer, HttpPeer};
pub use origin::{HttpOrigin, default_port, split};
pub use tls::{Tls, explain};
