//! The part of Kafka's protocol that administration needs: one request and one response, on a connection of its own.
//!
//! Kafka's own tools take a second of CPU for every call; this takes milliseconds. The versions are the oldest that
//! Kafka 4 supports, and older than the compact encodings.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::error::{During, Error, Result};

/// Time-out, so that a suspended or overloaded node does not block a test for ever.
const PATIENCE: Duration = Duration::from_secs(20);

/// A kind of request: Kafka's number of it, and the version of its layout.
#[derive(Debug, Clone, Copy)]
pub(super) struct Api {
    pub(super) key: i16,
    pub(super) version: i16,
    pub(super) name: &'static str,
}

#[derive(Debug, Default, Clone)]
pub(super) struct Request(Vec<u8>);

impl Request {
    pub(super) fn i8(mut self, value: i8) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn i16(mut self, value: i16) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn i32(mut self, value: i32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn i64(mut self, value: i64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn bool(self, value: bool) -> Self {
        self.i8(i8::from(value))
    }

    pub(super) fn string(self, text: &str) -> Self {
        let length = i16::try_from(text.len()).expect("names and values are short");
        let mut request = self.i16(length);
        request.0.extend(text.as_bytes());
        request
    }

    pub(super) fn null_string(self) -> Self {
        self.i16(-1)
    }

    /// Appends the length and the elements of an array.
    pub(super) fn array<T>(self, elements: &[T], write: impl Fn(Self, &T) -> Self) -> Self {
        let length = i32::try_from(elements.len()).expect("a handful of elements");
        elements.iter().fold(self.i32(length), write)
    }
}

/// The unread rest of a response.
#[derive(Debug)]
pub(super) struct Answer {
    bytes: Vec<u8>,
    at: usize,
}

impl Answer {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.bytes.get(self.at..self.at + N).ok_or_else(|| Error::new("Kafka's answer is too short"))?;
        self.at += N;
        Ok(bytes.try_into().expect("a slice of this length"))
    }

    pub(super) fn i8(&mut self) -> Result<i8> {
        self.take().map(i8::from_be_bytes)
    }

    pub(super) fn i16(&mut self) -> Result<i16> {
        self.take().map(i16::from_be_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32> {
        self.take().map(i32::from_be_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64> {
        self.take().map(i64::from_be_bytes)
    }

    /// Reads a string; `None` for null.
    pub(super) fn string(&mut self) -> Result<Option<String>> {
        let Ok(length) = usize::try_from(self.i16()?) else { return Ok(None) };
        let bytes =
            self.bytes.get(self.at..self.at + length).ok_or_else(|| Error::new("Kafka's answer is too short"))?;
        self.at += length;
        Ok(Some(String::from_utf8_lossy(bytes).into_owned()))
    }

    /// Reads an array; null is an empty one.
    pub(super) fn array<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        (0..self.i32()?.max(0)).map(|_| read(self)).collect()
    }
}

/// Sends a request to the listener without authentication on `port`.
pub(super) fn call(port: u16, api: Api, body: &Request) -> Result<Answer> {
    exchange(port, api, body).map_err(|e| e.during(format_args!("ask Kafka on port {port} to {}", api.name)))
}

fn exchange(port: u16, api: Api, body: &Request) -> Result<Answer> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).during("connect")?;
    stream.set_read_timeout(Some(PATIENCE)).during("set a time-out")?;
    stream.set_write_timeout(Some(PATIENCE)).during("set a time-out")?;

    const CORRELATION: i32 = 1;
    let head = Request::default().i16(api.key).i16(api.version).i32(CORRELATION).string("delaybridge-test");
    let length = i32::try_from(head.0.len() + body.0.len()).expect("a short request");
    let message = [&length.to_be_bytes()[..], &head.0, &body.0].concat();
    stream.write_all(&message).during("send")?;

    let mut length = [0; 4];
    stream.read_exact(&mut length).during("read the answer")?;
    let length = usize::try_from(i32::from_be_bytes(length)).map_err(|_| Error::new("a negative length"))?;
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).during("read the answer")?;
    let mut answer = Answer { bytes, at: 0 };
    if answer.i32()? == CORRELATION { Ok(answer) } else { Err(Error::new("the answer is to another question")) }
}
