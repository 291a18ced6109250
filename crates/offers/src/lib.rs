//! Offers elements to delayed queues of Redisson (`RDelayedQueue`), as its own clients do and without a JVM.
//!
#![doc = include_str!("../README.md")]

mod call;
mod clock;
mod error;
mod keys;
pub mod layout;
mod offer;
mod offers;
mod payload;

pub use self::call::{Call, Calls, Element, Text};
pub use self::clock::{Clock, Due};
pub use self::error::{Error, Invalid};
pub use self::keys::{Keys, tagged};
pub use self::layout::Layout;
pub use self::offer::{Id, Malformed, Offer};
pub use self::offers::{DelayedOffers, Request};
pub use self::payload::Payload;
#[doc(no_inline)]
pub use redis;
