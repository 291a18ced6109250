//! The common terms for an element on its path: identity, origin, failure, outcome.
//!
//! Plain data, shared by all stages. It depends on no Redis, no broker and no configuration file.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// The identity of an element: it never changes over retries, restarts and redrives.
///
/// An element of Redisson has eight random bytes of its own (in the old layout, the bytes of the double). An element of
/// the ready list gets an identity at its first claim.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub [u8; 8]);

impl MessageId {
    /// Converts a text: 16 hexadecimal digits give their bytes, any other text its hash.
    pub fn of_text(text: &str) -> MessageId {
        text.parse().unwrap_or_else(|_| MessageId(xxhash_rust::xxh3::xxh3_64(text.as_bytes()).to_be_bytes()))
    }

    /// Returns the identity as 16 hexadecimal digits.
    pub fn hex(&self) -> [u8; 16] {
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

/// Maximum age of a due time. An older one counts as absent: a program that schedules for at once writes a score of 0
/// or -inf, or the unit is wrong.
pub const LATEST_MS: i64 = 10 * 365 * 86_400_000;

/// Returns the lateness of a due time; `None` if the due time is too old to be one ([`LATEST_MS`]).
pub fn lateness(due_ms: i64, now_ms: i64) -> Option<Duration> {
    let late = now_ms.saturating_sub(due_ms);
    (late <= LATEST_MS).then(|| Duration::from_millis(u64::try_from(late).unwrap_or(0)))
}

/// The identity of an element and its external name.
///
/// Inside of the daemon the eight bytes are enough. Some payloads bring an id of their own that their consumers know:
/// headers, templates, dead letters and commands show that text, and the bytes are derived from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The eight bytes.
    pub id: MessageId,
    /// The id that the payload brings, if any.
    pub text: Option<Arc<str>>,
}

impl Identity {
    /// Maximum length of such a text, in bytes.
    pub const TEXT_MAX: usize = 256;

    /// Returns the identity for this text; `None` if a header cannot carry it: it must be 1 to 256 visible ASCII
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
    /// Reads 16 hexadecimal digits as the bytes, and any other text as the element's own id.
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

/// The error for a text that is not 16 hexadecimal digits.
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

/// The Redisson structure from which the element was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The sorted set: the element has an id and a due time of its own.
    Delayed,
    /// The ready list: a bare payload that a Redisson client transferred; its due time is unknown.
    Ready,
}

impl Origin {
    /// Returns the text that metrics and dead letters use.
    pub fn as_str(self) -> &'static str {
        match self {
            Origin::Delayed => "delayed",
            Origin::Ready => "ready",
        }
    }
}

/// The class of a failed delivery, which decides how the pipeline treats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The sink is full for the moment: stop claiming, no attempt counts.
    Backpressure,
    /// The sink certainly did not take it: retry.
    Transient,
    /// The sink may have taken it: retry, and report a possible duplicate.
    Ambiguous,
    /// This message can never be delivered: dead letter.
    MessagePermanent,
    /// No message can be delivered to this target until a person fixes it: hold the queue.
    TargetPermanent,
    /// A code that is missing in the sink's table: retry, always counted, never a success.
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

    /// Returns the text that metrics, logs and dead letters use.
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

/// The scope of a failure: what else would fail now for the same reason. Each sink's table of answers says it beside the class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The message alone. Others go on.
    Message,
    /// The sink as a whole, or a part of it that the answer does not name: then the destinations that work tell.
    Sink,
    /// The server: there is no connection to it.
    Connection,
    /// The login. A destination that has just taken something shows that it is a matter of the destination.
    Account,
    /// The target of the publication: the list, stream, topic, exchange or URL.
    Target,
    /// The route within the target: a partition, or a routing key in its exchange.
    Route,
}

impl About {
    /// Returns whether the failure is about a part of the destination, which a template may have chosen.
    pub fn is_of_destination(self) -> bool {
        matches!(self, About::Target | About::Route)
    }
}

/// Whether a failed element may have left this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Sent, or unknown: counts as an attempt.
    Maybe,
    /// Sent behind another element that has no answer yet: counts as an attempt, but is not the element's fault.
    Behind,
    /// Not sent: does not count as an attempt.
    No,
    /// Not sent because the lease had expired: says something about this process, nothing about the sink.
    Stale,
}

/// The code of a failure: a text, and whether the element was sent. A code from a plain text may have been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureCode {
    text: &'static str,
    sent: Sent,
    about: About,
}

