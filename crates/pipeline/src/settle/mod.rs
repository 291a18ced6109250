//! Writes verdicts to Redis: claims that were confirmed as a whole by their names, other verdicts one by one in batches.
//! Each sending takes what has gathered while the last one was on its way.
//!
//! A verdict with a lost answer is sent again until it is answered: a repeated verdict is answered as done, and nothing is
//! done twice (R2). Until then the element keeps its lease and its room.

pub mod judge;
pub mod recent;
mod send;
mod settler;
mod singles;
pub mod verdict;
mod wholes;

pub use self::settler::{Settler, VerdictWriter};
