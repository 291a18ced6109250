//! The calls of a producer as scripts, keys and arguments, without a connection: whoever has one of another kind sends them.

use crate::clock::{Clock, Due};
use crate::error::Invalid;
use crate::keys::Keys;
use crate::layout::{self, Layout};
use crate::offer::{Id, Offer};
use crate::payload::Payload;

/// The life of the key of a caller's id, in ms: a producer that repeats an offer does so within ten minutes.
const WINDOW_MS: &str = "600000";

/// The largest score of which every whole number below is one too.
const LATEST: i64 = 1 << 53;

/// A script. The head of its text documents keys, arguments and answers, and what a second call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// Schedules elements.
    Offer,
    /// Cancels elements, or moves one.
    Change,
}

impl Text {
    /// All of them.
    pub const ALL: [Text; 2] = [Text::Offer, Text::Change];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Text::Offer => "offer",
            Text::Change => "change",
        }
    }

    /// Returns the text in Lua.
    pub fn text(self) -> &'static str {
        match self {
            Text::Offer => include_str!("../lua/offer.lua"),
            Text::Change => include_str!("../lua/change.lua"),
        }
    }
}

/// A call of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The script.
    pub script: Text,
    /// The keys.
    pub keys: Vec<String>,
    /// The arguments.
    pub args: Vec<Vec<u8>>,
}

impl Call {
    /// Offers packed elements, all or none: for each the time as the script takes it, the bytes, and the id if the caller
    /// chose it.
    pub fn offer(keys: &Keys, elements: impl IntoIterator<Item = (String, Vec<u8>, Option<Id>)>) -> Call {
        let Keys { timeout, list, channel, mark } = keys.clone();
        let mut keys = vec![timeout, list];
        let mut args = vec![channel.into_bytes(), WINDOW_MS.into()];
        for (time, element, chosen) in elements {
            let mut place = 0;
            if let Some(id) = chosen {
                keys.push(format!("{mark}{id}"));
                place = keys.len();
            }
            args.extend([time.into_bytes(), element, place.to_string().into_bytes()]);
        }
        Call { script: Text::Offer, keys, args }
    }
}

/// An offer with its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element<'a> {
    /// The id.
    pub id: Id,
    /// Whether the caller chose the id: then a key of its own shows that it was offered, also after the element has left.
    pub chosen: bool,
    /// The payload.
    pub payload: &'a Payload,
    /// The due time.
    pub due: Due,
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
    /// Offers elements, all or none. The answer has the due time of each, as text.
    ///
    /// # Errors
    ///
    /// [`Invalid`], before anything is sent.
    pub fn offer(&self, elements: &[Element<'_>]) -> Result<Call, Invalid> {
        let packed = elements.iter().map(|element| {
            let payload = element.payload.as_bytes();
            if self.layout == Layout::New && payload.is_empty() && element.id.looks_old() {
                return Err(Invalid::Id);
            }
            let bytes = layout::pack(self.layout, element.id.0, payload);
            Ok((self.time(element.due)?, bytes, element.chosen.then_some(element.id)))
        });
        Ok(Call::offer(&self.keys, packed.collect::<Result<Vec<_>, _>>()?))
    }

    /// Cancels an offer. The answer is 1 if it was scheduled, else 0.
    pub fn cancel(&self, offer: Offer) -> Call {
        self.change("cancel", vec![text(offer.due_ms), offer.id.0.into()])
    }

    /// Removes elements, byte for byte. The answer says how many were scheduled.
    pub fn remove(&self, elements: Vec<Vec<u8>>) -> Call {
        self.change("remove", elements)
    }

    /// Gives an offer another due time. The answer is 1 if it was scheduled, else 0.
    ///
    /// # Errors
    ///
    /// [`Invalid::Due`], before anything is sent.
    pub fn reschedule(&self, offer: Offer, due_ms: i64) -> Result<Call, Invalid> {
        let to = within(due_ms)?;
        Ok(self.change("move", vec![text(offer.due_ms), offer.id.0.into(), text(to), self.channel()]))
    }

    fn change(&self, word: &str, args: Vec<Vec<u8>>) -> Call {
        let keys = vec![self.keys.timeout.clone(), self.keys.list.clone()];
        Call { script: Text::Change, keys, args: std::iter::once(word.as_bytes().to_vec()).chain(args).collect() }
    }

    /// Computes the time as the script takes it.
    fn time(&self, due: Due) -> Result<String, Invalid> {
        let at = match due {
            Due::At(ms) => ms,
            Due::After(delay) => {
                let delay = i64::try_from(delay.as_millis()).map_err(|_| Invalid::Due)?;
                match self.clock.now_ms() {
                    Some(now) => now.saturating_add(delay),
                    None => return Ok(format!("+{}", within(delay)?)),
                }
            }
        };
        within(at).map(|at| at.to_string())
    }

    fn channel(&self) -> Vec<u8> {
        self.keys.channel.clone().into_bytes()
    }
}

