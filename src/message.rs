//! What an element is called on its way: identity, origin, outcome.
//!
//! Plain data, shared by all stages. Knows no Redis, no broker, no configuration file.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// Identity of an element: it never changes over retries, restarts and redrives.
///
/// For an element of Redisson these are its own eight random bytes (old layout: the bytes of the double); an element
/// that came from the ready list gets one at its first claim.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub [u8; 8]);

impl MessageId {
    /// The eight bytes of a text: those that it spells as 16 hexadecimal digits, else a hash of it.
    pub fn of_text(text: &str) -> MessageId {
        text.parse().unwrap_or_else(|_| MessageId(xxhash_rust::xxh3::xxh3_64(text.as_bytes()).to_be_bytes()))
    }

    /// The 16 hexadecimal digits of its text.
    pub(crate) fn hex(&self) -> [u8; 16] {
        let mut digits = [b'0'; 16];
        hex::encode_to_slice(self.0, &mut digits).expect("two digits a byte");
        digits
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A due time longer ago means no time: a program that schedules for at once writes a score of 0 or -inf, or the unit is wrong.
pub const LATEST_MS: i64 = 10 * 365 * 86_400_000;

/// How late something is that was due at this time; none for a due time that means no time ([`LATEST_MS`]).
pub fn lateness(due_ms: i64, now_ms: i64) -> Option<Duration> {
    let late = now_ms.saturating_sub(due_ms);
    (late <= LATEST_MS).then(|| Duration::from_millis(u64::try_from(late).unwrap_or(0)))
}

/// The identity of an element, and how it is called outside.
///
/// Inside of the daemon the eight bytes are enough. Some payloads bring an id of their own, which their consumers know: then
/// this text is what headers, templates, dead letters and commands show, and the bytes are made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The eight bytes.
    pub id: MessageId,
    /// The element's own text.
    pub text: Option<Arc<str>>,
}

impl Identity {
    /// Longest text of an element's own, in bytes.
    pub const TEXT_MAX: usize = 256;

    /// The identity that this text gives an element; `None` for what no header can carry: not 1 to 256 visible ASCII
    /// characters.
    pub fn named(text: &str) -> Option<Identity> {
        let fits = (1..=Identity::TEXT_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| Identity { id: MessageId::of_text(text), text: Some(text.into()) })
    }
}

impl From<MessageId> for Identity {
    fn from(id: MessageId) -> Self {
        Identity { id, text: None }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => fmt::Display::fmt(&self.id, f),
        }
    }
}

impl serde::Serialize for Identity {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Identity {
    /// Sixteen hexadecimal digits are the bytes; all else is an element's own text.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = text.parse::<MessageId>().ok().map(Identity::from);
        bytes.or_else(|| Identity::named(&text)).ok_or_else(|| serde::de::Error::custom(InvalidMessageId))
    }
}

impl serde::Serialize for MessageId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The text is not 16 hexadecimal digits.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("an element's id is 16 hexadecimal digits, as `peek` and the `delaybridge-id` header show it")]
pub struct InvalidMessageId;

impl FromStr for MessageId {
    type Err = InvalidMessageId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut id = [0; 8];
        hex::decode_to_slice(text, &mut id).map_err(|_| InvalidMessageId)?;
        Ok(MessageId(id))
    }
}

/// Which of Redisson's structures the element was claimed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The sorted set: the element has an id and a due time of its own.
    Delayed,
    /// The ready list: a bare payload that a Redisson client transferred; no due time is known.
    Ready,
}

impl Origin {
    /// The text that metrics and dead letters use.
    pub fn as_str(self) -> &'static str {
        match self {
            Origin::Delayed => "delayed",
            Origin::Ready => "ready",
        }
    }
}

/// Why a delivery did not succeed, as the pipeline has to treat it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The sink is full for the moment: stop claiming, nothing counts.
    Backpressure,
    /// The sink did not take it, certainly: retry.
    Transient,
    /// The sink may have taken it: retry, and announce a possible duplicate.
    Ambiguous,
    /// This message can never be delivered: dead letter.
    MessagePermanent,
    /// No message can be delivered to this target until a person fixes it: hold the queue.
    TargetPermanent,
    /// An answer that the sink's table does not know: retry, always counted, never a success.
    Unknown,
}

