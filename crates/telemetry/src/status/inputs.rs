//! The inputs on the board: whether each of them takes messages, and why not.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::answer::{List, age};
use delaybridge_core::clock::Instant;

/// The state of an input as one daemon sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InputState {
    /// The broker has not been reached yet.
    Unknown,
    /// Messages are taken.
    Up,
    /// No message is taken until Redis has room for its job.
    Waiting(String),
    /// No message can be taken.
    Down(String),
    /// Messages are taken, and some are held that can neither be scheduled nor given away.
    Holding(String),
}

impl InputState {
    pub(super) fn word(&self) -> &'static str {
        match self {
            InputState::Unknown => "unknown",
            InputState::Up => "up",
            InputState::Waiting(_) => "waiting",
            InputState::Down(_) => "down",
            InputState::Holding(_) => "holding",
        }
    }

    pub(super) fn reason(&self) -> &str {
        match self {
            InputState::Unknown => "no answer yet",
            InputState::Up => "",
            InputState::Waiting(reason) | InputState::Down(reason) | InputState::Holding(reason) => reason,
        }
    }
}

/// An input on the board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputLook {
    /// `unknown`, `up`, `waiting`, `holding` or `down`.
    pub state: &'static str,
    /// The reason why it takes no messages, or holds some.
    pub reason: Option<String>,
    /// The age of this state, in seconds.
    pub seconds: u64,
}

/// The states of all inputs.
#[derive(Default)]
pub(super) struct Inputs(BTreeMap<Arc<str>, (InputState, Instant)>);

impl Inputs {
    /// Returns whether all of them take messages, or could if Redis had room.
    pub(super) fn are_usable(&self) -> bool {
        !self.0.values().any(|(state, _)| matches!(state, InputState::Unknown | InputState::Down(_)))
    }

    /// Lists the inputs in trouble for the readiness probe; `None` without inputs.
    pub(super) fn shown(&self) -> Option<Value> {
        let mut troubled = List::default();
        for (input, (state, since)) in self.0.iter().filter(|(_, (state, _))| *state != InputState::Up) {
            let entry = json!({ "state": state.word(), "reason": state.reason(), "seconds": age(*since) });
            troubled.add(input, || entry);
        }
        (!self.0.is_empty()).then(|| troubled.close(self.0.len(), "not_up"))
    }
}

impl Inputs {
    /// Sets the state of an input; returns whether it is another one, whatever its reason.
    pub(super) fn set(&mut self, input: &Arc<str>, state: InputState) -> bool {
        let known = self.0.entry(input.clone()).or_insert_with(|| (InputState::Unknown, Instant::now()));
        let news = known.0.word() != state.word();
        if news {
            known.1 = Instant::now();
        }
        known.0 = state;
        news
    }

    /// Returns the states of all inputs, for a person.
    pub(super) fn looks(&self) -> impl Iterator<Item = (Arc<str>, InputLook)> {
        self.0.iter().map(|(input, (state, since))| {
            let reason = Some(state.reason()).filter(|reason| !reason.is_empty()).map(str::to_owned);
            (input.clone(), InputLook { state: state.word(), reason, seconds: age(*since) })
        })
    }

    pub(super) fn state(&self, input: &Arc<str>) -> Option<&InputState> {
        self.0.get(input).map(|(state, _)| state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Status;

    #[test]
    fn a_probe_names_the_inputs_that_take_nothing() {
        let status = Status::new();
        let (late, logs): (Arc<str>, Arc<str>) = ("late".into(), "logs".into());
        assert!(!status.input(&late, InputState::Unknown));
        assert!(status.input(&logs, InputState::Up));
        let inputs = |status: &Status| status.ready().body["inputs"].clone();
        assert_eq!(inputs(&status)["reasons"]["late"]["reason"], "no answer yet");
        assert!(status.input(&late, InputState::Down("connect to AMQP".to_owned())));
        assert!(!status.input(&late, InputState::Down("another reason".to_owned())));
        assert_eq!((&inputs(&status)["not_up"], &inputs(&status)["total"]), (&json!(1), &json!(2)));
        assert_eq!(inputs(&status)["reasons"]["late"]["reason"], "another reason");
        let looks = status.look().inputs;
        assert_eq!((looks["late"].state, looks["late"].reason.as_deref()), ("down", Some("another reason")));
        assert_eq!((looks["logs"].state, looks["logs"].reason.as_deref()), ("up", None));
    }
}
