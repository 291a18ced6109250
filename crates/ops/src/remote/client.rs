//! A client of a daemon's admin API: one request a connection, and problems as the errors of this module.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use crate::error::{Error, ErrorKind};
use delaybridge_dial::{Address, Attempt};
use delaybridge_settings::files;

/// Limit for the connection, and for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Largest answer that is read.
const LARGEST: usize = 64 << 20;

/// The words for a change without an answer.
const UNKNOWN: &str = "it may have been done";

/// A daemon that is reached over HTTP.
#[derive(Clone)]
pub struct Daemon {
    address: Address,
    /// The path in front of `/v1`, where a proxy added one.
    base: String,
    token: Option<String>,
}

impl std::fmt::Debug for Daemon {
    /// Leaves out the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Daemon({}{})", self.address, self.base)
    }
}

impl Daemon {
    /// Returns the daemon at this URL, with the token of a file: the last word of the file's first line.
    ///
    /// # Errors
    ///
    /// The mistake in the URL or the file.
    pub fn at(url: &str, token_file: Option<&Path>) -> Result<Daemon, Error> {
        let bad = |problem: &str| {
            Error::invalid(format!(
                "read --daemon: {problem}; write http://127.0.0.1:9465 or unix:/run/delaybridge/admin.sock"
            ))
        };
        let token = token_file.map(read_token).transpose();
        if let Some(path) = url.strip_prefix("unix:") {
            if !path.starts_with('/') {
                return Err(bad("the path of a socket begins with `/`"));
            }
            return Ok(Daemon { address: Address::Unix(path.into()), base: String::new(), token: token? });
        }
        let uri: Uri = url.parse().map_err(|_| bad("it is no URL"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(bad("the admin API has no TLS; reach it over a tunnel, such as `kubectl port-forward`"));
            }
            _ => return Err(bad("it does not begin with `http://`")),
        }
        let authority = uri.authority().ok_or_else(|| bad("it names no host"))?;
        let port = authority.port_u16().unwrap_or(9465);
        let base = uri.path().trim_end_matches('/').to_owned();
        Ok(Daemon { address: Address::tcp(authority.host().trim_matches(['[', ']']), port), base, token: token? })
    }

    /// Returns the address, for a person.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    fn host(&self) -> String {
        match &self.address {
            Address::Tcp { .. } => self.address.to_string(),
            Address::Unix(_) => "localhost".to_owned(),
        }
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.ask(Method::GET, path, Bytes::new()).await
    }

    /// As [`ask`](Daemon::ask). What had no answer is sent again, which must do no harm.
    pub(crate) async fn ask_again<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.ask(method.clone(), path, body.clone()).await {
                Err(error) if error.message.contains(UNKNOWN) && tries < 3 => {}
                other => return other,
            }
        }
    }

    pub(crate) async fn ask<T: DeserializeOwned>(&self, method: Method, path: &str, body: Bytes) -> Result<T, Error> {
        T::deserialize(self.exchange(method, path, body).await?).map_err(|_| self.strange())
    }

    /// Returns the error for an answer of another version.
    pub(super) fn strange(&self) -> Error {
        Error::failed(format!(
            "ask the daemon at {}: its answer is of another version; look at `delaybridge --version`",
            self.address
        ))
    }

    async fn exchange(&self, method: Method, path: &str, body: Bytes) -> Result<Value, Error> {
        let what = format!("ask the daemon at {}", self.address);
        let changes = method != Method::GET;
        let failed = |problem: &str| Error::failed(format!("{what}: {problem}"));
        let attempt = Attempt::new(false, "");
        let opened = attempt.within(PATIENCE, attempt.open(&self.address, None)).await.unwrap_or_else(Err);
        let stream = opened
            .map_err(|error| failed(&format!("{error}; does it run, and has its configuration `http.admin`?")))?;
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        request = request.header(HOST, self.host()).header(CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request =
            request.body(Full::new(body)).map_err(|_| failed("the token or the path has a forbidden letter"))?;
        let exchange = async {
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            // The sender goes with the answer, and the connection with the sender.
            let answer = async move {
                let response = sender.send_request(request).await?;
                let status = response.status();
                let body = Limited::new(response.into_body(), LARGEST).collect().await;
                Ok::<_, hyper::Error>((status, body.map(|body| body.to_bytes())))
            };
            // Both at once: the connection only moves what the answer waits for.
            let (answer, _) = tokio::join!(answer, async {
                // What ends it ends the answer as well, with its own error.
                let _ = connection.await;
            });
            answer
        };
        let unknown = |problem: &str| {
            if changes {
                failed(&format!("{problem}; {UNKNOWN}: look, or run the command again"))
            } else {
                failed(problem)
            }
        };
        let (status, body) = match timeout(PATIENCE, exchange).await {
            Err(_) => return Err(unknown("no answer within 30 s")),
            Ok(Err(error)) => return Err(unknown(&error.to_string())),
            Ok(Ok((_, Err(_)))) => return Err(unknown("the answer was cut off")),
            Ok(Ok((status, Ok(body)))) => (status.as_u16(), body),
        };
        let value: Option<Value> = serde_json::from_slice(&body).ok();
        match (status, value) {
            (200..=299, Some(value)) => Ok(value),
            (_, Some(value)) if value.get("detail").is_some() => Err(refused(status, &value)),
            _ => Err(failed(&format!("it answered {status} and nothing of an admin API; is that its `http.admin`?"))),
        }
    }
}

