//! One attempt to connect: files, TCP, TLS, login, and the questions to the server.
//!
//! The login uses our own commands instead of the client library's, which hides the server's message. Nothing is
//! retried here.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, FromRedisValue, IntoConnectionInfo, Pipeline, RedisConnectionInfo,
    RedisError, Value,
};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::error::{ConnectError, ConnectErrorKind};
use super::gate::Gate;
use super::info::ServerInfo;
use super::refusal::{Question, explain, refusal};
use super::{LinkOptions, stream, tls};
use crate::RedisEndpoint;

/// An endpoint with its files read, for one attempt: the files may be rotated before the next.
pub(super) struct Prepared {
    addr: ConnectionAddr,
    certificates: Option<redis::TlsCertificates>,
    tls: Option<Arc<rustls::ClientConfig>>,
    password: Option<SecretString>,
}

/// Reads the password and the certificates.
pub(super) async fn prepare(endpoint: &Arc<RedisEndpoint>) -> Result<Prepared, (ConnectErrorKind, String)> {
    let endpoint = endpoint.clone();
    // On a blocking thread: a mounted secret may be on a slow file system.
    let task = tokio::task::spawn_blocking(move || {
        let password = match &endpoint.password {
            None => None,
            Some(secret) => Some(secret.read("password_file").map_err(|text| (ConnectErrorKind::Secret, text))?),
        };
        let (host, port) = (endpoint.host.clone(), endpoint.port);
        let (addr, certificates, tls) = match &endpoint.tls {
            None => (ConnectionAddr::Tcp(host, port), None, None),
            Some(files) => {
                tls::init();
                let unusable = |text| (ConnectErrorKind::Tls, text);
                let files = tls::read(files).map_err(unusable)?;
                let config = tls::client_config(&files).map_err(unusable)?;
                let addr = ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None };
                (addr, Some(files), Some(Arc::new(config)))
            }
        };
        Ok(Prepared { addr, certificates, tls, password })
    });
    task.await.unwrap_or_else(|error| Err((ConnectErrorKind::Server, format!("reading the files failed: {error}"))))
}

impl Prepared {
    /// Creates a client of the library; `settings` decides what the library sends by itself.
    fn client(&self, settings: RedisConnectionInfo) -> Result<Client, RedisError> {
        let tcp = TcpSettings::default().set_nodelay(true);
        let tcp = tcp.set_keepalive(stream::keepalive()).set_user_timeout(stream::USER_TIMEOUT);
        let info = self.addr.clone().into_connection_info()?.set_tcp_settings(tcp).set_redis_settings(settings);
        match &self.certificates {
            None => Client::open(info),
            Some(certificates) => Client::build_with_tls(info, certificates.clone()),
        }
    }
}

/// An open connection: the client library's handle, the task that drives it, and the gate before the socket.
pub(super) struct Wire {
    pub(super) connection: MultiplexedConnection,
    /// The driver task, aborted with the wire.
    pub(super) _driver: AbortOnDropHandle<()>,
    pub(super) gate: Arc<Gate>,
}

impl Wire {
    async fn open(endpoint: &RedisEndpoint, tls: Option<Arc<rustls::ClientConfig>>) -> Result<Wire, RedisError> {
        let gate = Arc::new(Gate::default());
        let stream = stream::open((&endpoint.host, endpoint.port), tls, gate.clone()).await?;
        // The library sends nothing: its set-up hides the server's reply to AUTH.
        let settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        // Deadlines are ours: the library's default for replies (0.5 s) is too short for a script, and a command must
        // not be given up without telling the caller that it may have run.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let (connection, driver) = MultiplexedConnection::new_with_config(&settings, stream, config).await?;
        Ok(Wire { connection, _driver: AbortOnDropHandle::new(tokio::spawn(driver)), gate })
    }
}

/// Connects, logs in and asks for the server's information, all within the endpoint's `connect_timeout`.
///
/// # Errors
///
/// Returns what failed, where, and what to do about it.
pub(super) async fn connect(
    endpoint: &Arc<RedisEndpoint>,
    options: &LinkOptions,
) -> Result<(Wire, ServerInfo), ConnectError> {
    let deadline = Instant::now() + endpoint.connect_timeout;
    let mut opened = false;
    let attempt = async {
        let prepared = within(deadline, endpoint, "reading password and certificates", prepare(endpoint)).await?;
        let tls = prepared.tls.is_some();
        let stage = if tls { "opening the TLS connection" } else { "opening the TCP connection" };
        let opening = async { Wire::open(endpoint, prepared.tls.clone()).await.map_err(|error| explain(&error, tls)) };
        let mut wire = within(deadline, endpoint, stage, opening).await?;
        opened = true;
        let greeting = greet(&mut wire.connection, endpoint, options, prepared.password.as_ref(), tls);
        let info = within(deadline, endpoint, "logging in", greeting).await?;
        Ok((wire, info))
    };
    let (kind, message) = match attempt.await {
        Ok(connected) => return Ok(connected),
        Err(problem) => problem,
    };
    let problem = ConnectError { kind, address: endpoint.address(), message };
    // A server closes the connection of a client that sends more than 16 KiB before it is logged in, as our scripts do.
    // The reply to the login is lost then, so the login is repeated alone.
    if opened && kind == ConnectErrorKind::Unreachable {
        let login = timeout_at(deadline, ask(endpoint, "PING", &redis::cmd("PING"))).await;
        if let Ok(Err(refused)) = login
            && refused.kind == ConnectErrorKind::Auth
        {
            return Err(refused);
        }
    }
    Err(problem)
}

