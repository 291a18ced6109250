//! The pause of a queue: a person stops its deliveries, for all daemons that serve it.
//!
//! It is kept in the queue's state hash, so that it has the queue's hash tag and outlives every daemon. A sink is paused
//! in the state of each queue that delivers to it: one key for all queues would be in another slot than they are, and a
//! second place to read before each claim. What is written reaches the daemons through the presence channel, to which each of
//! them listens anyway, so a claim reads nothing for it.
//!
//! Field `pause` is the queue's own, `pause:NAME` that of its sink NAME. The value is text in three parts, each ended by a line
//! break: `NONCE SINCE UNTIL` (ms by Redis's clock, UNTIL empty for no end), who, why.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::args::millis;
use crate::error::StoreError;
use crate::handle::Ledger;
use delaybridge_link::{BadReply, Conn, Fields, LinkError};

/// The message on the presence channel that a pause begins or ends.
pub const ANNOUNCED: &[u8] = b"pause";

/// The thing that is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject<'a> {
    /// The whole queue.
    Queue,
    /// The deliveries to one sink.
    Sink(&'a str),
}

/// A pause: who asked for it, why, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// The person or program that paused.
    pub by: String,
    /// Why.
    pub why: String,
    /// The time at which it began, in ms by Redis's clock.
    pub since_ms: i64,
    /// The time at which it ends by itself.
    pub until_ms: Option<i64>,
}

/// The pauses of one queue that are not over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pauses {
    /// Redis time in ms.
    pub now_ms: i64,
    /// The pause of the whole queue.
    pub queue: Option<Pause>,
    /// The pauses of its sinks.
    pub sinks: Vec<(Arc<str>, Pause)>,
}

/// A pause as a person asks for it.
#[derive(Debug, Clone, Copy)]
pub struct NewPause<'a> {
    /// Distinguishes this command from every other one, so that it may be sent twice.
    pub nonce: u64,
    /// The time at which it ends by itself.
    pub end: PauseEnd,
    /// The person or program that pauses. One line.
    pub by: &'a str,
    /// Why. One line.
    pub why: &'a str,
}

/// The time at which a pause ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseEnd {
    /// Not at all.
    Never,
    /// So long after Redis has it.
    After(Duration),
    /// At this time in ms.
    At(i64),
}

/// The answer to a change of a pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Redis time in ms.
    pub now_ms: i64,
    /// The pause before, if it was not over.
    pub before: Option<Pause>,
    /// The pause now.
    pub after: Option<Pause>,
    /// Whether the daemons were notified; else they see it at their next look.
    pub notified: bool,
}

impl Subject<'_> {
    /// Returns the field in the state hash.
    pub fn field(self) -> String {
        match self {
            Subject::Queue => "pause".to_owned(),
            Subject::Sink(name) => format!("pause:{name}"),
        }
    }
}

impl Pause {
    /// Reads the value of a field. One that this version cannot read is a pause without an end: what it is for is not
    /// known, so nothing may move.
    fn read(value: &[u8]) -> Pause {
        let text = String::from_utf8_lossy(value);
        Pause::of_text(&text).unwrap_or_else(|| Pause {
            by: "a newer version".to_owned(),
            why: "a reason that this version cannot read".to_owned(),
            since_ms: 0,
            until_ms: None,
        })
    }

    fn of_text(text: &str) -> Option<Pause> {
        let mut parts = text.splitn(3, '\n');
        let mut times = parts.next()?.split(' ');
        let _nonce = times.next()?;
        let since = times.next()?;
        let until = times.next()?;
        let until_ms = if until.is_empty() { None } else { Some(until.parse().ok()?) };
        let by = parts.next()?.to_owned();
        let why = parts.next()?.to_owned();
        Some(Pause { by, why, since_ms: since.parse().ok()?, until_ms })
    }

    /// Returns whether this version can read the value of a field.
    pub(super) fn is_readable(value: &[u8]) -> bool {
        value.is_empty() || std::str::from_utf8(value).is_ok_and(|text| Pause::of_text(text).is_some())
    }

    /// Returns the value that replaces one that cannot be read: a pause as it is understood until then.
    pub(super) fn unknown() -> String {
        "0000000000000000 0 \nfsck\na pause that could not be read".to_owned()
    }

    /// Reads the pause in a field, unless there is none or it is over.
    fn at(value: &[u8], now_ms: i64) -> Option<Pause> {
        let pause = (!value.is_empty()).then(|| Pause::read(value))?;
        (!pause.is_over(now_ms)).then_some(pause)
    }

    /// Returns whether it has ended by itself.
    pub fn is_over(&self, now_ms: i64) -> bool {
        self.until_ms.is_some_and(|until| until <= now_ms)
    }
}

impl Ledger {
    /// Reads the pauses of the queue and of these sinks of it.
    ///
    /// # Errors
    ///
    /// Those of the connection; a state key of another type is `Server { code: "WRONGTYPE" }`.
    pub async fn pauses(&self, conn: &Conn, sinks: &[Arc<str>]) -> Result<Pauses, StoreError> {
        let (pauses, marker) = self.pauses_and_prefix(conn, sinks).await?;
        self.judge_prefix(marker.as_deref())?;
        Ok(pauses)
    }

