//! Just enough HTTP to ask the daemon's own endpoints.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Status and body of an answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// The body as text.
    pub body: String,
}

/// `GET path` on 127.0.0.1; an error says why there was no answer within `patience`.
pub async fn get(port: u16, path: &str, patience: Duration) -> Result<Answer, String> {
    let exchange = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        // Version 1.0: the server closes when it has said everything, and does not chunk.
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        std::io::Result::Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let text = tokio::time::timeout(patience, exchange)
        .await
        .map_err(|_| format!("GET {path}: no answer within {patience:?}"))?
        .map_err(|e| format!("GET {path}: {e}"))?;
    let status = text.split_whitespace().nth(1).and_then(|code| code.parse().ok());
    let (status, (_, body)) =
        status.zip(text.split_once("\r\n\r\n")).ok_or(format!("GET {path}: answered {text:?}"))?;
    Ok(Answer { status, body: body.to_owned() })
}
