//! The path of an element: claim, deliver, judge, settle.
//!
//! The folders are in that order. [`claim`] waits until elements may be due, passes the [`gate`], reserves room in the
//! [`limits`] and claims; [`deliver`] brings each claim to its sinks; [`settle`] judges the answers and writes the verdict;
//! where the queue has a trail, [`audit`] records it first. [`leases`] keeps what is in flight ours meanwhile. Beside the path,
//! [`upkeep`] paces the upkeep of sources, [`dead_letters`] writes and forwards dead letters, and [`modes`] holds the queues
//! that do not deliver. [`watch`] notices a queue that none of them moves, [`pause`] knows what a person has paused. [`process`]
//! is what all queues share, [`queue`] what the tasks of one queue share, [`registry`] which queues are at work, [`retire`] ends
//! one of them. A task that first waits for an answer is `deferred`.

pub mod active;
pub mod audit;
pub mod claim;
pub mod dead_letters;
mod deferred;
pub mod deliver;
#[cfg(debug_assertions)]
pub mod fault_injection;
pub mod gate;
pub mod leases;
pub mod left;
pub mod limits;
pub mod modes;
pub mod pause;
pub mod process;
pub mod queue;
pub mod registry;
pub mod retire;
pub mod settle;
pub mod tail;
pub mod upkeep;
pub mod watch;

#[cfg(test)]
mod tests;
