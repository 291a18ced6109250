//! The part of HTTP/1.1 that two of the job queues have in common.

use std::io::Result;

use serde_json::Value;

use super::{Client, unexpected};

/// Sends a request; returns the status and the body of the response.
pub(super) async fn ask(client: &mut Client, method: &str, path: &str, body: Option<&str>) -> Result<(u16, Vec<u8>)> {
    let media_type = if body.is_some() { "content-type: text/plain\r\n" } else { "" };
    let body = body.unwrap_or_default();
    let length = body.len();
    let request =
        format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{media_type}content-length: {length}\r\n\r\n{body}");
    client.write(request.as_bytes()).await?;
    let line = client.line().await?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(|| unexpected(line))?;
    let mut length = 0;
    loop {
        match client.line().await?.split_once(": ") {
            None => break,
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().map_err(|_| unexpected(value))?;
            }
            Some(_) => {}
        }
    }
    Ok((status, client.bytes(length).await?))
}

pub(super) fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str> {
    value[name].as_str().ok_or_else(|| unexpected(value))
}

pub(super) fn json(answer: &[u8]) -> Result<Value> {
    serde_json::from_slice(answer).map_err(|_| unexpected(String::from_utf8_lossy(answer)))
}
