//! One request to a server of ours, for the tests' own eyes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::error::{During, Error, Result};

/// Time-out of an answer.
const ANSWER: Duration = Duration::from_secs(20);

/// Posts a body to `/` at this port of 127.0.0.1; `headers` are lines. Returns the body of the answer.
pub(crate) fn post(what: &str, port: u16, headers: &[String], body: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).during(what)?;
    stream.set_read_timeout(Some(ANSWER)).during(what)?;
    let request = format!(
        "POST / HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n{}\r\ncontent-length: {}\r\n\r\n{body}",
        headers.join("\r\n"),
        body.len()
    );
    stream.write_all(request.as_bytes()).during(what)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).during(what)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    match head.split(' ').nth(1) {
        Some("200") => Ok(body.to_owned()),
        _ => Err(Error::new(format!("{what}: {head}\n{body}"))),
    }
}
