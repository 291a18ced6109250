//! A message as it arrives, and what the intake says about it.

use std::fmt;

use bytes::Bytes;

use delaybridge_core::carried::Carried;

/// A message of a broker.
#[derive(Clone, Debug, Default)]
pub struct Arrival {
    /// The identity that its publisher or its broker gave it: the same when it arrives again. `None` for none.
    pub id: Option<String>,
    /// The time at which it was published, in ms since 1970, where its broker says so and delays count from there.
    pub published_ms: Option<i64>,
    /// The header `x-delay` as text.
    pub delay: Option<String>,
    /// The header `x-due` as text.
    pub due: Option<String>,
    /// The queue of ours that delivered it before, and its due time then: a consumer sends it again, or it came back.
    pub delivered_by: Option<(String, String)>,
    /// The address, headers and properties.
    pub carried: Carried,
    /// The body.
    pub body: Bytes,
}

impl Arrival {
    /// The bytes that it takes in memory, about.
    pub fn size(&self) -> usize {
        let texts = self.carried.headers.iter().chain(&self.carried.properties).chain(&self.carried.origin);
        let others = self.carried.others.iter().map(|(name, value)| name.len() + value.len());
        self.body.len() + texts.map(|(name, value)| name.len() + value.len()).chain(others).sum::<usize>()
    }
}

/// The end of a message on its way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Redis has its job.
    Scheduled,
    /// The message had arrived before.
    Duplicate,
    /// The message can never be scheduled.
    Refused(Refusal),
}

/// The reason why a message can never be scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The delay or due time is none.
    BadDelay(&'static str),
    /// The message is larger than the topic allows.
    TooLarge,
    /// Nothing says where it should go.
    NoAddress,
    /// The message would go into the queue that it came from.
    Loop,
    /// Another message with its id is scheduled.
    OtherMessage,
    /// The job queue refuses it.
    Invalid,
}

impl Refusal {
    /// A short stable code, safe as a header and in log lines.
    pub fn code(self) -> &'static str {
        match self {
            Refusal::BadDelay(_) => "bad_delay",
            Refusal::TooLarge => "too_large",
            Refusal::NoAddress => "no_address",
            Refusal::Loop => "loop",
            Refusal::OtherMessage => "other_message",
            Refusal::Invalid => "invalid",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::BadDelay(why) => why,
            Refusal::TooLarge => "the message is larger than `max_body` of its topic",
            Refusal::NoAddress => {
                "nothing says where the message should go: it needs the header `x-delay-to`, or `to` an address"
            }
            Refusal::Loop => "the message would go into the queue that it came from",
            Refusal::OtherMessage => "another message with the same id is scheduled",
            Refusal::Invalid => "the job queue refuses the message: its time to live ends before it is due",
        })
    }
}
