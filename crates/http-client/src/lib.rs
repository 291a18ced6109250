//! What the clients of HTTP share.
//!
//! `origin` splits a URL into its server and the rest. `connection` is one that carries a request after the other, for a client with a
//! pool of its own, `fair` bounds what its server may make it read; `exchange` is one request on a connection of its own, with a time limit and a bounded answer: for what is
//! asked now and then, as a token.

mod connection;
mod exchange;
mod fair;
mod origin;
mod proxy;

pub use connection::{HttpConnection, SendError};
pub use exchange::{ExchangeError, HttpAnswer, HttpPeer};
pub use fair::{FairStream, TooMany, read_budget};
pub use origin::{HttpOrigin, PLAIN, default_port, split};
pub use proxy::{read_proxy, shown_proxy};
