//! One attempt to connect: the password, the connection, the login, and the questions to the server.
//!
//! The login uses our own commands instead of the client library's, which hides the server's message. Nothing is
//! retried here.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, FromRedisValue, Pipeline, RedisConnectionInfo, Value};
use secrecy::{ExposeSecret, SecretString};
use tokio_util::task::AbortOnDropHandle;

use delaybridge_dial::{Attempt, DialStream, Options, Phase, ReadBudget, Tls, WriteGate};

use super::asking::AskingStream;
use super::endpoint::RedisEndpoint;
use super::error::{ConnectError, ConnectErrorKind};
use super::gate::Gate;
use super::info::ServerInfo;
use super::large::LargeArgStream;
use super::options::LinkOptions;
use super::refusal::{Question, explain, not_connected, refusal};
use super::replies::{Largest, Measured, Replies};

/// Time for which data may stay unacknowledged before the kernel closes the connection (`TCP_USER_TIMEOUT`).
const USER_TIMEOUT: Duration = Duration::from_secs(10);

type Tried<T> = Result<T, (ConnectErrorKind, String)>;

/// An open connection: the client library's handle, the task that drives it, and the gate before the socket.
pub(super) struct Wire {
    pub(super) connection: MultiplexedConnection,
    /// The driver task, aborted with the wire.
    pub(super) _driver: AbortOnDropHandle<()>,
    pub(super) gate: Arc<Gate>,
    replies: Arc<Replies>,
}

impl Wire {
    /// Returns whether a reply or a command was so large, since this was last asked, that the buffers of the connection are.
    pub(super) fn was_large(&self) -> bool {
        self.replies.were_large()
    }
}

/// An attempt at one server.
struct RedisAttempt<'a> {
    endpoint: &'a Arc<RedisEndpoint>,
    dial: Attempt,
}