impl Class {
    /// Every class, in the order of the entry header's code.
    pub const ALL: [Class; 6] = [
        Class::Backpressure,
        Class::Transient,
        Class::Ambiguous,
        Class::MessagePermanent,
        Class::TargetPermanent,
        Class::Unknown,
    ];

    /// The text that metrics, logs and dead letters use.
    pub fn as_str(self) -> &'static str {
        match self {
            Class::Backpressure => "backpressure",
            Class::Transient => "transient",
            Class::Ambiguous => "ambiguous",
            Class::MessagePermanent => "message_permanent",
            Class::TargetPermanent => "target_permanent",
            Class::Unknown => "unknown",
        }
    }
}

/// Which part of a destination a failure is about: others of the same sink may be well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// None: the sink as a whole, or the message.
    Sink,
    /// What is published to: the list, stream, topic or exchange.
    Target,
    /// The way from there on: the routing key together with the exchange that it is looked up in, a partition.
    Route,
}

impl About {
    /// Whether it is a part of the destination, which a template may have chosen.
    pub fn is_of_destination(self) -> bool {
        matches!(self, About::Target | About::Route)
    }
}

/// Whether a failed element may have left this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It was sent, or nothing is known about it: an attempt.
    Maybe,
    /// It was sent, and waits behind another element that is not answered: an attempt, and not its fault.
    Behind,
    /// It never left this process: no attempt at all.
    No,
    /// It was not sent because its lease was over: says something about this process, nothing about the sink.
    Stale,
}

/// The code of a failure: a text, and what the pipeline concludes from it. A plain text makes one without a conclusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureCode {
    text: &'static str,
    sent: Sent,
}

impl FailureCode {
    /// The text that metrics, logs and dead letters use.
    pub fn as_str(self) -> &'static str {
        self.text
    }
}

impl From<&'static str> for FailureCode {
    fn from(text: &'static str) -> Self {
        FailureCode { text, sent: Sent::Maybe }
    }
}

/// A failed delivery: its class, and a message for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How the pipeline treats it.
    pub class: Class,
    /// Short stable code, safe as a metric label (`OOM`, `WRONGTYPE`, `timeout`); never free text of a server.
    pub code: &'static str,
    /// What was attempted and what happened; at most [`Failure::MESSAGE_MAX`] bytes, no payload, no secret.
    pub message: String,
    /// What it is about. Where the element's own payload chose that, it is the element's fault, not the target's.
    pub about: About,
    /// Whether the element may have left this process; from the constant that the code was made with.
    pub sent: Sent,
}

impl Failure {
    /// Longest message that is kept, in bytes.
    pub const MESSAGE_MAX: usize = 512;

    /// A failure; its message is cut to [`Failure::MESSAGE_MAX`] bytes at a character boundary.
    ///
    /// Where nothing was sent, `code` is [`Failure::NOT_SENT`] or [`Failure::NOT_CONNECTED`], never their text.
    pub fn new(class: Class, code: impl Into<FailureCode>, message: impl Into<String>) -> Self {
        let (mut message, FailureCode { text: code, sent }) = (message.into(), code.into());
        if message.len() > Self::MESSAGE_MAX {
            let end = (0..=Self::MESSAGE_MAX).rev().find(|&i| message.is_char_boundary(i)).unwrap_or(0);
            message.truncate(end);
        }
        Failure { class, code, message, about: About::Sink, sent }
    }

    /// The same failure, known to be about a part of the destination alone.
    pub fn about(self, about: About) -> Self {
        Failure { about, ..self }
    }

    /// The answer of a sink that found an element past its `send_before`: nothing was sent.
    pub fn stale() -> Self {
        Failure::new(Class::Transient, Self::STALE, "send: the element's lease was over before its turn came")
    }

