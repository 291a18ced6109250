//! A private redis-server for unit tests: started on a free port, stopped with its handle.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::rights::{Dialect, Grant, Rules};
pub use crate::test_ports::free_port;
use crate::{KeyPrefix, RedisEndpoint};
use delaybridge_settings::Secret;

/// Time that a test waits for anything before it fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running server; killed when dropped.
pub struct TestServer {
    port: u16,
    dir: TempDir,
    program: PathBuf,
    args: Vec<String>,
    /// The rules of users by name, which a restarted server gets again.
    users: Mutex<BTreeMap<String, Vec<String>>>,
    child: Option<Child>,
}

impl TestServer {
    /// Starts a server without persistence.
    pub fn start() -> TestServer {
        TestServer::with(&[])
    }

    /// Starts a server with additional arguments, such as `["--maxmemory", "1mb"]`.
    pub fn with(args: &[&str]) -> TestServer {
        TestServer::of("redis-server", args)
    }

    /// Starts a server of another version.
    pub fn of(program: impl Into<PathBuf>, args: &[&str]) -> TestServer {
        TestServer::begin(program.into(), tempfile::tempdir().unwrap(), args)
    }

    /// Starts a server with its files in `dir`.
    pub fn in_dir(dir: TempDir, args: &[&str]) -> TestServer {
        TestServer::begin("redis-server".into(), dir, args)
    }

    fn begin(program: PathBuf, dir: TempDir, args: &[&str]) -> TestServer {
        let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let mut server = TestServer { port: 0, dir, program, args, users: Mutex::default(), child: None };
        // Another process may take the port before the server binds it.
        for _ in 0..10 {
            server.port = free_port();
            if server.launch() {
                return server;
            }
        }
        panic!("redis-server did not start; its log: {}", server.log());
    }

    /// Starts the server again on the same port after [`kill`](TestServer::kill).
    pub fn restart(&mut self) {
        assert!(self.launch(), "redis-server did not start again; its log: {}", self.log());
    }

    /// Kills the server, as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Stops the process without closing its sockets.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    /// Resumes a frozen process.
    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    /// Returns the port that the server listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns an endpoint without password, with short time-outs.
    pub fn endpoint(&self) -> RedisEndpoint {
        RedisEndpoint {
            host: "127.0.0.1".to_owned(),
            port: self.port,
            socket: None,
            tls: None,
            database: 0,
            key_prefix: KeyPrefix::default(),
            username: None,
            password: None,
            connect_timeout: Duration::from_secs(2),
            command_timeout: Duration::from_secs(2),
        }
    }

    /// Returns an endpoint for a user with a password.
    pub fn endpoint_as(&self, username: Option<&str>, password: &str) -> RedisEndpoint {
        RedisEndpoint {
            username: username.map(str::to_owned),
            password: Some(Secret::Literal(password.into())),
            ..self.endpoint()
        }
    }

    /// Returns an endpoint for a user with exactly these rights.
    pub fn endpoint_within(&self, user: &str, grants: &[Grant]) -> RedisEndpoint {
        let rules = Rules::of(grants, Dialect::Selectors);
        let rules = ["on", ">secret", "-@all"].into_iter().chain(rules.iter()).map(str::to_owned).collect::<Vec<_>>();
        let mut admin =
            redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).unwrap().get_connection().unwrap();
        let () = redis::cmd("ACL").arg("SETUSER").arg(user).arg(&rules).query(&mut admin).unwrap();
        self.users.lock().unwrap().insert(user.to_owned(), rules);
        self.endpoint_as(Some(user), "secret")
    }

    /// Opens a plain connection, for looking at the data and for commands such as `CLIENT KILL`.
    pub async fn admin(&self) -> redis::aio::MultiplexedConnection {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).unwrap();
        let config = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
    }

    /// Runs one command; an error fails the test.
    pub async fn command(&self, words: &[&str]) {
        let mut command = redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(*word);
        }
        let _: redis::Value = command.query_async(&mut self.admin().await).await.unwrap();
    }

    /// Returns whether the server has run a command since it started.
    pub async fn has_run(&self, command: &str) -> bool {
        let mut ask = redis::cmd("INFO");
        let stats: String = ask.arg("commandstats").query_async(&mut self.admin().await).await.unwrap();
        stats.contains(&format!("cmdstat_{command}:"))
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Starts the process; true once it says that it listens, false if it ended instead.
    ///
    /// Its log is asked, not its port: another server may answer there.
    fn launch(&mut self) -> bool {
        let port = self.port.to_string();
        let tls = self.args.iter().any(|arg| arg == "--tls-auth-clients");
        let _ = std::fs::remove_file(self.dir.path().join("log"));
        let mut command = Command::new(&self.program);
        command.args(["--save", "", "--logfile", "log", "--dir"]).arg(self.dir.path());
        command.args(if tls { ["--port", "0", "--tls-port", &port] } else { ["--port", &port, "--tls-port", "0"] });
        for (user, rules) in self.users.lock().unwrap().iter() {
            command.arg("--user").arg(user).args(rules);
        }
        let mut child = command
            .args(&self.args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is installed (Debian package redis-server)");
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            if self.log().contains("Ready to accept connections") {
                self.child = Some(child);
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        false
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Polls a condition; panics after [`PATIENCE`], but not before it has polled often, because a machine that was
/// suspended has not waited.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    let mut looks = 0;
    while !condition().await {
        looks += 1;
        assert!(looks < 1_000 || Instant::now() < deadline, "waited {PATIENCE:?} in vain for: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits for a future; panics after [`PATIENCE`].
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .unwrap_or_else(|_elapsed| panic!("waited {PATIENCE:?} in vain for: {what}"))
}

#[test]
fn a_server_that_found_its_port_taken_has_not_started() {
    let first = TestServer::start();
    let mut second = TestServer::start();
    second.kill();
    second.port = first.port;
    assert!(!second.launch());
}
