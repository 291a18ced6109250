//! The same use cases, asked of a running daemon over its admin API instead of Redis. The answers are of the same shapes.

mod dead;
mod elements;

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

pub use self::dead::{count, letters, purge, redrive, show};
pub use self::elements::{act, find, peek};
use super::error::{Error, Kind};
use super::overview::{Hold, MOST, Overview, Row, Sinks};
use super::pause::{PauseChanges, PauseEnd, Reason, Target};

/// For the connection, and for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// A larger answer is none of a daemon.
const LARGEST: usize = 64 << 20;
/// Most queues that are read in a row.
const QUEUES: usize = 100_000;

/// A daemon that is reached over HTTP.
#[derive(Debug, Clone)]
pub struct Daemon {
    /// Where it listens.
    place: Place,
    /// What is in front of `/v1`, where a proxy put it somewhere else.
    base: String,
    /// The token, and never its text in an error.
    token: Option<Token>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// `host:port`.
    Tcp(String),
    /// The path of its socket.
    Unix(PathBuf),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Tcp(authority) => f.write_str(authority),
            Place::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[derive(Clone)]
struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// Either kind of connection.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Place {
    async fn connect(&self) -> std::io::Result<Box<dyn Stream>> {
        Ok(match self {
            Place::Tcp(authority) => Box::new(TcpStream::connect(authority).await?),
            Place::Unix(path) => Box::new(UnixStream::connect(path).await?),
        })
    }

    /// What the request calls the daemon.
    fn host(&self) -> &str {
        match self {
            Place::Tcp(authority) => authority,
            Place::Unix(_) => "localhost",
        }
    }
}

