//! Opens connections to servers, in the same way for every client.
//!
//! A connection is made in phases, which have names ([`Phase`]): the address of the name, TCP or a Unix socket, TLS, and then the words
//! of the protocol. [`Attempt`] knows the phase that it is in, so that an error, and a time-out above all, says where it
//! stood ([`DialError`]). A server may be behind an HTTP proxy ([`ProxyChoice`]). What comes out is a [`DialStream`], of one type for all of them.
//!
//! Certificates are read again for each connection, on a thread where a slow disk does no harm ([`Tls`]).

mod address;
mod attempt;
mod error;
mod pace;
mod proxy;
mod socket;
mod stream;
mod tcp;
mod tls;

pub use address::Address;
pub use attempt::{Attempt, Options};
pub use error::{DialError, Phase};
pub use pace::{Pace, ReadBudget};
pub use proxy::{Proxy, ProxyChoice};
pub use socket::WriteGate;
pub use stream::DialStream;
pub use tls::{Tls, explain, init, rustls_error};
