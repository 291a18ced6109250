//! The conveyor: claim, deliver, judge, settle.
//!
//! The files in the order of an element's way: a [`claimer`] wakes up ([`wake`]), passes the gate of breakers and hold
//! ([`circuit`], [`queue`]), makes room ([`budget`], [`rate`]) and claims ([`under_way`]); in the order of the claims ([`handover`]) the
//! [`relay`] brings each [`claim`] to its sinks ([`outlet`]) and to a verdict ([`retry`]); the settler ([`settle`]) writes
//! it. Beside them the leases are kept ([`lease`]), ghosts are swept ([`sweeper`]), dead letters are moved on
//! ([`forward`]), and Redis is watched ([`watch`]). Queues of the other modes have a task each: [`shadow`] and
//! [`rescue`].

pub mod adopt;
pub mod budget;
pub mod circuit;
pub mod claim;
pub mod claimer;
pub mod dead_letter;
pub mod forward;
pub mod handover;
pub mod held;
pub mod history;
pub mod in_flight;
pub mod lease;
pub mod outlet;
pub mod queue;
pub mod rate;
pub mod relay;
pub mod rescue;
pub mod retry;
pub mod settle;
pub mod shadow;
pub mod sweeper;
pub mod under_way;
pub mod wake;
pub mod watch;

#[cfg(test)]
mod tests;
