//! What the broker may send on a connection, by what was sent to it. Pure.
//!
//! The library believes a broker: it keeps every returned message until a confirmation takes it, every delivery until it is
//! taken, and an answer to every `channel.flow`; a confirmation of an unknown tag it takes for the broker's refusal of all
//! messages of the channel. So each frame is compared with what went out before. What no broker does ends the connection;
//! confirmations that match nothing are dropped, as they say nothing about any message.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Violation;
use super::table::Rest;

/// Types of frames.
pub(super) const METHOD: u8 = 1;
pub(super) const HEADER: u8 = 2;
pub(super) const BODY: u8 = 3;

/// Answers that the broker has asked for and that were not sent yet: RabbitMQ never waits for more than one of a channel.
const OWED: usize = 1_000;
/// Methods in a row that nothing asked for, without a frame of ours between them. Heartbeats are frames.
const UNASKED: usize = 1_000;

/// The fate of the frame of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Pass,
    Drop,
}

/// The message that a header or a body belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A message of a consumer, or one that was asked for.
    Message,
    /// A message of ours that came back.
    Return,
}

/// The part of a message that is to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Nothing,
    Header(Content),
    /// The bytes of a body that are left, its size, and whether it passes.
    Body {
        left: u64,
        size: u64,
        passes: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BodyPart {
    pub(super) passes: bool,
    /// The size of the message that has passed whole with it, or zero.
    pub(super) message: u64,
}

/// One connection.
#[derive(Debug, Default)]
pub(super) struct Expected {
    channels: BTreeMap<u16, Channel>,
    owed: usize,
    unasked: usize,
}

/// One channel that was opened.
#[derive(Debug, Default)]
struct Channel {
    /// The message that the broker is sending.
    incoming: Part,
    /// The bytes that are left of the message that is sent to it; `None` between messages.
    outgoing: Option<u64>,
    confirms: bool,
    unconfirmed: Unconfirmed,
    /// Messages that may come back: those that were sent, less those that did, and at most as many as wait for a confirmation,
    /// because a message comes back before it is confirmed.
    returnable: u64,
    prefetch: u16,
    /// Deliveries that were not settled, and the most of them that the prefetch allows.
    unsettled: BTreeSet<u64>,
    most_unsettled: usize,
}

/// The messages of a channel that wait for a confirmation.
#[derive(Debug, Default)]
struct Unconfirmed {
    /// The tag in front of the first one.
    before: u64,
    /// Whether each of the following tags waits.
    waits: VecDeque<bool>,
    /// The number of tags that wait.
    count: u64,
}

impl Unconfirmed {
    fn published(&mut self) {
        self.waits.push_back(true);
        self.count += 1;
    }

    /// Takes a confirmation in; false if it matches no message.
    fn confirmed(&mut self, tag: u64, multiple: bool) -> bool {
        if multiple && tag == 0 {
            self.before += self.waits.len() as u64;
            self.waits.clear();
            return std::mem::take(&mut self.count) > 0;
        }
        let Some(place) = tag.checked_sub(self.before + 1).and_then(|place| usize::try_from(place).ok()) else {
            return false;
        };
        if place >= self.waits.len() {
            return false;
        }
        let from = if multiple { 0 } else { place };
        let some = self.waits.range_mut(from..=place);
        let ended: u64 = some.map(|waits| u64::from(std::mem::take(waits))).sum();
        self.count -= ended;
        while self.waits.front() == Some(&false) {
            self.waits.pop_front();
            self.before += 1;
        }
        ended > 0
    }
}

impl Expected {
    /// Takes in a method of the broker.
    pub(super) fn method(&mut self, channel: u16, number: [u16; 2], arguments: &[u8]) -> Result<Fate, Violation> {
        let at = channel;
        let mut rest = Rest(arguments);
        match number {
            // basic.return, basic.deliver, basic.get-ok
            [60, 50 | 60 | 71] => {
                let channel = self.channels.get_mut(&at).ok_or_else(|| unexpected("a message", at))?;
                if channel.incoming != Part::Nothing {
                    return Err(unexpected("a message within another one", at));
                }
                channel.incoming = Part::Header(Content::Message);
                match number[1] {
                    50 => {
                        channel.incoming = Part::Header(Content::Return);
                        let left = channel.returnable.checked_sub(1);
                        channel.returnable =
                            left.ok_or_else(|| unexpected("more returned messages than were sent", at))?;
                    }
                    60 => {
                        let tag = rest.short().and_then(|_| rest.long_long());
                        channel.unsettled.insert(tag.ok_or_else(|| unexpected("a delivery without a tag", at))?);
                        if channel.unsettled.len() > channel.most_unsettled {
                            return Err(unexpected("more messages than the prefetch allows", at));
                        }
                    }
                    _ => {}
                }
            }
            // basic.ack, basic.nack
            [60, 80 | 120] => {
                let Some(channel) = self.channels.get_mut(&at).filter(|channel| channel.confirms) else {
                    return Ok(Fate::Pass);
                };
                let (Some(tag), Some(bits)) = (rest.long_long(), rest.byte()) else { return Ok(Fate::Pass) };
                if !channel.unconfirmed.confirmed(tag, bits & 1 == 1) {
                    return Ok(Fate::Drop);
                }
                channel.returnable = channel.returnable.min(channel.unconfirmed.count);
            }
            // channel.flow, channel.close, connection.close
            [20, 20 | 40] | [10, 50] => self.owe()?,
            // basic.cancel, unless it asks for no answer
            [60, 30] => {
                let bits = rest.short().and_then(|_| rest.byte()).unwrap_or(0);
                if bits & 1 == 0 {
                    self.owe()?;
                }
            }
            // channel.close-ok
            [20, 41] => {
                self.channels.remove(&at);
            }
            _ => {
                self.unasked += 1;
                if self.unasked > UNASKED {
                    return Err(Violation(format!("it has sent {UNASKED} methods in a row that nothing asked for")));
                }
            }
        }
        Ok(Fate::Pass)
    }

    fn owe(&mut self) -> Result<(), Violation> {
        self.owed += 1;
        if self.owed > OWED {
            Err(Violation(format!("it has asked for {OWED} answers without reading them")))
        } else {
            Ok(())
        }
    }

    /// Takes in a header of the broker: what it belongs to. `passes` says whether a body of this size does.
    pub(super) fn header(
        &mut self,
        channel: u16,
        size: u64,
        passes: impl FnOnce(Content) -> bool,
    ) -> Result<(Content, bool), Violation> {
        let place = self.channels.get_mut(&channel).map(|channel| &mut channel.incoming);
        let Some(place @ &mut Part::Header(content)) = place else {
            return Err(unexpected("a header of no message", channel));
        };
        let passes = passes(content);
        *place = if size == 0 { Part::Nothing } else { Part::Body { left: size, size, passes } };
        Ok((content, passes))
    }

    /// Takes in a part of a body of the broker.
    pub(super) fn body(&mut self, channel: u16, more: u64) -> Result<BodyPart, Violation> {
        let place = self.channels.get_mut(&channel).map(|channel| &mut channel.incoming);
        let Some(place @ &mut Part::Body { left, size, passes }) = place else {
            return Err(unexpected("a body of no message", channel));
        };
        let left = left.checked_sub(more).ok_or_else(|| unexpected("more of a body than announced", channel))?;
        *place = if left == 0 { Part::Nothing } else { Part::Body { left, size, passes } };
        Ok(BodyPart { passes, message: if passes && left == 0 { size } else { 0 } })
    }

    /// Takes in a frame that was sent to the broker, to its last byte. `begin` has the first bytes of its payload.
    pub(super) fn sent(&mut self, kind: u8, channel: u16, size: u64, begin: &[u8]) {
        self.unasked = 0;
        let mut rest = Rest(begin);
        match kind {
            METHOD => {
                let (Some(class), Some(method)) = (rest.short_int(), rest.short_int()) else { return };
                self.sent_method(channel, [class, method], rest);
            }
            HEADER => {
                let size = rest.take(4).and_then(|_| rest.long_long()).unwrap_or(0);
                self.sent_body(channel, size, 0);
            }
            BODY => {
                let left = self.channels.get(&channel).and_then(|channel| channel.outgoing).unwrap_or(0);
                self.sent_body(channel, left, size);
            }
            _ => {}
        }
    }

    /// Counts a message whose last byte was sent: no broker has an answer to it before.
    fn sent_body(&mut self, channel: u16, left: u64, sent: u64) {
        let Some(channel) = self.channels.get_mut(&channel) else { return };
        channel.outgoing = left.checked_sub(sent).filter(|left| *left > 0);
        if channel.outgoing.is_none() {
            channel.returnable += 1;
            if channel.confirms {
                channel.unconfirmed.published();
            }
        }
    }

    fn sent_method(&mut self, at: u16, number: [u16; 2], mut rest: Rest<'_>) {
        match number {
            // channel.open
            [20, 10] => {
                self.channels.insert(at, Channel::default());
            }
            // channel.flow-ok, channel.close-ok, connection.close-ok, basic.cancel-ok
            [20, 21 | 41] | [10, 51] | [60, 31] => {
                self.owed = self.owed.saturating_sub(1);
                if number == [20, 41] {
                    self.channels.remove(&at);
                }
            }
            _ => {
                let Some(channel) = self.channels.get_mut(&at) else { return };
                match number {
                    // confirm.select
                    [85, 10] => channel.confirms = true,
                    // basic.qos
                    [60, 10] => channel.prefetch = rest.take(4).and_then(|_| rest.short_int()).unwrap_or(0),
                    // basic.consume: what the last consumer got may still be unsettled.
                    [60, 20] => {
                        let prefetch = if channel.prefetch == 0 { u16::MAX } else { channel.prefetch };
                        channel.most_unsettled = channel.unsettled.len() + usize::from(prefetch);
                    }
                    // basic.ack, basic.reject, basic.nack
                    [60, 80 | 90 | 120] => {
                        let tag = rest.long_long().unwrap_or(0);
                        let multiple = number[1] != 90 && rest.byte().unwrap_or(0) & 1 == 1;
                        match (multiple, tag) {
                            (false, tag) => {
                                channel.unsettled.remove(&tag);
                            }
                            (true, 0) => channel.unsettled.clear(),
                            (true, tag) => channel.unsettled = channel.unsettled.split_off(&(tag + 1)),
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}

fn unexpected(what: &str, channel: u16) -> Violation {
    Violation(format!("it has sent {what} on channel {channel}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNEL: u16 = 3;

    fn begun(confirms: bool) -> Expected {
        let mut expected = Expected::default();
        expected.sent(METHOD, CHANNEL, 5, &[0, 20, 0, 10, 0]);
        if confirms {
            expected.sent(METHOD, CHANNEL, 5, &[0, 85, 0, 10, 0]);
        }
        expected
    }

    /// Publishes a message of two body frames, the last of which is left out on request.
    fn publish(expected: &mut Expected, whole: bool) {
        expected.sent(METHOD, CHANNEL, 9, &[0, 60, 0, 40]);
        expected.sent(HEADER, CHANNEL, 14, &[0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0]);
        expected.sent(BODY, CHANNEL, 4, b"body");
        if whole {
            expected.sent(BODY, CHANNEL, 2, b"ok");
        }
    }

    fn ack(expected: &mut Expected, tag: u64, multiple: bool) -> Fate {
        let arguments = [&tag.to_be_bytes()[..], &[u8::from(multiple)]].concat();
        expected.method(CHANNEL, [60, 80], &arguments).unwrap()
    }

    #[test]
    fn a_confirmation_passes_only_if_its_message_waits_for_one() {
        let mut expected = begun(true);
        (0..5).for_each(|_| publish(&mut expected, true));
        publish(&mut expected, false);
        for (tag, multiple, fate) in [
            (6, false, Fate::Drop),
            (0, false, Fate::Drop),
            (u64::MAX, true, Fate::Drop),
            (2, false, Fate::Pass),
            (2, false, Fate::Drop),
            (3, true, Fate::Pass),
            (1, false, Fate::Drop),
            (3, true, Fate::Drop),
            (0, true, Fate::Pass),
            (0, true, Fate::Drop),
        ] {
            assert_eq!(ack(&mut expected, tag, multiple), fate, "{tag}, multiple {multiple}");
        }
        expected.sent(BODY, CHANNEL, 2, b"ok");
        assert_eq!(ack(&mut expected, 6, false), Fate::Pass);
        // Without confirmations there is nothing to compare with.
        assert_eq!(ack(&mut begun(false), 1, false), Fate::Pass);
    }

    #[test]
    fn what_was_confirmed_does_not_come_back() {
        let mut expected = begun(true);
        let come_back = |expected: &mut Expected| {
            let comes = expected.method(CHANNEL, [60, 50], &[]).is_ok();
            // Its header, without a body.
            comes && expected.header(CHANNEL, 0, |_| true).is_ok()
        };
        for round in 0..100 {
            (0..5).for_each(|_| publish(&mut expected, true));
            assert!(come_back(&mut expected), "{round}");
            ack(&mut expected, 5 * round + 5, true);
        }
        assert!(!come_back(&mut expected));
    }

    #[test]
    fn only_what_was_sent_comes_back_and_only_once() {
        assert!(begun(true).method(CHANNEL, [60, 50], &[]).is_err());
        let mut expected = begun(true);
        publish(&mut expected, true);
        for was_sent in [true, false] {
            assert_eq!(expected.method(CHANNEL, [60, 50], &[]).is_ok(), was_sent);
            if was_sent {
                assert_eq!(expected.header(CHANNEL, 6, |_| false).unwrap(), (Content::Return, false));
                assert_eq!(expected.body(CHANNEL, 6).unwrap(), BodyPart { passes: false, message: 0 });
            }
        }
    }

    #[test]
    fn a_message_has_one_header_and_the_announced_body() {
        let get = |expected: &mut Expected| expected.method(CHANNEL, [60, 71], &[]);
        let mut expected = begun(false);
        assert!(expected.header(CHANNEL, 1, |_| true).is_err() && expected.body(CHANNEL, 1).is_err());
        assert!(get(&mut expected).is_ok() && get(&mut begun(false)).is_ok());
        assert!(get(&mut expected).is_err(), "a message within another one");
        assert_eq!(expected.header(CHANNEL, 8, |_| true).unwrap(), (Content::Message, true));
        for (more, message) in [(3, 0), (5, 8)] {
            assert_eq!(expected.body(CHANNEL, more).unwrap(), BodyPart { passes: true, message });
        }
        assert!(expected.body(CHANNEL, 0).is_err());
        assert!(get(&mut expected).is_ok());
        expected.header(CHANNEL, 8, |_| true).unwrap();
        assert!(expected.body(CHANNEL, 9).is_err());
        assert!(expected.method(9, [60, 71], &[]).is_err(), "a channel that is not open");
    }

    #[test]
    fn a_consumer_gets_no_more_than_its_prefetch_until_it_settles() {
        let mut expected = begun(false);
        let deliver = |expected: &mut Expected, tag: u64| {
            let arguments = [&b"\x03tag"[..], &tag.to_be_bytes(), &[0]].concat();
            let method = expected.method(CHANNEL, [60, 60], &arguments);
            method.and_then(|_| expected.header(CHANNEL, 0, |_| true)).is_ok()
        };
        let settle = |expected: &mut Expected, method: u8, tag: u64, multiple: bool| {
            let begin = [&[0, 60, 0, method][..], &tag.to_be_bytes(), &[u8::from(multiple)]].concat();
            expected.sent(METHOD, CHANNEL, 13, &begin);
        };
        let consume = |expected: &mut Expected, prefetch: u8| {
            expected.sent(METHOD, CHANNEL, 11, &[0, 60, 0, 10, 0, 0, 0, 0, 0, prefetch, 0]);
            expected.sent(METHOD, CHANNEL, 30, &[0, 60, 0, 20, 0, 0]);
        };
        assert!(!deliver(&mut begun(false), 1), "there is no consumer");
        consume(&mut expected, 3);
        assert!((1..=3).all(|tag| deliver(&mut expected, tag)));
        settle(&mut expected, 80, 2, false);
        assert!(deliver(&mut expected, 4));
        settle(&mut expected, 90, 4, true);
        settle(&mut expected, 120, 1, true);
        assert!(deliver(&mut expected, 5) && deliver(&mut expected, 6));
        // The next consumer begins while three messages of this one are unsettled.
        consume(&mut expected, 2);
        assert!(deliver(&mut expected, 7) && deliver(&mut expected, 8));
        settle(&mut expected, 120, 0, true);
        assert!((9..=13).all(|tag| deliver(&mut expected, tag)));
        assert!(!deliver(&mut expected, 14));
    }

    #[test]
    fn answers_that_are_owed_are_bounded_and_so_is_what_nobody_asked_for() {
        let mut expected = begun(true);
        for _ in 0..10 * OWED {
            expected.method(CHANNEL, [20, 20], &[1]).unwrap();
            expected.sent(METHOD, CHANNEL, 5, &[0, 20, 0, 21, 1]);
        }
        let flows = (0..=OWED).take_while(|_| expected.method(CHANNEL, [20, 20], &[1]).is_ok()).count();
        assert_eq!(flows, OWED);
        let mut expected = begun(true);
        for n in 0..3 * UNASKED {
            if n % UNASKED == 0 {
                expected.sent(8, 0, 0, b"");
            }
            expected.method(0, [10, 61], &[]).unwrap();
        }
        assert!(expected.method(0, [10, 61], &[]).is_err());
        // Confirmations are expected.
        let mut expected = begun(true);
        (0..2 * UNASKED).for_each(|_| publish(&mut expected, true));
        assert!((1..=2 * UNASKED as u64).all(|tag| ack(&mut expected, tag, false) == Fate::Pass));
    }
}