impl FailureCode {
    /// Returns the text that metrics, logs and dead letters use.
    pub fn as_str(self) -> &'static str {
        self.text
    }
}

impl From<&'static str> for FailureCode {
    fn from(text: &'static str) -> Self {
        FailureCode::of(text, Sent::Maybe)
    }
}

impl FailureCode {
    const fn of(text: &'static str, sent: Sent) -> Self {
        FailureCode { text, sent, about: About::Sink }
    }
}

/// A failed delivery: its class, its code, and a message for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The class, which decides how the pipeline treats it.
    pub class: Class,
    /// A short stable code, safe as a metric label (`OOM`, `WRONGTYPE`, `timeout`); never free text of a server.
    pub code: &'static str,
    /// The attempted action and its result; at most [`Failure::MESSAGE_MAX`] bytes, without payload or secret.
    pub message: String,
    /// The part that failed. If the element's own payload chose it, the element is at fault, not the target.
    pub about: About,
    /// The time after which the destination wants to be asked again, if it has said one.
    pub wait: Option<Duration>,
    /// Whether the element may have left this process. It follows from the constant that the code was made with.
    pub sent: Sent,
}

impl Failure {
    /// Maximum length of a message, in bytes.
    pub const MESSAGE_MAX: usize = 512;

    /// Creates a failure. Its message is cut to [`Failure::MESSAGE_MAX`] bytes at a character boundary.
    ///
    /// If nothing was sent, `code` must be [`Failure::NOT_SENT`] or [`Failure::NOT_CONNECTED`], never their text.
    pub fn new(class: Class, code: impl Into<FailureCode>, message: impl Into<String>) -> Self {
        let (mut message, FailureCode { text: code, sent, about }) = (message.into(), code.into());
        if message.len() > Self::MESSAGE_MAX {
            let end = (0..=Self::MESSAGE_MAX).rev().find(|&i| message.is_char_boundary(i)).unwrap_or(0);
            message.truncate(end);
        }
        Failure { class, code, message, about, wait: None, sent }
    }

    /// Restricts the failure to a part of the destination.
    pub fn about(self, about: About) -> Self {
        Failure { about, ..self }
    }

    /// Adds the time after which the destination wants to be asked again.
    pub fn after(self, wait: Option<Duration>) -> Self {
        Failure { wait, ..self }
    }

    /// Creates the answer of a sink that found an element past its `send_before`: nothing was sent.
    pub fn stale() -> Self {
        Failure::new(Class::Transient, Self::STALE, "send: the element's lease was over before its turn came")
    }

    /// The code of [`Failure::stale`].
    pub const STALE: FailureCode = FailureCode::of("stale_lease", Sent::Stale);

    /// Returns whether this is [`Failure::stale`].
    pub fn is_stale(&self) -> bool {
        self.sent == Sent::Stale
    }

    /// The code of an element that waited in the sink's client until the time-out and was not sent.
    pub const NOT_SENT: FailureCode = FailureCode::of("not_sent", Sent::No);
    /// The code of an element that found no connection.
    pub const NOT_CONNECTED: FailureCode =
        FailureCode { text: "not_connected", sent: Sent::No, about: About::Connection };

    /// The code of an element that was not sent because it could not be asked whether its destination has it already.
    pub const NOT_LOOKED: FailureCode = FailureCode::of("not_looked", Sent::No);

    /// The code of an element that was sent behind another one without an answer.
    pub const BEHIND: FailureCode = FailureCode::of("behind_another", Sent::Behind);

    /// Returns whether the element only waited behind another one: nothing is known about its destination.
    pub fn is_behind(&self) -> bool {
        self.sent == Sent::Behind
    }

    /// Returns whether the element never left this process, so that no attempt counts.
    pub fn is_unsent(&self) -> bool {
        self.sent == Sent::No
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.message, self.code, self.class.as_str())
    }
}

/// The answer of a sink for one element. Only `Ok` lets the element leave Redis.
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
        // The digits, shown without the text, lead to the same element.
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
            // Changes that a sink makes to a failure keep it.
            let changed = Failure { class: Class::Ambiguous, ..failure.about(About::Target) };
            assert_eq!((changed.is_unsent(), changed.is_stale()), (unsent, stale), "{changed}");
        }
        check(Failure::new(Class::Transient, Failure::NOT_SENT, ""), true, false);
        check(Failure::new(Class::Transient, Failure::NOT_CONNECTED, ""), true, false);
        check(Failure::new(Class::Transient, Failure::NOT_LOOKED, ""), true, false);
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
