//! Dead letters in the stream: read in bounded pages, redriven, removed.
//!
//! Knows the fields that redrive needs; the others are for a person and are passed on as they are.

use std::time::Duration;

use bytes::Bytes;

use super::claims::{Body, Element, Header, sink_hash};
use crate::args::{millis, text};
use crate::batch::BATCH_BYTES;
use crate::error::StoreError;
use crate::handle::Ledger;
use delaybridge_core::message::{Identity, MessageId, Origin};
use delaybridge_link::{BadReply, Conn, Fields, Score};

/// Most letters that one page holds.
const PAGE: usize = 100;

/// The field that is `1` if a sink may have had the element, else `0`.
pub const IN_DOUBT: &str = "in_doubt";

/// Fields of a letter that say why it died, with the headers that carry them where it is forwarded.
pub const CAUSES: [(&str, &str); 14] = [
    ("reason", "delaybridge-dead-reason"),
    ("class", "delaybridge-dead-class"),
    ("code", "delaybridge-dead-code"),
    ("message", "delaybridge-dead-message"),
    ("sink", "delaybridge-dead-sink"),
    ("destination", "delaybridge-dead-destination"),
    ("confirmed", "delaybridge-dead-confirmed"),
    ("died_ms", "delaybridge-dead-at-ms"),
    ("origin", "delaybridge-dead-origin"),
    ("codec", "delaybridge-dead-codec"),
    ("expiries", "delaybridge-dead-expiries"),
    (IN_DOUBT, "delaybridge-dead-in-doubt"),
    ("first_attempt_ms", "delaybridge-dead-first-attempt-ms"),
    ("last_attempt_ms", "delaybridge-dead-last-attempt-ms"),
];

/// One dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The place in the stream: `milliseconds-number`.
    pub stream_id: String,
    /// Fields and values, in their order; the raw element is among them.
    pub fields: Vec<(String, Bytes)>,
}

/// Why a dead letter cannot be given another life.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "read dead letter {stream_id}: its field `{field}` is missing or cannot be read; did another program write it?"
)]
pub struct NotALetter {
    /// The letter.
    pub stream_id: String,
    /// The field that is wrong.
    pub field: &'static str,
}

impl DeadLetter {
    /// Returns a field as text; empty if it is missing or no text.
    pub fn text(&self, name: &str) -> &str {
        self.bytes(name).and_then(|value| std::str::from_utf8(value).ok()).unwrap_or("")
    }