fn within(ms: i64) -> Result<i64, Invalid> {
    if (0..=LATEST).contains(&ms) { Ok(ms) } else { Err(Invalid::Due) }
}

fn text(ms: i64) -> Vec<u8> {
    ms.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn calls(clock: Clock) -> Calls {
        Calls { keys: Keys::of("orders"), layout: Layout::New, clock }
    }

    #[test]
    fn a_call_has_the_keys_and_arguments_that_the_script_documents() {
        let a = Payload::from("a");
        let b = Payload::from("b");
        let element = |id: &[u8; 8], chosen, payload, due| Element { id: Id(*id), chosen, payload, due };
        let call = calls(Clock::Redis)
            .offer(&[
                element(b"RANDOM8B", false, &a, Due::After(Duration::from_secs(5))),
                element(b"RANDOM8C", true, &b, Due::At(7)),
            ])
            .unwrap();
        let mark = "delaybridge:offer:{orders}:52414e444f4d3843";
        assert_eq!(call.keys, ["redisson_delay_queue_timeout:{orders}", "redisson_delay_queue:{orders}", mark]);
        let element = |id: &str, payload: &str| format!("\u{8}{id}\u{1}\0\0\0\0\0\0\0{payload}");
        let expected = [
            "redisson_delay_queue_channel:{orders}".to_owned(),
            "600000".to_owned(),
            "+5000".to_owned(),
            element("RANDOM8B", "a"),
            "0".to_owned(),
            "7".to_owned(),
            element("RANDOM8C", "b"),
            "3".to_owned(),
        ];
        assert_eq!(call.args, expected.map(String::into_bytes));
    }

    #[test]
    fn what_no_reader_understands_is_refused() {
        let empty = Payload::from("");
        let full = Payload::from("x");
        let offer = |clock, id: [u8; 8], payload, due| {
            calls(clock).offer(&[Element { id: Id(id), chosen: true, payload, due }]).map(drop)
        };
        let id = [1, 2, 3, 4, 5, 6, 0x43, 1];
        assert_eq!(offer(Clock::Redis, id, &empty, Due::At(1)), Err(Invalid::Id));
        assert_eq!(offer(Clock::Redis, id, &full, Due::At(1)), Ok(()));
        assert_eq!(offer(Clock::Redis, id, &full, Due::At(-1)), Err(Invalid::Due));
        assert_eq!(offer(Clock::Redis, id, &full, Due::At(LATEST + 1)), Err(Invalid::Due));
        for clock in [Clock::Redis, Clock::Producer] {
            assert_eq!(offer(clock, id, &full, Due::After(Duration::MAX)), Err(Invalid::Due));
        }
        assert_eq!(calls(Clock::Redis).reschedule(Offer { id: Id(id), due_ms: 1 }, -1), Err(Invalid::Due));
    }
}
