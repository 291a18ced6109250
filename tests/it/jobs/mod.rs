//! The job queue's scripts compared with a model, with planted bugs, and with consumers that are killed.

mod cli;
mod crowd;
mod directed;
mod dispenser;
mod forwarding;
mod limits;
mod model;
mod model_add;
mod model_recurring;
mod moving;
mod planted;
mod priorities;
pub mod random;
mod random_many;
mod random_recurring;
mod recurring;
mod rest;
pub mod rig;
mod slots;
mod strangers;