    /// Reads the pauses, and the marker of the prefix that the queue is delivered with.
    pub(super) async fn pauses_and_prefix(
        &self,
        conn: &Conn,
        sinks: &[Arc<str>],
    ) -> Result<(Pauses, Option<Vec<u8>>), StoreError> {
        let mut pipe = redis::pipe();
        // The time first: a pause that ends in between is seen as one that goes on.
        pipe.cmd("TIME");
        let fields = pipe.cmd("HMGET").arg(&self.keys.state[..]).arg(Subject::Queue.field());
        for sink in sinks {
            fields.arg(Subject::Sink(sink).field());
        }
        let asks = self.ask_for_prefix().map(|ask| _ = pipe.add_command(ask)).is_some();
        let mut answers = conn.pipeline(&pipe).await?.into_iter();
        let mut next = || answers.next().unwrap_or_else(|| Err(LinkError::Malformed("too few answers".to_owned())));
        let (seconds, micros): (i64, i64) = read(next()?)?;
        let now_ms = seconds * 1_000 + micros / 1_000;
        let values: Vec<Option<Vec<u8>>> = read(next()?)?;
        let mut found = values.into_iter().map(|value| Pause::at(&value.unwrap_or_default(), now_ms));
        let queue = found.next().flatten();
        let sinks = sinks.iter().zip(found).filter_map(|(sink, pause)| Some((sink.clone(), pause?))).collect();
        let marker = asks.then(&mut next).map(|answer| self.marker(answer)).transpose()?.flatten();
        Ok((Pauses { now_ms, queue, sinks }, marker))
    }

    /// Pauses; `None` if the end that was asked for is in the past, and nothing was changed.
    ///
    /// # Errors
    ///
    /// Those of the connection. After any error it may be sent again with the same nonce.
    pub async fn pause(
        &self,
        conn: &Conn,
        subject: Subject<'_>,
        new: &NewPause<'_>,
    ) -> Result<Option<Changed>, StoreError> {
        let (after, at) = match new.end {
            PauseEnd::Never => (String::new(), String::new()),
            PauseEnd::After(time) => (millis(time).to_string(), String::new()),
            PauseEnd::At(ms) => (String::new(), ms.to_string()),
        };
        let nonce = format!("{:016x}", new.nonce);
        self.change_pause(conn, subject, [nonce, after, at, new.by.to_owned(), new.why.to_owned()]).await
    }

    /// Ends a pause.
    ///
    /// # Errors
    ///
    /// Those of the connection. After any error it may be sent again.
    pub async fn resume(&self, conn: &Conn, subject: Subject<'_>) -> Result<Changed, StoreError> {
        let changed = self.change_pause(conn, subject, Default::default()).await?;
        changed.ok_or_else(|| BadReply { script: "pause", expected: "four fields" }.into())
    }

    async fn change_pause(
        &self,
        conn: &Conn,
        subject: Subject<'_>,
        new: [String; 5],
    ) -> Result<Option<Changed>, StoreError> {
        let mut args = vec![subject.field(), self.keys.presence.to_string()];
        args.extend(new);
        let args: Vec<Bytes> = args.into_iter().map(Bytes::from).collect();
        let reply = conn.script(&self.scripts.pause, std::slice::from_ref(&self.keys.state), &args).await?;
        let mut fields = Fields::of("pause", reply)?;
        let now_ms = fields.int()?;
        if fields.is_empty() {
            return Ok(None);
        }
        let before = fields.bytes()?;
        let after = fields.bytes()?;
        let before = Pause::at(&before, now_ms);
        let after = Pause::at(&after, now_ms);
        Ok(Some(Changed { now_ms, before, after, notified: fields.int()? == 1 }))
    }
}

fn read<T: redis::FromRedisValue>(value: redis::Value) -> Result<T, StoreError> {
    redis::from_redis_value(value).map_err(|error| StoreError::Malformed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_read_as_it_was_written() {
        let read = |text: &str| Pause::at(text.as_bytes(), 5_000);
        let pause = |until_ms| Pause { by: "ann".to_owned(), why: "a\nb c".to_owned(), since_ms: 4_000, until_ms };
        assert_eq!(read("00ff 4000 \nann\na\nb c"), Some(pause(None)));
        assert_eq!(read("00ff 4000 5001\nann\na\nb c"), Some(pause(Some(5_001))));
        assert_eq!(read("00ff 4000 5000\nann\na\nb c"), None, "over");
        assert_eq!(read(""), None);
    }

    #[test]
    fn what_cannot_be_read_is_a_pause() {
        for text in ["x", "00ff", "00ff 4000", "00ff 4000 x\nann\nwhy", "00ff x \nann\nwhy", "00ff 4000 \nann", "{}"] {
            let pause = Pause::at(text.as_bytes(), i64::MAX).expect("a pause");
            assert_eq!((pause.by.as_str(), pause.until_ms), ("a newer version", None), "{text}");
        }
    }
}
