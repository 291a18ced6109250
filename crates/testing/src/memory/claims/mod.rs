//! Claims in memory: a file for each call that is more than a few lines.

mod calls;
mod claim;
mod settle;
mod takeover;
#[cfg(test)]
mod tests;