impl<'a> RedisAttempt<'a> {
    fn new(endpoint: &'a Arc<RedisEndpoint>) -> RedisAttempt<'a> {
        RedisAttempt { endpoint, dial: Attempt::new(endpoint.tls.is_some(), "write `redis://`") }
    }

    /// Runs the work within the endpoint's `connect_timeout`.
    async fn within<T>(&self, work: impl Future<Output = Tried<T>>) -> Result<T, ConnectError> {
        let done = self.dial.within(self.endpoint.connect_timeout, work).await;
        let done = done.unwrap_or_else(|late| Err(not_connected(&late)));
        done.map_err(|(kind, message)| ConnectError { kind, address: self.endpoint.address(), message })
    }

    /// Reads the password, which may be rotated before the next attempt.
    async fn password(&self) -> Tried<Option<SecretString>> {
        let Some(secret) = self.endpoint.password.clone() else { return Ok(None) };
        // On a blocking thread: a mounted secret may be on a slow file system.
        let reading = tokio::task::spawn_blocking(move || secret.read("password_file"));
        match reading.await {
            Ok(read) => read.map(Some).map_err(|text| (ConnectErrorKind::Secret, text)),
            Err(error) => Err((ConnectErrorKind::Server, format!("reading the password failed: {error}"))),
        }
    }

    async fn stream(&self, gate: Option<Arc<dyn WriteGate>>) -> Tried<AskingStream<DialStream>> {
        let tls = self.endpoint.tls.clone().map(Tls::new);
        let options = Options { user_timeout: Some(USER_TIMEOUT), gate, ..Options::default() };
        let opened = self.dial.open_with(&self.endpoint.server(), tls.as_ref(), options).await;
        opened.map(AskingStream::new).map_err(|error| not_connected(&error))
    }

    async fn wire(&self, reads: &Arc<ReadBudget>) -> Tried<Wire> {
        let gate = Arc::new(Gate::default());
        let replies = Replies::after_login(Largest::SMALL, Largest::ELEMENTS);
        let stream = LargeArgStream::new(self.stream(Some(gate.clone())).await?);
        let stream = Measured::within(stream, replies.clone(), reads.clone());
        self.dial.enter(Phase::Login);
        // The library sends nothing: its set-up hides the server's reply to AUTH.
        let settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        // Deadlines are ours: the library's default for replies (0.5 s) is too short for a script, and a command must
        // not be given up without telling the caller that it may have run.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let opened = MultiplexedConnection::new_with_config(&settings, stream, config).await;
        let (connection, driver) = opened.map_err(|error| explain(&error, &self.dial))?;
        Ok(Wire { connection, _driver: AbortOnDropHandle::new(tokio::spawn(driver)), gate, replies })
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
    let attempt = RedisAttempt::new(endpoint);
    let connected = attempt
        .within(async {
            let password = attempt.password().await?;
            let mut wire = attempt.wire(&options.reads).await?;
            let info = greet(&mut wire.connection, &attempt, options, password.as_ref()).await?;
            if !options.small_replies {
                wire.replies.logged_in();
            }
            Ok((wire, info))
        })
        .await;
    // A server closes the connection of a client that sends more than 16 KiB before it is logged in, as our scripts do.
    // The reply to the login is lost then, so the login is repeated alone.
    if let Err(problem) = &connected
        && problem.kind == ConnectErrorKind::Unreachable
        && attempt.dial.phase() == Phase::Login
        && let Err(refused) = ask(endpoint, "PING", &redis::cmd("PING")).await
        && refused.kind == ConnectErrorKind::Auth
    {
        return Err(refused);
    }
    connected
}

/// Connects for publish and subscribe.
///
/// # Errors
///
/// As for [`connect`].
pub(super) async fn connect_pubsub(endpoint: &Arc<RedisEndpoint>) -> Result<(PubSub, Arc<Replies>), ConnectError> {
    let attempt = RedisAttempt::new(endpoint);
    attempt
        .within(async {
            // The library's name and version would need a right that nothing else needs, and that servers before 7.2 do not
            // know.
            let mut settings = RedisConnectionInfo::default().set_skip_set_lib_name();
            if let Some(user) = &endpoint.username {
                settings = settings.set_username(user);
            }
            if let Some(password) = attempt.password().await? {
                settings = settings.set_password(password.expose_secret());
            }
            let replies = Replies::new(Largest::MESSAGES);
            let stream = Measured::new(attempt.stream(None).await?, replies.clone());
            attempt.dial.enter(Phase::Login);
            let opened = PubSub::new(&settings, stream).await;
            Ok((opened.map_err(|error| explain(&error, &attempt.dial))?, replies))
        })
        .await
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
        let attempt = RedisAttempt::new(&self.endpoint);
        attempt.dial.enter(Phase::Ready);
        let answering =
            attempt.dial.within(self.endpoint.command_timeout, self.wire.connection.send_packed_command(command));
        let answer = match answering.await {
            Err(late) => Err(not_connected(&late)),
            Ok(Err(error)) => Err(explain(&error, &attempt.dial)),
            Ok(Ok(Value::ServerError(error))) => Err(refusal(&Question::Other(words), &error, &self.endpoint)),
            Ok(Ok(answer)) => Ok(answer),
        };
        answer.map_err(|(kind, message)| ConnectError { kind, address: self.endpoint.address(), message })
    }
}

/// Sends a command as [`ask`] does, but returns the connection as well.
///
/// # Errors
///
/// As for [`connect`].
pub(super) async fn ask_and_stay(
    endpoint: &Arc<RedisEndpoint>,
    words: &'static str,
    command: &redis::Cmd,
) -> Result<(Value, Asking), ConnectError> {
    let attempt = RedisAttempt::new(endpoint);
    attempt
        .within(async {
            let password = attempt.password().await?;
            let mut wire = attempt.wire(&ReadBudget::new(ReadBudget::ANSWERS)).await?;
            let (mut pipeline, mut questions) = login(endpoint, password.as_ref());
            pipeline.add_command(command.clone());
            questions.push(Question::Other(words));
            let answers = exchange(&mut wire.connection, &pipeline, &attempt).await?;
            let mut last = Value::Nil;
            for (question, answer) in questions.iter().zip(answers) {
                match answer {
                    Value::ServerError(error) => return Err(refusal(question, &error, endpoint)),
                    answer => last = answer,
                }
            }
            Ok((last, Asking { endpoint: endpoint.clone(), wire }))
        })
        .await
}

/// Logs in and asks all questions in one round trip, because claims wait for it after every reconnect.
async fn greet(
    connection: &mut MultiplexedConnection,
    attempt: &RedisAttempt<'_>,
    options: &LinkOptions,
    password: Option<&SecretString>,
) -> Tried<ServerInfo> {
    let endpoint = attempt.endpoint;
    let (pipeline, questions) = questions(endpoint, options, password);
    let answers = exchange(connection, &pipeline, attempt).await?;
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
            (Question::Auth | Question::Select | Question::First | Question::Load(_) | Question::Other(_), _) => {}
        }
    }
    let info = ServerInfo::parse(&info)?;
    refused_script.map_or(Ok(info), Err)
}

/// Sends a pipeline on a fresh connection and returns the replies.
async fn exchange(
    connection: &mut MultiplexedConnection,
    pipeline: &Pipeline,
    attempt: &RedisAttempt<'_>,
) -> Tried<Vec<Value>> {
    // The client library reports the error of a broken transport to a single command only, not to a pipeline; so a PING
    // goes first. Before AUTH it may be refused, and while the server cannot save its data.
    let ping = redis::cmd("PING");
    let mut first = connection.clone();
    let count = pipeline.len();
    let sign_of_life = first.send_packed_command(&ping);
    let (alive, answers) = tokio::join!(biased; sign_of_life, connection.send_packed_commands(pipeline, 0, count));
    let alive = alive.map_err(|error| explain(&error, &attempt.dial))?;
    answers.map_err(|error| match &alive {
        // A server that lets nobody in says so in place of the first reply, and closes the connection.
        Value::ServerError(refused) => refusal(&Question::First, refused, attempt.endpoint),
        _ => explain(&error, &attempt.dial),
    })
}

/// Returns the commands that log in, which every connection sends first.
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

/// Builds the login and all questions of a connecting link, in the order of the replies.
fn questions(
    endpoint: &RedisEndpoint,
    options: &LinkOptions,
    password: Option<&SecretString>,
) -> (Pipeline, Vec<Question>) {
    let (mut pipeline, mut questions) = login(endpoint, password);
    pipeline.cmd("CLIENT").arg("SETNAME").arg(&options.client_name);
    questions.push(Question::Name);
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
