//! A message as it arrives, and what the intake says about it.

use std::fmt;

use bytes::Bytes;
use xxhash_rust::xxh3::Xxh3;

use delaybridge_core::carried::{self, Carried};

/// The id by which earlier versions know a message. Another message may have had it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerId {
    /// The id.
    pub id: String,
    /// The time at which the message was written, in ms since 1970; 0 if it is not known.
    pub written_ms: i64,
}

/// A message of a broker.
#[derive(Clone, Debug, Default)]
pub struct Arrival {
    /// The identity that its publisher or its broker gave it: the same when it arrives again. `None` for none.
    pub id: Option<String>,
    /// Another id of the message: `id` tells it from all others by itself, and earlier versions use this one.
    pub former: Option<FormerId>,
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
    /// Whether a part of the message cannot be kept: what is carried is not quite the message then.
    pub is_partial: bool,
    /// Whether the body is larger than any that is taken, and was not read.
    pub is_too_large: bool,
    /// Whether its broker says that it may have handed the message out before.
    pub is_redelivered: bool,
    /// Whether this process has refused and counted the message when it arrived before.
    pub was_refused: bool,
    /// The body.
    pub body: Bytes,
}

impl Arrival {
    /// Reads the arrival of a message with all of its headers: takes out those that are for the input.
    pub fn of(mut carried: Carried, body: Bytes) -> Arrival {
        let header = |name: &str| {
            let found = carried.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.clone())
        };
        // A value that is no text and no number is none that a delay can be read from, and not the absence of one.
        let present = |name: &str| {
            let other = || carried.others.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
            header(name).or_else(|| other().then(String::new))
        };
        let is_ours = |name: &str| carried::OWN_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(name));
        let delay = present(carried::DELAY);
        let due = present(carried::DUE);
        let to = header(carried::TO);
        let delivered_by = header(carried::QUEUE).zip(Some(header(carried::DUE_MS).unwrap_or_default()));
        carried.others.retain(|(name, _)| !is_ours(name));
        carried.headers.retain(|(name, _)| !is_ours(name));
        carried.to = to.filter(|to| !to.is_empty());
        Arrival { delay, due, delivered_by, carried, body, ..Arrival::default() }
    }

    /// Returns the hash of what the message is, whenever it arrives.
    pub fn hash(&self) -> u128 {
        let mut hash = Xxh3::new();
        let mut add = |part: &[u8]| {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        };
        for part in [&self.id, &self.delay, &self.due, &self.carried.to] {
            add(part.as_deref().unwrap_or_default().as_bytes());
        }
        for (name, value) in self.carried.headers.iter().chain(&self.carried.properties) {
            add(name.as_bytes());
            add(value.as_bytes());
        }
        add(&self.body);
        hash.digest128()
    }

    /// Returns the bytes that it takes in memory, about.
    pub fn size(&self) -> usize {
        let texts = self.carried.headers.iter().chain(&self.carried.properties).chain(&self.carried.origin);
        let others = self.carried.others.iter().map(|(name, value)| name.len() + value.len());
        let of_record = self.carried.record.iter().flat_map(|record| &record.headers);
        let of_record = of_record.map(|(name, value)| name.len() + value.as_ref().map_or(0, Bytes::len));
        let others = others.chain(of_record);
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
    Refused(InputRefusal),
}

/// The reason why a message can never be scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputRefusal {
    /// The delay or due time is none.
    BadDelay(&'static str),
    /// The message is larger than the topic allows.
    TooLarge,
    /// Headers that cannot be kept as they are.
    BadHeaders,
    /// Nothing says where it should go.
    NoAddress,
    /// The message would go into the queue that it came from.
    Loop,
    /// The job queue refuses it.
    Invalid,
}

impl InputRefusal {
    /// Returns a short stable code, safe as a header and in log lines.
    pub fn code(self) -> &'static str {
        match self {
            InputRefusal::BadDelay(_) => "bad_delay",
            InputRefusal::TooLarge => "too_large",
            InputRefusal::BadHeaders => "bad_headers",
            InputRefusal::NoAddress => "no_address",
            InputRefusal::Loop => "loop",
            InputRefusal::Invalid => "invalid",
        }
    }
}

impl fmt::Display for InputRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InputRefusal::BadDelay(why) => why,
            InputRefusal::TooLarge => "the message is larger than `max_body` of its topic",
            InputRefusal::BadHeaders => {
                "its headers cannot be kept: a name, a property or the routing key is no UTF-8, a name has more than 65,535 bytes, \
                 there are more than 65,535, a number is NaN or infinite, or tables are nested more than 63 deep"
            }
            InputRefusal::NoAddress => {
                "nothing says where the message should go: it needs the header `x-delay-to`, or `to` an address"
            }
            InputRefusal::Loop => "the message would go into the queue that it came from",
            InputRefusal::Invalid => "the job queue refuses the message: its time to live ends before it is due",
        })
    }
}