/// Connects for publish and subscribe.
///
/// # Errors
///
/// As for [`connect`].
pub(super) async fn connect_pubsub(endpoint: &Arc<RedisEndpoint>) -> Result<redis::aio::PubSub, ConnectError> {
    let attempt = async {
        let deadline = Instant::now() + endpoint.connect_timeout;
        let prepared = within(deadline, endpoint, "reading password and certificates", prepare(endpoint)).await?;
        // The library's name and version would need a right that nothing else needs, and that servers before 7.2 do not
        // know.
        let mut settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(user) = &endpoint.username {
            settings = settings.set_username(user);
        }
        if let Some(password) = &prepared.password {
            settings = settings.set_password(password.expose_secret());
        }
        let client = prepared.client(settings).map_err(|error| explain(&error, prepared.tls.is_some()))?;
        let opening =
            async { client.get_async_pubsub().await.map_err(|error| explain(&error, prepared.tls.is_some())) };
        within(deadline, endpoint, "opening the subscription connection", opening).await
    };
    attempt.await.map_err(|(kind, message)| ConnectError { kind, address: endpoint.address(), message })
}

/// Connects to `endpoint`, sends one command, and disconnects. `words` is the command without arguments, for errors.
///
/// # Errors
///
/// As for [`connect`].
pub(super) async fn ask(
    endpoint: &Arc<RedisEndpoint>,
    words: &'static str,
    command: &redis::Cmd,
) -> Result<Value, ConnectError> {
    ask_and_stay(endpoint, words, command).await.map(|(answer, _)| answer)
}

/// A logged-in connection for single questions.
pub(super) struct Asking {
    endpoint: Arc<RedisEndpoint>,
    wire: Wire,
}

impl Asking {
    /// Sends one more command.
    ///
    /// # Errors
    ///
    /// As for [`connect`]; the connection is unusable then.
    pub(super) async fn ask(&mut self, words: &'static str, command: &redis::Cmd) -> Result<Value, ConnectError> {
        let endpoint = &self.endpoint;
        let deadline = Instant::now() + endpoint.command_timeout;
        let connection = &mut self.wire.connection;
        let answer = async {
            let tls = endpoint.tls.is_some();
            connection.send_packed_command(command).await.map_err(|error| explain(&error, tls))
        };
        let answer =
            within(deadline, endpoint, "waiting for the answer", answer).await.and_then(|answer| match answer {
                Value::ServerError(error) => Err(refusal(&Question::Other(words), &error, endpoint)),
                answer => Ok(answer),
            });
        answer.map_err(|(kind, message)| ConnectError { kind, address: endpoint.address(), message })
    }
}

/// Like [`ask`], but returns the connection as well.
///
/// # Errors
///
/// As for [`connect`].
pub(super) async fn ask_and_stay(
    endpoint: &Arc<RedisEndpoint>,
    words: &'static str,
    command: &redis::Cmd,
) -> Result<(Value, Asking), ConnectError> {
    let attempt = async {
        let deadline = Instant::now() + endpoint.connect_timeout;
        let prepared = within(deadline, endpoint, "reading password and certificates", prepare(endpoint)).await?;
        let tls = prepared.tls.is_some();
        let opening = async { Wire::open(endpoint, prepared.tls.clone()).await.map_err(|error| explain(&error, tls)) };
        let mut wire = within(deadline, endpoint, "opening the connection", opening).await?;
        let (mut pipeline, mut questions) = login(endpoint, prepared.password.as_ref());
        pipeline.add_command(command.clone());
        questions.push(Question::Other(words));
        let answers = exchange(&mut wire.connection, &pipeline, tls);
        let answers = within(deadline, endpoint, "waiting for the answer", answers).await?;
        let mut last = Value::Nil;
        for (question, answer) in questions.iter().zip(answers) {
            match answer {
                Value::ServerError(error) => return Err(refusal(question, &error, endpoint)),
                answer => last = answer,
            }
        }
        Ok((last, Asking { endpoint: endpoint.clone(), wire }))
    };
    attempt.await.map_err(|(kind, message)| ConnectError { kind, address: endpoint.address(), message })
}

type Attempt<T> = Result<T, (ConnectErrorKind, String)>;