impl Daemon {
    /// At this URL, with the token of a file: the file's text, or the last word of its first line.
    ///
    /// # Errors
    ///
    /// What is wrong with the URL or the file.
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
            return Ok(Daemon { place: Place::Unix(path.into()), base: String::new(), token: token? });
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
        Ok(Daemon { place: Place::Tcp(format!("{}:{port}", authority.host())), base, token: token? })
    }

    /// Where it is, for a person.
    pub fn address(&self) -> String {
        self.place.to_string()
    }

    async fn get(&self, path: &str) -> Result<Value, Error> {
        self.ask(Method::GET, path, Bytes::new()).await
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value, Error> {
        self.ask(Method::POST, path, body.to_string().into()).await
    }

    async fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<Value, Error> {
        let what = format!("ask the daemon at {}", self.place);
        let changes = method != Method::GET;
        let failed = |problem: &str| Error::failed(format!("{what}: {problem}"));
        let connected = timeout(PATIENCE, self.place.connect()).await;
        let stream = match connected {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                return Err(failed(&format!("{error}; does it run, and has its configuration `http.admin`?")));
            }
            Err(_) => return Err(failed("no connection within 30 s")),
        };
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        request = request.header(HOST, self.place.host()).header(CONTENT_TYPE, "application/json");
        if let Some(Token(token)) = &self.token {
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
        let unknown = |problem: &str| match changes {
            true => failed(&format!("{problem}; it may have been done: look, or run the command again")),
            false => failed(problem),
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

/// A problem that the daemon reported, as the error that the same command has over Redis.
fn refused(status: u16, problem: &Value) -> Error {
    let detail = problem["detail"].as_str().unwrap_or_default();
    let (kind, advice) = match status {
        400 => (Kind::Invalid, ""),
        // As a queue that the configuration does not have.
        404 => (Kind::Invalid, ""),
        401 | 403 => (Kind::Failed, "; name its file by --token-file"),
        409 => (Kind::Conflict, ""),
        _ => (Kind::Failed, ""),
    };
    Error { kind, message: format!("{detail}{advice}") }
}

fn read_token(path: &Path) -> Result<Token, Error> {
    let failed = |problem: &str| Error::invalid(format!("read the token from {}: {problem}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error.to_string()))?;
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let token =
        lines.next().and_then(|line| line.split_whitespace().next_back()).ok_or_else(|| failed("it is empty"))?;
    match token.starts_with("sha256:") {
        true => Err(failed("it has the hash of the token, and not the token")),
        false => Ok(Token(token.to_owned())),
    }
}

/// What is asked for by its id, and is not there: as over Redis.
fn of_one(error: Error, not_found: &str) -> Error {
    let kind = if error.message.contains(not_found) { Kind::NotFound } else { error.kind };
    Error { kind, ..error }
}

/// A name as a part of a path.
fn part(name: &str) -> String {
    percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// Every queue with this in its name.
///
/// # Errors
///
/// When the daemon does not answer.
pub async fn overview(daemon: &Daemon, like: &str) -> Result<Overview, Error> {
    let mut all = Overview::default();
    let mut after = String::new();
    loop {
        let path = format!("/v1/queues?limit={MOST}&like={}&after={after}", part(like));
        let answer = daemon.get(&path).await?;
        let page = Overview::read(&answer).ok_or_else(|| strange(daemon))?;
        all.queues.extend(page.queues);
        all.errors.extend(page.errors);
        all.clocks = page.clocks;
        match page.next {
            Some(next) if all.queues.len() + all.errors.len() < QUEUES => after = part(&next),
            next => {
                all.next = next;
                return Ok(all);
            }
        }
    }
}

/// Why it claims nothing from a queue, if it does not.
///
/// # Errors
///
/// When the daemon does not answer, or has no such queue.
pub async fn hold(daemon: &Daemon, queue: &str) -> Result<Option<Hold>, Error> {
    let answer = daemon.get(&format!("/v1/queues/{}", part(queue))).await?;
    let row = Row::read(&answer).ok_or_else(|| strange(daemon))?;
    Ok(row.here.and_then(|here| here.held))
}

/// Its sinks.
///
/// # Errors
///
/// When the daemon does not answer.
pub async fn sinks(daemon: &Daemon) -> Result<Sinks, Error> {
    Sinks::deserialize(daemon.get("/v1/sinks").await?).map_err(|_| strange(daemon))
}

/// The settings that run, without secrets.
///
/// # Errors
///
/// When the daemon does not answer, or wants a token.
pub async fn config(daemon: &Daemon) -> Result<Value, Error> {
    daemon.get("/v1/config").await
}

/// Pauses a queue or a sink.
///
/// # Errors
///
/// As over Redis; and when the daemon does not answer.
pub async fn pause(daemon: &Daemon, target: Target<'_>, reason: &Reason<'_>) -> Result<PauseChanges, Error> {
    let mut body = json!({ "by": reason.by, "why": reason.why });
    match reason.end {
        PauseEnd::Never => {}
        PauseEnd::After(time) => body["for"] = json!(humantime::format_duration(time).to_string()),
        PauseEnd::At(ms) => body["until_ms"] = json!(ms),
    }
    let answer = daemon.post(&path_of(target, "pause"), &body).await?;
    PauseChanges::deserialize(answer).map_err(|_| strange(daemon))
}

/// Ends a pause.
///
/// # Errors
///
/// As over Redis; and when the daemon does not answer.
pub async fn resume(daemon: &Daemon, target: Target<'_>) -> Result<PauseChanges, Error> {
    let answer = daemon.post(&path_of(target, "resume"), &json!({})).await?;
    PauseChanges::deserialize(answer).map_err(|_| strange(daemon))
}

fn path_of(target: Target<'_>, verb: &str) -> String {
    match target {
        Target::Queue(name) => format!("/v1/queues/{}/{verb}", part(name)),
        Target::Sink(name) => format!("/v1/sinks/{}/{verb}", part(name)),
    }
}

fn strange(daemon: &Daemon) -> Error {
    Error::failed(format!(
        "ask the daemon at {}: its answer is of another version; look at `delaybridge --version`",
        daemon.place
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_checked_before_it_is_used() {
        let at = |url| Daemon::at(url, None).map(|daemon| (daemon.place.to_string(), daemon.base));
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
            assert!(problem.kind == Kind::Invalid && problem.message.contains(expected), "{url}: {problem}");
        }
    }

    #[test]
    fn a_token_is_the_last_word_of_its_line_and_never_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            read_token(file.path()).map(|Token(token)| token).map_err(|error| error.message)
        };
        assert_eq!(read("secret\n").as_deref(), Ok("secret"));
        assert_eq!(read("# ann's\nann secret\nbob other\n").as_deref(), Ok("secret"));
        assert!(read("").unwrap_err().contains("empty"));
        assert!(read("ann sha256:00").unwrap_err().contains("the hash"));
        std::fs::write(file.path(), "secret").unwrap();
        assert!(!format!("{:?}", Daemon::at("http://h:1", Some(file.path())).unwrap()).contains("secret"));
    }

    #[test]
    fn a_name_cannot_leave_its_place_in_the_path() {
        assert_eq!(path_of(Target::Queue("a/../b?x"), "pause"), "/v1/queues/a%2F%2E%2E%2Fb%3Fx/pause");
    }
}
