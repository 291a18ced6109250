//! Queues as the broker itself sees them, over the port of HTTP that `artemis/Broker.java` opens.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::Artemis;
use crate::error::{During, Error, Result};

/// A message in a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtemisMessage {
    /// Whether it survives a restart.
    pub durable: bool,
    /// The property `message-id`; `null` without one.
    pub id: String,
    /// The property `content-type`.
    pub content_type: String,
    /// The property `to`.
    pub to: String,
    /// Application properties, sorted.
    pub properties: Vec<(String, String)>,
    /// The time at which the broker took it, in ms; 0 without [`ArtemisOptions::times`](super::ArtemisOptions::times).
    pub arrived_ms: i64,
    /// The body.
    pub body: Vec<u8>,
}

impl Artemis {
    /// Makes a queue, with an address of its name.
    pub fn create(&self, queue: &str) -> Result<()> {
        self.request("POST", "create", queue).map(drop)
    }

    /// Deletes a queue and its address.
    pub fn delete(&self, queue: &str) -> Result<()> {
        self.request("POST", "delete", queue).map(drop)
    }

    /// Removes all messages of a queue.
    pub fn purge(&self, queue: &str) -> Result<()> {
        self.request("POST", "purge", queue).map(drop)
    }

    /// Makes the address of this name full: it refuses messages.
    pub fn fill(&self, address: &str) -> Result<()> {
        self.request("POST", "fill", address).map(drop)
    }

    /// Undoes [`fill`](Artemis::fill); no message is removed.
    pub fn empty(&self, address: &str) -> Result<()> {
        self.request("POST", "empty", address).map(drop)
    }

    /// Takes the right to send to the address of this name from everyone.
    pub fn deny(&self, address: &str) -> Result<()> {
        self.request("POST", "deny", address).map(drop)
    }

    /// Undoes [`deny`](Artemis::deny).
    pub fn allow(&self, address: &str) -> Result<()> {
        self.request("POST", "allow", address).map(drop)
    }

    /// The messages of a queue, in order.
    pub fn messages(&self, queue: &str) -> Result<Vec<ArtemisMessage>> {
        read(&self.request("GET", "messages", queue)?)
    }

    /// Takes the messages of a queue, in order.
    pub fn take(&self, queue: &str) -> Result<Vec<ArtemisMessage>> {
        read(&self.request("POST", "take", queue)?)
    }

    fn request(&self, method: &str, what: &str, queue: &str) -> Result<String> {
        let what_for = format!("{what} queue {queue}");
        let mut stream = TcpStream::connect(("127.0.0.1", self.http)).during(&what_for)?;
        let head = format!("{method} /{what}?{queue} HTTP/1.0\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(head.as_bytes()).during(&what_for)?;
        let mut text = String::new();
        stream.read_to_string(&mut text).during(&what_for)?;
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        match head.split(' ').nth(1) {
            Some("200") => Ok(body.to_owned()),
            _ => Err(Error::new(format!("{what_for}: {head} {body}"))),
        }
    }
}

/// The messages of an answer, each a line, with a dot behind the last.
fn read(text: &str) -> Result<Vec<ArtemisMessage>> {
    let lines =
        text.strip_suffix(".\n").ok_or_else(|| Error::new("read the messages of a queue: the answer was cut"))?;
    lines.lines().map(|line| message(line).ok_or_else(|| Error::new(format!("read {line:?}: no message")))).collect()
}

fn message(line: &str) -> Option<ArtemisMessage> {
    let parts = line.split(' ').map(decoded).collect::<Option<Vec<_>>>()?;
    let text = |place: usize| parts.get(place).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let mut properties: Vec<(String, String)> = text(4)?
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| Some((String::from_utf8(decoded(name)?).ok()?, String::from_utf8(decoded(value)?).ok()?)))
        .collect::<Option<_>>()?;
    properties.sort();
    let body = parts.get(6)?.clone();
    Some(ArtemisMessage {
        durable: text(0)? == "true",
        id: text(1)?,
        content_type: text(2)?,
        to: text(3)?,
        properties,
        arrived_ms: text(5)?.parse().ok()?,
        body,
    })
}

/// Undoes base64.
pub(crate) fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut bits = 0_u32;
    let mut count = 0;
    for letter in text.bytes().filter(|letter| *letter != b'=') {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_undone() {
        for (text, bytes) in
            [("", &b""[..]), ("YQ==", b"a"), ("YWI=", b"ab"), ("YWJj", b"abc"), ("+/8=", &[0xfb, 0xff])]
        {
            assert_eq!(decoded(text).as_deref(), Some(bytes), "{text}");
        }
        assert_eq!(decoded("a-"), None);
    }
}
