//! A client for the tests' own eyes: one question at a time, and no code of the program under test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::error::{During, Error, Result};

/// Time-out of an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection without login.
#[derive(Debug)]
pub struct NatsClient {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl NatsClient {
    /// Connects to the server at this port of 127.0.0.1.
    pub fn connect(port: u16) -> Result<Self> {
        let what = format!("connect to NATS at port {port}");
        let writer = TcpStream::connect(("127.0.0.1", port)).during(&what)?;
        writer.set_read_timeout(Some(PATIENCE)).during(&what)?;
        let reader = BufReader::new(writer.try_clone().during(&what)?);
        let mut client = NatsClient { reader, writer };
        client.line()?;
        let hello = "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true}\r\n\
                     SUB test.inbox.* 1\r\nPING\r\n";
        client.writer.write_all(hello.as_bytes()).during(&what)?;
        while !client.line()?.starts_with("PONG") {}
        Ok(client)
    }

    /// Asks on a subject; returns the body of the answer.
    pub fn request(&mut self, subject: &str, body: &[u8]) -> Result<Vec<u8>> {
        let what = format!("ask NATS on {subject}");
        let mut bytes = format!("PUB {subject} test.inbox.1 {}\r\n", body.len()).into_bytes();
        bytes.extend_from_slice(body);
        bytes.extend_from_slice(b"\r\n");
        self.writer.write_all(&bytes).during(&what)?;
        loop {
            let line = self.line()?;
            let mut words = line.split_ascii_whitespace();
            let lengths = match words.next() {
                Some("MSG") => (0, words.next_back()),
                Some("HMSG") => {
                    let total = words.next_back();
                    (words.next_back().and_then(|header| header.parse().ok()).unwrap_or(0), total)
                }
                Some("PING") => {
                    self.writer.write_all(b"PONG\r\n").during(&what)?;
                    continue;
                }
                Some("-ERR") => return Err(Error::new(format!("{what}: {line}"))),
                _ => continue,
            };
            let (header, total): (usize, usize) =
                (lengths.0, lengths.1.and_then(|total| total.parse().ok()).unwrap_or(0));
            let mut message = vec![0; total + 2];
            self.reader.read_exact(&mut message).during(&what)?;
            if header > 0 && message.starts_with(b"NATS/1.0 503") {
                return Err(Error::new(format!("{what}: nobody answers")));
            }
            return Ok(message[header..total].to_vec());
        }
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line).during("read a line of NATS")? {
            0 => Err(Error::new("read a line of NATS: the connection is closed")),
            _ => Ok(line),
        }
    }
}