    /// Code of [`Failure::stale`].
    pub const STALE: FailureCode = FailureCode { text: "stale_lease", sent: Sent::Stale };

    /// Whether this is [`Failure::stale`].
    pub fn is_stale(&self) -> bool {
        self.sent == Sent::Stale
    }

    /// Code of an element that waited for its turn in the sink's client until the time-out, and was not sent.
    pub const NOT_SENT: FailureCode = FailureCode { text: "not_sent", sent: Sent::No };
    /// Code of an element that found no connection.
    pub const NOT_CONNECTED: FailureCode = FailureCode { text: "not_connected", sent: Sent::No };

    /// Code of an element that was sent behind another one that is not answered.
    pub const BEHIND: FailureCode = FailureCode { text: "behind_another", sent: Sent::Behind };

    /// Whether the element was only in the way of another one: nothing is known about its destination.
    pub fn is_behind(&self) -> bool {
        self.sent == Sent::Behind
    }

    /// Whether the element never left this process: no attempt at all.
    pub fn is_unsent(&self) -> bool {
        self.sent == Sent::No
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.message, self.code, self.class.as_str())
    }
}

/// What a sink answers for one element. Only `Ok` lets the element leave Redis.
pub type Outcome = Result<(), Failure>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_from_its_text() {
        let id = MessageId(*b"RANDOM8B");
        assert_eq!(id.to_string(), "52414e444f4d3842");
        assert_eq!("52414e444f4d3842".parse(), Ok(id));
        assert_eq!("52414e".parse::<MessageId>(), Err(InvalidMessageId));
    }

    #[test]
    fn an_element_s_own_text_is_what_is_shown() {
        let named = Identity::named("b4a577edbccf1d805744efa9").expect("a text that fits");
        assert_eq!(named.to_string(), "b4a577edbccf1d805744efa9");
        assert_eq!(named.id, MessageId::of_text("b4a577edbccf1d805744efa9"));
        assert_ne!(named.id, MessageId::of_text("b4a577edbccf1d805744efaa"));
        // Shown without the text, the digits lead to the same element.
        assert_eq!(MessageId::of_text(&named.id.to_string()), named.id);
        assert_eq!(Identity::from(named.id).to_string(), named.id.to_string());
        for text in ["", "a b", "a\nb", "\u{fc}", &"x".repeat(257)] {
            assert_eq!(Identity::named(text), None, "{text:?}");
        }
    }

    #[test]
    fn only_the_constants_say_that_nothing_was_sent() {
        fn check(failure: Failure, unsent: bool, stale: bool) {
            assert_eq!((failure.is_unsent(), failure.is_stale()), (unsent, stale), "{failure}");
            // What a sink changes about a failure keeps it.
            let changed = Failure { class: Class::Ambiguous, ..failure.about(About::Target) };
            assert_eq!((changed.is_unsent(), changed.is_stale()), (unsent, stale), "{changed}");
        }
        check(Failure::new(Class::Transient, Failure::NOT_SENT, ""), true, false);
        check(Failure::new(Class::Transient, Failure::NOT_CONNECTED, ""), true, false);
        check(Failure::stale(), false, true);
        check(Failure::new(Class::Transient, "timeout", ""), false, false);
    }

    #[test]
    fn a_due_time_of_another_age_is_no_lateness() {
        let now_ms = 1_800_000_000_000;
        assert_eq!(lateness(now_ms - 5, now_ms), Some(Duration::from_millis(5)));
        assert_eq!(lateness(now_ms + 5, now_ms), Some(Duration::ZERO));
        for due_ms in [0, i64::MIN, 1_800_000_000] {
            assert_eq!(lateness(due_ms, now_ms), None, "{due_ms}");
        }
    }

    #[test]
    fn a_long_failure_message_is_cut_at_a_character() {
        let failure = Failure::new(Class::Unknown, "x", "é".repeat(400));
        assert_eq!(failure.message.len(), 512);
        let failure = Failure::new(Class::Unknown, "x", format!("a{}", "é".repeat(400)));
        assert_eq!(failure.message.len(), 511);
    }
}
