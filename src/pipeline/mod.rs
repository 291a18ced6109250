//! The conveyor: claim, deliver, judge, settle.
//!
//! So far what decides, without what does: when a claimer looks ([`wake`]), whether it may claim ([`circuit`]) and how
//! much ([`budget`], [`rate`], [`in_flight`]), what becomes of an element after its sinks have answered ([`retry`]), and
//! what is remembered of it for a dead letter ([`history`]).

pub mod budget;
pub mod circuit;
pub mod history;
pub mod in_flight;
pub mod rate;
pub mod retry;
pub mod wake;
