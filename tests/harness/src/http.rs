//! A minimal HTTP client for the daemon's endpoints.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The status and body of a response.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body as text.
    pub body: String,
}

/// Requests a path on 127.0.0.1; the error is the reason for no response within `patience`.
pub async fn get(port: u16, path: &str, patience: Duration) -> Result<Answer, String> {
    send(port, "GET", path, &[], b"", patience).await
}

/// Sends a request to 127.0.0.1, for `localhost` unless the headers name another host; the error is the reason for no
/// response within `patience`.
pub async fn send(
    port: u16,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
    patience: Duration,
) -> Result<Answer, String> {
    let named = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host"));
    let host = if named { &[][..] } else { &[("Host", "localhost")][..] };
    let length = body.len().to_string();
    let length = if body.is_empty() { &[][..] } else { &[("Content-Length", length.as_str())][..] };
    let fields: String =
        host.iter().chain(headers).chain(length).map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let exchange = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        // Version 1.0: the server closes the connection after the response, and does not use chunks.
        stream.write_all(&[format!("{method} {path} HTTP/1.0\r\n{fields}\r\n").as_bytes(), body].concat()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let answer = tokio::time::timeout(patience, exchange)
        .await
        .map_err(|_| format!("{method} {path}: no answer within {patience:?}"))?
        .map_err(|e| format!("{method} {path}: {e}"))?;
    read(&answer).map_err(|e| format!("{method} {path}: {e}"))
}

/// Parses a complete response. One that ends before its `Content-Length` is an error: the process was killed while it
/// wrote.
fn read(answer: &[u8]) -> Result<Answer, String> {
    let text = String::from_utf8_lossy(answer);
    let status = text.split_whitespace().nth(1).and_then(|code| code.parse().ok());
    let (status, (head, body)) = status.zip(text.split_once("\r\n\r\n")).ok_or(format!("answered {text:?}"))?;
    let length = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    };
    let came = answer.len() - head.len() - 4;
    match head.lines().find_map(length) {
        Some(all) if came < all => Err(format!("the answer was cut after {came} of {all} bytes")),
        _ => Ok(Answer { status, body: body.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_was_cut_is_an_error() {
        let answer = b"HTTP/1.0 200 OK\r\ncontent-length: 6\r\n\r\nup 1.0";
        assert_eq!(read(answer).expect("a whole answer").body, "up 1.0");
        assert_eq!(read(&answer[..answer.len() - 3]).expect_err("a cut one"), "the answer was cut after 3 of 6 bytes");
        assert!(read(&answer[..20]).is_err());
    }
}