/// Returns the error of the same command over Redis for a problem that the daemon reported.
fn refused(status: u16, problem: &Value) -> Error {
    let detail = problem["detail"].as_str().unwrap_or_default();
    let (kind, advice) = match status {
        400 => (ErrorKind::Invalid, ""),
        // The status does not tell an element or a letter from a queue.
        404 if [": not found", ": there are none"].iter().any(|words| detail.contains(words)) => {
            (ErrorKind::NotFound, "")
        }
        404 => (ErrorKind::Unknown, ""),
        401 | 403 => (ErrorKind::Failed, "; name its file by --token-file"),
        409 => (ErrorKind::Conflict, ""),
        _ => (ErrorKind::Failed, ""),
    };
    Error { kind, message: format!("{detail}{advice}") }
}

fn read_token(path: &Path) -> Result<String, Error> {
    let failed = |problem: &str| Error::invalid(format!("read the token from {}: {problem}", path.display()));
    let content = files::read(path).map_err(|error| failed(&error.to_string()))?;
    let text = String::from_utf8(content).map_err(|_| failed("it is not UTF-8 text"))?;
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let words: Vec<&str> = lines.next().ok_or_else(|| failed("it is empty"))?.split_whitespace().collect();
    // As in the file of a daemon: the token alone, or behind its name.
    let token = words.get(1).or(words.first()).copied().unwrap_or_default();
    if token.starts_with("sha256:") {
        Err(failed("it has the hash of the token, and not the token"))
    } else {
        Ok(token.to_owned())
    }
}

/// Encodes a name as a part of a path.
pub(super) fn part(name: &str) -> String {
    percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_checked_before_it_is_used() {
        let at = |url| Daemon::at(url, None).map(|daemon| (daemon.address.to_string(), daemon.base));
        assert_eq!(at("http://127.0.0.1:9465"), Ok(("127.0.0.1:9465".to_owned(), String::new())));
        assert_eq!(
            at("http://ops.internal/delaybridge/"),
            Ok(("ops.internal:9465".to_owned(), "/delaybridge".to_owned()))
        );
        assert_eq!(at("unix:/run/d/a.sock"), Ok(("unix:/run/d/a.sock".to_owned(), String::new())));
        for (url, expected) in [
            ("https://h:1", "has no TLS"),
            ("h:1", "http://"),
            ("ftp://h", "http://"),
            ("http://", "URL"),
            ("unix:a.sock", "begins with"),
        ] {
            let problem = at(url).unwrap_err();
            assert!(problem.kind == ErrorKind::Invalid && problem.message.contains(expected), "{url}: {problem}");
        }
    }

    #[test]
    fn a_token_is_found_behind_its_name_and_never_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            read_token(file.path()).map_err(|error| error.message)
        };
        assert_eq!(read("secret\n").as_deref(), Ok("secret"));
        assert_eq!(read("# ann's\nann secret\nbob other\n").as_deref(), Ok("secret"));
        assert_eq!(read("ann secret viewer orders*\n").as_deref(), Ok("secret"));
        assert!(read("").unwrap_err().contains("empty"));
        assert!(read("ann sha256:00").unwrap_err().contains("the hash"));
        std::fs::write(file.path(), "secret").unwrap();
        assert!(!format!("{:?}", Daemon::at("http://h:1", Some(file.path())).unwrap()).contains("secret"));
    }
}