    /// Returns the bytes of a field.
    pub fn bytes(&self, name: &str) -> Option<&Bytes> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value)
    }

    /// Returns a field as a number; `None` if it is empty, missing or none.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.text(name).parse().ok()
    }

    /// Returns the element's identity; `None` if the field is missing or no id.
    pub fn identity(&self) -> Option<Identity> {
        let text = self.text("id");
        text.parse().ok().map(|id: MessageId| id.into()).or_else(|| Identity::named(text))
    }

    /// Returns whether it is meant: by its place in the stream, or by the element's id, as text or as the digits that
    /// logs show.
    pub fn is(&self, name: &str) -> bool {
        let digits = || name.parse().is_ok_and(|id: MessageId| self.identity().is_some_and(|own| own.id == id));
        self.stream_id == name || self.text("id") == name || digits()
    }

    /// Returns the payload that a sink would have got: the one that `open` finds in the element and its body, or the
    /// whole of the body, else of the element, if it finds none.
    ///
    /// # Errors
    ///
    /// When a field that this needs is missing.
    pub fn payload(&self, open: impl FnOnce(&Element) -> Option<Bytes>) -> Result<Bytes, NotALetter> {
        let mut entry = Element::entry(self.reborn()?, 0);
        let body = self.bytes("body").cloned();
        if let Some(entry) = &mut entry {
            // A letter is never too early.
            entry.body = body.clone().map(|bytes| Body::Here { bytes, read_ms: i64::MAX }.into());
        }
        let whole = body.or_else(|| self.bytes("element").cloned()).unwrap_or_default();
        Ok(entry.and_then(|entry| open(&entry)).unwrap_or(whole))
    }

    /// Returns whether a sink may have had the element. Letters of older versions do not say so: then each that was
    /// tried may have arrived.
    pub fn may_have_arrived(&self) -> bool {
        match self.text(IN_DOUBT) {
            "1" => true,
            "0" => false,
            _ => ["attempts", "expiries"].into_iter().any(|field| self.number(field).is_some_and(|count| count > 0)),
        }
    }

    /// Builds the entry that it becomes when it is redriven: the same bytes, id, due time, confirmed sinks and doubt,
    /// no attempts.
    ///
    /// # Errors
    ///
    /// When a field that this needs is not there.
    pub fn reborn(&self) -> Result<Bytes, NotALetter> {
        let bad = |field| NotALetter { stream_id: self.stream_id.clone(), field };
        let id = self.identity().ok_or(bad("id"))?.id;
        let (origin, time_ms) = match self.text("origin") {
            "delayed" => (Origin::Delayed, self.number("due_ms").ok_or(bad("due_ms"))?),
            // The time of the first claim; letters that were never attempted know only when they died.
            "ready" => {
                let time = self.number("first_attempt_ms").or(self.number("died_ms"));
                (Origin::Ready, time.ok_or(bad("died_ms"))?)
            }
            _ => return Err(bad("origin")),
        };
        let element = self.bytes("element").ok_or(bad("element"))?;
        // An element of the schedule brings its id itself. What the source keeps of its score is there instead.
        let id = match (origin, Score::parse(self.text("score"))) {
            (Origin::Ready, _) => id,
            (Origin::Delayed, Some(score)) => MessageId(score.to_bytes()),
            (Origin::Delayed, None) => MessageId([0; 8]),
        };
        let confirmed = self.text("confirmed").split(',').filter(|name| !name.is_empty()).map(sink_hash).collect();
        let mut header = Header::redriven(origin, id, time_ms, confirmed);
        header.doubt = self.may_have_arrived();
        let mut member = header.encode();
        member.extend_from_slice(element);
        Ok(member.into())
    }
}

/// The daemon that forwards a queue's dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarder {
    /// The caller.
    Own,
    /// The caller, because the lease of another daemon expired: letters at its sink may have arrived.
    TakenOver,
    /// Another daemon.
    Another,
}

/// The end of the stream that comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The order in which they died.
    Oldest,
    /// The latest death first.
    Newest,
}

/// The position of a reader of the stream. It reads one letter first, then at most twice as many as the last time, as many as fit into
/// 1 MiB if all are as large as the largest: behind a small letter may be a hundred that were too large for a sink.
#[derive(Debug)]
pub struct DeadPages {
    order: Order,
    /// The place to continue at; `None` at the end.
    from: Option<String>,
    /// The far end, so that letters which arrive meanwhile do not keep the reader busy.
    until: String,
    largest: usize,
    /// Letters of the last page.
    last: usize,
}

impl DeadPages {
    /// Creates a reader of the letters up to `newest`, the last of the stream now, from one end on.
    pub fn new(order: Order, newest: Option<String>) -> Self {
        DeadPages::between(order, "-".to_owned(), newest)
    }

    /// Creates a reader of the letters from one place on, up to another one.
    pub fn between(order: Order, oldest: String, newest: Option<String>) -> Self {
        let (from, until) = match (order, newest) {
            (_, None) => (None, String::new()),
            (Order::Oldest, Some(newest)) => (Some(oldest), newest),
            (Order::Newest, Some(newest)) => (Some(newest), oldest),
        };
        DeadPages { order, from, until, largest: 0, last: 0 }
    }

    /// Returns the range to read next, at most `most` letters: from, until, count. `None` at the end.
    pub fn next(&mut self, most: usize) -> Option<(Order, String, String, usize)> {
        let from = self.from.take().filter(|_| most > 0)?;
        let fit = BATCH_BYTES.checked_div(self.largest).unwrap_or(1).clamp(1, PAGE).min((2 * self.last).max(1));
        Some((self.order, from, self.until.clone(), fit.min(most)))
    }

    /// Takes over the page that was read.
    pub fn read(&mut self, page: &[DeadLetter]) {
        let size = |letter: &DeadLetter| letter.fields.iter().map(|(_, value)| value.len() + 32).sum();
        self.largest = page.iter().map(size).max().unwrap_or(0).max(self.largest);
        self.last = page.len();
        self.from = page.last().map(|letter| format!("({}", letter.stream_id));
    }
}

