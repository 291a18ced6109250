//! The calls on claims, one after the other, on a real server with a clock that the test sets.

mod calls;
mod list;
mod others;
mod rig;
pub mod rights;
