//! Claims in memory: what each call does, and what a test sees of it.

mod calls;
mod claim;
mod settle;
mod takeover;
#[cfg(test)]
mod tests;