/// A reader of the stream over one connection.
pub struct DeadLetters<'a> {
    queue: &'a Ledger,
    pages: DeadPages,
}

impl Ledger {
    /// Returns the payload as [`DeadLetter::payload`] does, read as the source of this queue reads it.
    ///
    /// # Errors
    ///
    /// As for [`DeadLetter::payload`].
    pub fn dead_payload(&self, letter: &DeadLetter) -> Result<Bytes, NotALetter> {
        letter.payload(|entry| self.open(entry).1.ok())
    }

    /// Creates a reader of the letters that are there now, from one end on.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn dead_letters(&self, conn: &Conn, order: Order) -> Result<DeadLetters<'_>, StoreError> {
        self.dead_letters_between(conn, order, None, None).await
    }

    /// Lists the dead letters from one place of the stream up to another: ids of the stream, `(` before one to exclude
    /// it.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn dead_letters_between(
        &self,
        conn: &Conn,
        order: Order,
        oldest: Option<String>,
        newest: Option<String>,
    ) -> Result<DeadLetters<'_>, StoreError> {
        let newest = match newest {
            Some(newest) => Some(newest),
            None => self.dead_range(conn, Order::Newest, "+", "-", 1).await?.pop().map(|letter| letter.stream_id),
        };
        let oldest = oldest.unwrap_or_else(|| "-".to_owned());
        Ok(DeadLetters { queue: self, pages: DeadPages::between(order, oldest, newest) })
    }

    /// Reads the letter at this place of the stream.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn dead_letter(&self, conn: &Conn, stream_id: &str) -> Result<Option<DeadLetter>, StoreError> {
        Ok(self.dead_range(conn, Order::Oldest, stream_id, stream_id, 1).await?.pop())
    }

    /// Reads letters between two places, at most `count`.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn dead_range(
        &self,
        conn: &Conn,
        order: Order,
        from: &str,
        until: &str,
        count: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let name = if order == Order::Oldest { "XRANGE" } else { "XREVRANGE" };
        let mut command = redis::cmd(name);
        command.arg(&self.keys.dead[..]).arg(from).arg(until).arg("COUNT").arg(count);
        let mut fields = Fields::of(name, conn.query(&command).await?)?;
        let mut letters = Vec::new();
        while !fields.is_empty() {
            letters.push(letter(name, fields.array()?)?);
        }
        Ok(letters)
    }

    /// Counts the letters.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn dead_count(&self, conn: &Conn) -> Result<usize, StoreError> {
        Ok(conn.query(redis::cmd("XLEN").arg(&self.keys.dead[..])).await?)
    }

    /// Removes letters that a sink has confirmed, and takes or keeps the lease of the forwarder of this queue's letters
    /// on. A lease of zero gives it back.
    ///
    /// # Errors
    ///
    /// Those of the connection. After any error it may be sent again.
    pub async fn forwarded(&self, conn: &Conn, lease: Duration, confirmed: &[String]) -> Result<Forwarder, StoreError> {
        let keys = [self.keys.dead.clone(), self.keys.state.clone()];
        let mut args = vec![Bytes::copy_from_slice(&self.owner), text(millis(lease))];
        args.extend(confirmed.iter().map(|id| Bytes::from(id.clone())));
        match conn.script(&self.scripts.forward, &keys, &args).await? {
            redis::Value::Int(0) => Ok(Forwarder::Another),
            redis::Value::Int(1) => Ok(Forwarder::Own),
            redis::Value::Int(2) => Ok(Forwarder::TakenOver),
            _ => Err(BadReply { script: "forward", expected: "0, 1 or 2" }.into()),
        }
    }

    /// Removes letters for good; answers how many were there.
    ///
    /// # Errors
    ///
    /// Those of the connection. After any error it may be sent again.
    pub async fn purge(&self, conn: &Conn, stream_ids: &[String]) -> Result<usize, StoreError> {
        if stream_ids.is_empty() {
            return Ok(0);
        }
        Ok(conn.query(redis::cmd("XDEL").arg(&self.keys.dead[..]).arg(stream_ids)).await?)
    }
}

