//! Measures the replies of a server before the client library believes them.
//!
//! The library collects a reply until it is whole, however long a server says that it is, and keeps every message of a
//! subscription until somebody takes it. So its stream is measured: a reply that is larger than any of its kind ends the
//! connection, and nothing is read while too many messages wait.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use futures_util::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use delaybridge_dial::{Pace, ReadBudget};

/// Messages of a subscription that may wait.
const WAITING: usize = 1_024;
/// Bytes of a line that are looked at: a number with its sign.
const NUMBER: usize = 24;

/// The largest replies of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Largest {
    /// A line: the text of an error, a number.
    line: u64,
    /// A string.
    bulk: u64,
    /// All bytes of one reply.
    reply: u64,
}

impl Largest {
    /// The replies of a login, a sentinel, or a server that confirms.
    pub(super) const SMALL: Largest = Largest { line: 64 << 10, bulk: 8 << 20, reply: 8 << 20 };
    /// The replies of a server with elements, one of which may have the 512 MiB of Redis.
    pub(super) const ELEMENTS: Largest = Largest { line: 64 << 10, bulk: 512 << 20, reply: 640 << 20 };
    /// The messages of a subscription, which are short. They are counted, because the library keeps those that nobody has taken.
    pub(super) const MESSAGES: Largest = Largest { line: 64 << 10, bulk: 16 << 10, reply: 64 << 10 };
}

/// Bytes of a reply or a command from which on the buffers of a connection are worth giving back: the client library keeps them as large
/// as they ever were.
const LARGE: usize = 8 << 20;

/// Values in one reply, and how deep they are nested.
const VALUES: u64 = 1_000_000;
const DEPTH: usize = 16;

/// The bounds of one connection, shared with its owner.
#[derive(Debug)]
pub(super) struct Replies {
    small: Largest,
    large: Largest,
    is_large: AtomicBool,
    /// Whether a reply or a command was [`LARGE`] since that was last asked.
    was_large: AtomicBool,
    /// Messages of a subscription that were read and not taken.
    waiting: AtomicUsize,
    reader: AtomicWaker,
}

impl Replies {
    /// Creates bounds that hold from the first reply on.
    pub(super) fn new(largest: Largest) -> Arc<Replies> {
        Self::after_login(largest, largest)
    }

    /// Creates bounds that grow when the server has passed the checks.
    pub(super) fn after_login(small: Largest, large: Largest) -> Arc<Replies> {
        let is_large = AtomicBool::new(false);
        let waiting = AtomicUsize::new(0);
        let was_large = AtomicBool::new(false);
        Arc::new(Replies { small, large, is_large, was_large, waiting, reader: AtomicWaker::new() })
    }

    /// Allows the large replies.
    pub(super) fn logged_in(&self) {
        self.is_large.store(true, Ordering::Relaxed);
    }

    /// Returns whether a reply or a command was so large, since this was last asked, that the buffers of the connection are.
    pub(super) fn were_large(&self) -> bool {
        self.was_large.swap(false, Ordering::Relaxed)
    }

    fn see(&self, bytes: usize) {
        if bytes >= LARGE {
            self.was_large.store(true, Ordering::Relaxed);
        }
    }

    /// Counts a message of the subscription that was taken.
    pub(super) fn taken(&self) {
        let less = |waiting: usize| waiting.checked_sub(1);
        let _ = self.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        self.reader.wake();
    }

    fn largest(&self) -> Largest {
        if self.is_large.load(Ordering::Relaxed) { self.large } else { self.small }
    }

    fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        let has_room = || self.waiting.load(Ordering::Acquire) < WAITING;
        if has_room() {
            return Poll::Ready(());
        }
        self.reader.register(cx.waker());
        // Between the look and the registration some may have been taken.
        if has_room() { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// A stream whose replies are measured.
pub(super) struct Measured<S> {
    inner: S,
    meter: Meter,
    pace: Pace,
    replies: Arc<Replies>,
}

impl<S> Measured<S> {
    pub(super) fn new(inner: S, replies: Arc<Replies>) -> Measured<S> {
        Measured::within(inner, replies, ReadBudget::new(ReadBudget::ANSWERS))
    }

    /// Creates a measured stream with a budget that other connections share.
    pub(super) fn within(inner: S, replies: Arc<Replies>, reads: Arc<ReadBudget>) -> Measured<S> {
        Measured { inner, meter: Meter::default(), pace: Pace::of(reads), replies }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Measured<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.replies.poll_room(cx));
        // Elements come as fast as they can: the server with the queues is not hurried by anybody but us.
        let is_paced = this.replies.largest() != Largest::ELEMENTS;
        if is_paced {
            ready!(this.pace.poll_room(cx));
        }
        let before = into.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(cx, into))?;
        if is_paced {
            this.pace.spend(into.filled().len() - before);
        }
        let part = into.filled().len() - before;
        this.replies.see(usize::try_from(this.meter.bytes).unwrap_or(usize::MAX).saturating_add(part));
        let messages = this.meter.take(&into.filled()[before..], this.replies.largest());
        let messages = messages.map_err(|text| {
            io::Error::new(io::ErrorKind::InvalidData, format!("the server breaks the protocol: {text}"))
        })?;
        // Elsewhere the same bytes are a reply to a command.
        if messages > 0 && this.replies.largest() == Largest::MESSAGES {
            this.replies.waiting.fetch_add(messages, Ordering::AcqRel);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Measured<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        // All that is buffered: the client library writes it from one buffer.
        self.replies.see(bytes.len());
        Pin::new(&mut self.get_mut().inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.replies.see(parts.iter().map(|part| part.len()).sum());
        Pin::new(&mut self.get_mut().inner).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

/// The place in a stream of replies.
#[derive(Debug, Default)]
struct Meter {
    /// Values that are still to come of each open aggregate.
    open: Vec<u64>,
    /// The length of the current line so far, its type and its beginning.
    line: u64,
    kind: u8,
    number: [u8; NUMBER],
    ends_in_return: bool,
    /// Bytes of the current string that are still to come, with the end of its line.
    string: u64,
    /// Bytes of the current reply, and the values that it announces.
    bytes: u64,
    values: u64,
    name: Name,
}

/// The first value of a reply.
#[derive(Debug, Default, PartialEq, Eq)]
enum Name {
    /// The value has not begun.
    Next,
    /// A string with these bytes so far.
    Text([u8; LONGEST_NAME], usize),
    /// One of [`CONFIRMATIONS`].
    Confirmation,
    #[default]
    Other,
}

/// The names of lists that confirm a command of a subscription, with the end of the string. Any other list may be a message: the
/// library takes a name in several forms.
const CONFIRMATIONS: [&[u8]; 7] = [
    b"subscribe\r\n",
    b"unsubscribe\r\n",
    b"psubscribe\r\n",
    b"punsubscribe\r\n",
    b"ssubscribe\r\n",
    b"sunsubscribe\r\n",
    b"pong\r\n",
];
const LONGEST_NAME: usize = 14;

impl Meter {
    /// Takes in bytes; returns the number of lists that have ended with them and are messages on a subscription.
    fn take(&mut self, mut bytes: &[u8], largest: Largest) -> Result<usize, String> {
        let mut messages = 0;
        while !bytes.is_empty() {
            if self.string > 0 {
                let count = bytes.len().min(usize::try_from(self.string).unwrap_or(usize::MAX));
                self.compare(&bytes[..count]);
                self.string -= count as u64;
                self.bytes += count as u64;
                bytes = &bytes[count..];
                if self.string == 0 {
                    messages += self.value();
                }
                continue;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let part = &bytes[..end.map_or(bytes.len(), |end| end + 1)];
            bytes = &bytes[part.len()..];
            self.line(part);
            if self.line > largest.line {
                return Err(too_large("a line", self.line, largest.line));
            }
            if end.is_some() && self.ends_in_return {
                messages += self.end_of_line(largest)?;
            }
            if self.bytes > largest.reply {
                return Err(too_large("a reply", self.bytes, largest.reply));
            }
        }
        Ok(messages)
    }

    /// Takes in a part of a line, up to a line feed.
    fn line(&mut self, part: &[u8]) {
        for byte in part.iter().take(NUMBER) {
            match usize::try_from(self.line) {
                Ok(0) => self.kind = *byte,
                Ok(place) if place <= NUMBER => self.number[place - 1] = *byte,
                _ => {}
            }
            self.line += 1;
        }
        self.line += part.len().saturating_sub(NUMBER) as u64;
        self.bytes += part.len() as u64;
        let before_last = match part {
            [.., before, _] => *before == b'\r',
            // The return came with the part before.
            _ => self.ends_in_return,
        };
        self.ends_in_return = match part.last() {
            Some(b'\n') => before_last,
            last => last == Some(&b'\r'),
        };
    }

    fn end_of_line(&mut self, largest: Largest) -> Result<usize, String> {
        let text = self.line.saturating_sub(3);
        self.line = 0;
        self.ends_in_return = false;
        let number = || {
            let text = usize::try_from(text).ok().and_then(|length| self.number.get(..length));
            let text = text.and_then(|text| std::str::from_utf8(text).ok());
            text.and_then(|text| text.trim().parse::<i64>().ok()).ok_or("it has sent a length that is no number")
        };
        let values = |count: i64, each: u64| u64::try_from(count).unwrap_or(0).saturating_mul(each);
        match self.kind {
            b'$' | b'!' | b'=' => {
                let number = number()?;
                let Ok(size) = u64::try_from(number) else { return Ok(self.value()) };
                if size > largest.bulk || self.bytes.saturating_add(size) > largest.reply {
                    return Err(too_large("a string", size, largest.bulk.min(largest.reply)));
                }
                if self.name == Name::Next {
                    self.name = Name::Text([0; LONGEST_NAME], 0);
                }
                self.string = size + 2;
                Ok(0)
            }
            b'*' | b'~' | b'>' => self.aggregate(values(number()?, 1)),
            b'%' => self.aggregate(values(number()?, 2)),
            // What is described follows.
            b'|' => self.aggregate(values(number()?, 2) + 1),
            _ => Ok(self.value()),
        }
    }

    fn aggregate(&mut self, count: u64) -> Result<usize, String> {
        self.values = self.values.saturating_add(count);
        if self.values > VALUES {
            return Err(too_large("a reply with a number of values", self.values, VALUES));
        }
        if count == 0 {
            return Ok(self.value());
        }
        if self.open.len() == DEPTH {
            return Err(format!("it has sent values that are nested more than {DEPTH} deep"));
        }
        self.name = if self.open.is_empty() { Name::Next } else { Name::Other };
        self.open.push(count);
        Ok(0)
    }

    /// Takes in a part of a string, in case that it is the first value of its reply.
    fn compare(&mut self, part: &[u8]) {
        if let Name::Text(name, length) = &mut self.name {
            match name.get_mut(*length..*length + part.len()) {
                Some(room) => {
                    room.copy_from_slice(part);
                    *length += part.len();
                }
                None => self.name = Name::Other,
            }
        }
    }

    /// Ends a value, and with it perhaps those around it, up to the reply; returns 1 if that may be a message.
    fn value(&mut self) -> usize {
        self.name = match std::mem::take(&mut self.name) {
            Name::Confirmation => Name::Confirmation,
            Name::Text(name, length) if CONFIRMATIONS.contains(&&name[..length]) => Name::Confirmation,
            _ => Name::Other,
        };
        let is_list = !self.open.is_empty();
        while let Some(left) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                return 0;
            }
            self.open.pop();
        }
        (self.bytes, self.values) = (0, 0);
        usize::from(is_list && std::mem::take(&mut self.name) != Name::Confirmation)
    }
}

fn too_large(what: &str, size: u64, most: u64) -> String {
    format!("it has sent {what} of {size}, above {most}")
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Measures a stream, cut in several ways.
    fn measure(stream: &[u8], largest: Largest) -> Result<usize, String> {
        let mut results = Vec::new();
        for at_once in [1, 2, 3, 7, 16, 64, 1 << 20] {
            let mut meter = Meter::default();
            let chunks = stream.chunks(at_once).map(|bytes| meter.take(bytes, largest));
            results.push(chunks.sum::<Result<usize, String>>());
            if results.last().is_some_and(Result::is_ok) {
                assert_eq!((meter.bytes, meter.open.len(), meter.string, meter.line), (0, 0, 0, 0), "{at_once}");
            }
        }
        assert!(results.windows(2).all(|pair| pair[0].is_ok() == pair[1].is_ok()), "{results:?}");
        results.swap_remove(0)
    }

    #[test]
    fn replies_of_a_server_pass_and_messages_are_counted() {
        for (stream, messages) in [
            (&b"+OK\r\n-ERR no\r\n:7\r\n$-1\r\n*-1\r\n$0\r\n\r\n*0\r\n_\r\n#t\r\n,1.5\r\n(12345678901234567890123\r\n"[..], 0),
            (b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$4\r\n\r\n\r\n\r\n", 1),
            (b"*2\r\n$8\r\npmessage\r\n$8\r\npmessage\r\n*2\r\n$8\r\nsmessage\r\n:1\r\n", 2),
            (b"*2\r\n+message\r\n+c\r\n>1\r\n=11\r\ntxt:message\r\n*1\r\n*1\r\n$9\r\nsubscribe\r\n", 3),
            (b"*3\r\n$9\r\nsubscribe\r\n$7\r\nmessage\r\n:1\r\n", 0),
            (b"*3\r\n$12\r\npunsubscribe\r\n$1\r\nc\r\n:0\r\n*2\r\n$4\r\npong\r\n$0\r\n\r\n", 0),
            (b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n", 2),
            (b"%1\r\n+a\r\n*2\r\n:1\r\n=7\r\ntxt:abc\r\n|1\r\n+a\r\n+b\r\n:5\r\n+a \n b\r\n", 2),
        ] {
            assert_eq!(measure(stream, Largest::SMALL), Ok(messages), "{}", stream.escape_ascii());
        }
    }

    #[test]
    fn what_is_larger_than_any_reply_is_refused_before_it_comes() {
        let deep = b"*1\r\n".repeat(DEPTH + 1);
        let many = format!("*2\r\n*999999\r\n{}*2\r\n", ":1\r\n".repeat(999_999));
        let long = [&b"+"[..], &[b'a'; 64 << 10]].concat();
        let strings = format!("*5\r\n{}", format!("$16384\r\n{}\r\n", "a".repeat(16_384)).repeat(5));
        for (stream, largest) in [
            (&b"$2147483647\r\n"[..], Largest::ELEMENTS),
            (b"$536870913\r\n", Largest::ELEMENTS),
            (b"$8388609\r\n", Largest::SMALL),
            (b"=16385\r\n", Largest::MESSAGES),
            (b"*1000001\r\n", Largest::ELEMENTS),
            (b"%9223372036854775807\r\n", Largest::ELEMENTS),
            (b"|9223372036854775807\r\n", Largest::ELEMENTS),
            (b"*99999999999999999999999999999\r\n", Largest::ELEMENTS),
            (b"$x\r\n", Largest::ELEMENTS),
            (&deep, Largest::ELEMENTS),
            (many.as_bytes(), Largest::ELEMENTS),
            (&long, Largest::ELEMENTS),
            (strings.as_bytes(), Largest::MESSAGES),
        ] {
            assert!(measure(stream, largest).is_err(), "{}", stream[..stream.len().min(40)].escape_ascii());
        }
        let largest = format!("$536870912\r\n{}", "a".repeat(1 << 20));
        assert_eq!(Meter::default().take(largest.as_bytes(), Largest::ELEMENTS), Ok(0));
    }

    #[test]
    fn large_replies_are_for_servers_that_are_logged_in() {
        let replies = Replies::after_login(Largest::SMALL, Largest::ELEMENTS);
        assert_eq!(replies.largest(), Largest::SMALL);
        replies.logged_in();
        assert_eq!(replies.largest(), Largest::ELEMENTS);
    }

    #[tokio::test]
    async fn nothing_is_read_while_too_many_messages_wait() {
        let replies = Replies::new(Largest::MESSAGES);
        let stream = b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n".repeat(2 * WAITING);
        let mut measured = Measured::new(io::Cursor::new(stream), replies.clone());
        let mut buffer = vec![0; 33];
        let mut read = 0;
        let mut poll = || {
            let mut into = ReadBuf::new(&mut buffer);
            Pin::new(&mut measured).poll_read(&mut Context::from_waker(Waker::noop()), &mut into).is_ready()
        };
        while poll() {
            read += 1;
            assert!(read <= 2 * WAITING, "it reads on");
        }
        assert!(replies.waiting.load(Ordering::Relaxed) >= WAITING);
        (0..10).for_each(|_| replies.taken());
        assert!(poll());
    }

    #[tokio::test]
    async fn replies_that_look_like_messages_do_not_stop_a_connection_for_commands() {
        for largest in [Largest::SMALL, Largest::ELEMENTS] {
            let stream = b"*1\r\n$7\r\nmessage\r\n".repeat(2 * WAITING);
            let mut measured = Measured::new(io::Cursor::new(stream.clone()), Replies::new(largest));
            let mut read = Vec::new();
            tokio::io::AsyncReadExt::read_to_end(&mut measured, &mut read).await.unwrap();
            assert_eq!(read.len(), stream.len());
        }
    }
}
