//! The calls of a producer as scripts, keys and arguments, without a connection: whoever has one of another kind sends them.

use crate::clock::{Clock, Due};
use crate::keys::Keys;
use crate::layout::{self, Layout};
use crate::offer::{Id, Offer};
use crate::payload::Payload;

/// How long the mark of an id lives, in ms: a producer that repeats an offer does so within ten minutes.
const MARK_MS: &str = "600000";

/// A script. The head of its text documents keys, arguments and answers, and what a second call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// One offer.
    Offer,
    /// The end of one offer.
    Cancel,
    /// The end of elements that were read before.
    Remove,
    /// Another due time.
    Reschedule,
}

impl Text {
    /// All of them.
    pub const ALL: [Text; 4] = [Text::Offer, Text::Cancel, Text::Remove, Text::Reschedule];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Text::Offer => "offer",
            Text::Cancel => "cancel",
            Text::Remove => "remove",
            Text::Reschedule => "reschedule",
        }
    }

    /// Its text in Lua.
    pub fn text(self) -> &'static str {
        match self {
            Text::Offer => include_str!("../lua/offer.lua"),
            Text::Cancel => include_str!("../lua/cancel.lua"),
            Text::Remove => include_str!("../lua/remove.lua"),
            Text::Reschedule => include_str!("../lua/reschedule.lua"),
        }
    }
}

/// A call of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The script.
    pub script: Text,
    /// Its keys.
    pub keys: Vec<String>,
    /// Its arguments.
    pub args: Vec<Vec<u8>>,
}

/// A queue as its producer sees it: what to send for each of its wishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calls {
    /// The names in Redis.
    pub keys: Keys,
    /// The layout of its elements.
    pub layout: Layout,
    /// The clock that delays are counted from.
    pub clock: Clock,
}

impl Calls {
    /// Offers a payload under an id. With `marked` the id is the caller's, and an offer that is repeated after its element
    /// was delivered is recognised by a mark.
    pub fn offer(&self, id: Id, marked: bool, payload: &Payload, due: Due) -> Call {
        let (word, ms) = match due {
            Due::At(ms) => ("at", ms),
            Due::After(delay) => {
                let delay = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
                match self.clock.now_ms() {
                    Some(now) => ("at", now.saturating_add(delay)),
                    None => ("after", delay),
                }
            }
        };
        let element = layout::pack(self.layout, id.0, payload.as_bytes());
        let mut keys = vec![self.keys.timeout.clone(), self.keys.list.clone()];
        if marked {
            keys.push(format!("{}{id}", self.keys.mark));
        }
        let args = vec![self.channel(), element, word.into(), text(ms), MARK_MS.into()];
        Call { script: Text::Offer, keys, args }
    }

    /// Cancels an offer.
    pub fn cancel(&self, offer: Offer) -> Call {
        let args = vec![text(offer.due_ms), self.prefix(offer.id)];
        Call { script: Text::Cancel, keys: vec![self.keys.timeout.clone(), self.keys.list.clone()], args }
    }

    /// Removes elements, byte for byte.
    pub fn remove(&self, elements: Vec<Vec<u8>>) -> Call {
        let keys = vec![self.keys.timeout.clone(), self.keys.list.clone()];
        Call { script: Text::Remove, keys, args: elements }
    }

    /// Gives an offer another due time.
    pub fn reschedule(&self, offer: Offer, due_ms: i64) -> Call {
        let args = vec![self.channel(), text(offer.due_ms), self.prefix(offer.id), text(due_ms)];
        Call { script: Text::Reschedule, keys: vec![self.keys.timeout.clone()], args }
    }

    fn channel(&self) -> Vec<u8> {
        self.keys.channel.clone().into_bytes()
    }

    /// What an element with this id begins with.
    fn prefix(&self, id: Id) -> Vec<u8> {
        let mut start = layout::pack(self.layout, id.0, &[]);
        start.truncate(self.layout.header() - 8);
        start
    }
}

fn text(ms: i64) -> Vec<u8> {
    ms.to_string().into_bytes()
}
