//! The calls about inputs on the board.

use std::sync::Arc;

use super::Status;
use super::inputs::InputState;

impl Status {
    /// Sets the state of an input; returns whether it is another one, whatever its reason.
    pub(crate) fn input(&self, input: &Arc<str>, state: InputState) -> bool {
        self.board().inputs.set(input, state)
    }

    /// Returns whether an input has no broker.
    pub(crate) fn input_is_down(&self, input: &Arc<str>) -> bool {
        matches!(self.board().inputs.state(input), Some(InputState::Unknown | InputState::Down(_)))
    }

    /// Returns whether an input waits for Redis.
    pub(crate) fn input_waits(&self, input: &Arc<str>) -> bool {
        matches!(self.board().inputs.state(input), Some(InputState::Waiting(_)))
    }
}
