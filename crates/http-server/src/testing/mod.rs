//! A client of one connection, and checks of an OpenAPI document, for tests of HTTP interfaces.

mod client;
mod document;
mod odd_heads;

pub use self::client::{Answer, Client};
pub use self::document::{assert_current, assert_describes, check};
pub use self::odd_heads::{ODD_HEADS, OddHead};