impl DeadLetters<'_> {
    /// Reads the next page, at most `most` letters; empty at the end.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn next(&mut self, conn: &Conn, most: usize) -> Result<Vec<DeadLetter>, StoreError> {
        let Some((order, from, until, count)) = self.pages.next(most) else { return Ok(Vec::new()) };
        let page = self.queue.dead_range(conn, order, &from, &until, count).await?;
        self.pages.read(&page);
        Ok(page)
    }
}

fn letter(script: &'static str, mut reply: Fields) -> Result<DeadLetter, BadReply> {
    let stream_id = reply.text()?;
    let values = reply.all_bytes()?;
    if values.len() % 2 != 0 {
        return Err(BadReply { script, expected: "a value for each field" });
    }
    let fields =
        values.chunks(2).map(|pair| (String::from_utf8_lossy(&pair[0]).into_owned(), pair[1].clone())).collect();
    Ok(DeadLetter { stream_id, fields })
}

#[cfg(test)]
mod tests {
    use super::super::claims::Element;
    use super::*;

    fn sample(change: &[(&str, &str)]) -> DeadLetter {
        let mut fields: Vec<(String, Bytes)> = [
            ("id", "52414e444f4d3842"),
            ("origin", "delayed"),
            ("due_ms", "1795251632252"),
            ("died_ms", "1795251640000"),
            ("first_attempt_ms", ""),
            ("confirmed", "audit,lines"),
            ("element", "\u{8}RANDOM8B"),
        ]
        .map(|(name, value)| (name.to_owned(), Bytes::from(value.to_owned())))
        .into();
        for (name, value) in change {
            fields.retain(|(field, _)| field != name);
            fields.push(((*name).to_owned(), Bytes::from((*value).to_owned())));
        }
        DeadLetter { stream_id: "1-0".to_owned(), fields }
    }

    #[test]
    fn a_redriven_letter_has_its_bytes_its_id_its_due_time_and_its_confirmed_sinks() {
        let entry = Element::entry(sample(&[]).reborn().unwrap(), 0).unwrap();
        assert_eq!(&entry.bytes()[..], b"\x08RANDOM8B");
        assert_eq!(entry.due_ms(), Some(1_795_251_632_252));
        assert_eq!(entry.header().confirmed, [sink_hash("audit"), sink_hash("lines")]);
        assert_eq!(entry.attempts(), 0);
    }

    #[test]
    fn what_a_sink_may_have_had_is_known_in_the_next_life() {
        let of = |change: &[(&str, &str)]| Element::entry(sample(change).reborn().unwrap(), 0).unwrap().header().doubt;
        assert!(!of(&[]) && !of(&[("attempts", "3"), ("in_doubt", "0")]));
        assert!(of(&[("in_doubt", "1")]));
        // Of a version that does not say.
        assert!(of(&[("attempts", "3")]) && of(&[("expiries", "1")]) && !of(&[("attempts", "0"), ("expiries", "0")]));
    }

    #[test]
    fn a_letter_from_the_ready_list_keeps_the_id_that_it_was_given() {
        let letter = sample(&[("origin", "ready"), ("due_ms", ""), ("element", "payload")]);
        let entry = Element::entry(letter.reborn().unwrap(), 0).unwrap();
        assert_eq!(entry.given_id(), MessageId(*b"RANDOM8B"));
        assert_eq!((entry.due_ms(), entry.header().time_ms), (None, 1_795_251_640_000));
    }

    #[test]
    fn what_lacks_a_field_is_refused_by_the_field_s_name() {
        for (field, change) in [("id", ("id", "a b")), ("origin", ("origin", "")), ("due_ms", ("due_ms", ""))] {
            assert_eq!(sample(&[change]).reborn().unwrap_err().field, field);
        }
        let mut empty = sample(&[]);
        empty.fields.retain(|(name, _)| name != "element");
        assert_eq!(empty.reborn().unwrap_err().field, "element");
    }

    #[test]
    fn a_letter_goes_by_its_place_and_by_its_element_s_id() {
        let letter = sample(&[]);
        assert!(letter.is("1-0") && letter.is("52414E444f4d3842") && !letter.is("1-1"));
    }
}