async fn within<T>(
    deadline: Instant,
    endpoint: &RedisEndpoint,
    stage: &str,
    step: impl Future<Output = Attempt<T>>,
) -> Attempt<T> {
    timeout_at(deadline, step).await.unwrap_or_else(|_elapsed| {
        let hint = if endpoint.tls.is_some() {
            ", and that the port speaks TLS"
        } else {
            ", and that the port does not ask for TLS"
        };
        let text = format!(
            "timed out after {:?} while {stage}: check that host and port are right and reachable{hint}",
            endpoint.connect_timeout
        );
        Err((ConnectErrorKind::Timeout, text))
    })
}

/// Logs in and asks all questions in one round trip, because claims wait for it after every reconnect.
async fn greet(
    connection: &mut MultiplexedConnection,
    endpoint: &RedisEndpoint,
    options: &LinkOptions,
    password: Option<&SecretString>,
    tls: bool,
) -> Attempt<ServerInfo> {
    let (pipeline, questions) = questions(endpoint, options, password);
    let answers = exchange(connection, &pipeline, tls).await?;
    let mut info = String::new();
    let mut refused_script = None;
    for (question, answer) in questions.iter().zip(answers) {
        match (question, answer) {
            // The name only helps readers of CLIENT LIST.
            (Question::Name, _) => {}
            // The server's information is judged first: a replica or an old server explains a refused script better.
            (Question::Load(_), Value::ServerError(error)) => {
                refused_script.get_or_insert_with(|| refusal(question, &error, endpoint));
            }
            (_, Value::ServerError(error)) => return Err(refusal(question, &error, endpoint)),
            (Question::Info, value) => {
                let text = String::from_redis_value(value)
                    .map_err(|error| (ConnectErrorKind::Server, format!("the answer to INFO is no text: {error}")))?;
                info.push_str(&text);
                info.push('\n');
            }
            (Question::Auth | Question::Select | Question::Ping | Question::Load(_) | Question::Other(_), _) => {}
        }
    }
    let info = ServerInfo::parse(&info)?;
    refused_script.map_or(Ok(info), Err)
}

/// Sends a pipeline on a fresh connection and returns the replies.
async fn exchange(connection: &mut MultiplexedConnection, pipeline: &Pipeline, tls: bool) -> Attempt<Vec<Value>> {
    // The client library reports the error of a broken transport to a single command only, not to a pipeline; so a PING
    // goes first. Its reply does not matter: before AUTH it may be refused.
    let (ping, mut first) = (redis::cmd("PING"), connection.clone());
    let count = pipeline.len();
    let sign_of_life = first.send_packed_command(&ping);
    let (alive, answers) = tokio::join!(biased; sign_of_life, connection.send_packed_commands(pipeline, 0, count));
    alive.map_err(|error| explain(&error, tls))?;
    answers.map_err(|error| explain(&error, tls))
}

/// The commands that log in, which every connection sends first.
fn login(endpoint: &RedisEndpoint, password: Option<&SecretString>) -> (Pipeline, Vec<Question>) {
    let mut pipeline = Pipeline::new();
    let mut questions = Vec::new();
    if let Some(password) = password {
        let auth = pipeline.cmd("AUTH");
        if let Some(user) = &endpoint.username {
            auth.arg(user);
        }
        auth.arg(password.expose_secret());
        questions.push(Question::Auth);
    }
    if endpoint.database != 0 {
        pipeline.cmd("SELECT").arg(endpoint.database);
        questions.push(Question::Select);
    }
    (pipeline, questions)
}

/// The login and all questions of a connecting link, in the order of the replies.
fn questions(
    endpoint: &RedisEndpoint,
    options: &LinkOptions,
    password: Option<&SecretString>,
) -> (Pipeline, Vec<Question>) {
    let (mut pipeline, mut questions) = login(endpoint, password);
    pipeline.cmd("CLIENT").arg("SETNAME").arg(&options.client_name);
    questions.push(Question::Name);
    pipeline.cmd("PING");
    questions.push(Question::Ping);
    for section in ["server", "replication", "memory"] {
        pipeline.cmd("INFO").arg(section);
        questions.push(Question::Info);
    }
    for script in &options.scripts {
        pipeline.cmd("SCRIPT").arg("LOAD").arg(script.text());
        questions.push(Question::Load(script.name().to_owned()));
    }
    (pipeline, questions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_settings::Secret;

    #[test]
    fn the_password_is_the_first_line_of_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        assert!(Secret::File(path.clone()).read("password_file").unwrap_err().contains("read password_file"));
        for (text, expected) in
            [("secret", Some("secret")), ("se cret \r\nmore", Some("se cret ")), ("\n", None), ("", None)]
        {
            std::fs::write(&path, text).unwrap();
            let read = Secret::File(path.clone()).read("password_file");
            assert_eq!(read.ok().map(|p| p.expose_secret().to_owned()).as_deref(), expected, "{text:?}");
        }
    }
}
