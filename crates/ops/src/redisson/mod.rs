//! Operations that exist for Redisson only: offers, its two layouts, finding its queues, and the way back to its keys.

pub mod discover;
pub(crate) mod guess;
mod layout_arg;
pub mod migrate;
pub mod offer;
pub mod restore;
mod survey;

pub use self::layout_arg::{ClientLayout, LayoutArg};
use super::error::Error;
use super::session::Queue;
use delaybridge_source::redisson::Redisson;
pub use delaybridge_source::redisson::layout::Layout;

impl Queue {
    /// Refuses a queue that is not Redisson's. `instead` says what does the same as `command` there.
    fn only_of_redisson(&self, command: &str, instead: &str) -> Result<(), Error> {
        match self.spec.source.redisson() {
            Some(_) => Ok(()),
            None => Err(Error::invalid(format!(
                "{command} `{}`: only a queue of Redisson can do that, and the source of this one is `{}`; {instead}",
                self.spec.id,
                self.spec.source.kind().key.name
            ))),
        }
    }

    /// Returns the queue as one of Redisson, behind [`only_of_redisson`](Queue::only_of_redisson).
    fn redisson(&self) -> Redisson {
        match self.spec.source.redisson() {
            Some(source) => Redisson::configured(source, [0; 8]),
            None => unreachable!("the first step of a command on Redisson's queues asks what the source is"),
        }
    }
}

/// Returns the word for a layout.
pub fn name(layout: Layout) -> &'static str {
    layout.as_str()
}
