//! A client of one connection, and checks of an OpenAPI document, for tests of HTTP interfaces.

mod client;
mod conforms;
mod current;
mod described;
mod odd_heads;

pub use self::client::{Answer, Client};
pub use self::conforms::check;
pub use self::current::assert_current;
pub use self::described::assert_describes;
pub use self::odd_heads::{ODD_HEADS, OddHead};
