//! A client of one connection, and the check of an answer against an OpenAPI document, for tests of HTTP interfaces.

mod client;
mod conforms;

pub use self::client::{Answer, Client};
pub use self::conforms::check;
