//! A real redis-server with a port and a directory of its own.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use delaybridge_link::{KeyPrefix, RedisEndpoint};
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use rustix::process::Signal;
use tempfile::TempDir;

use super::least;
use super::tls::Pki;
use brokers::ports::free_port;
use brokers::process::{Process, command};

/// Time-out of a start: the server loads its data, on a machine that runs other tests as well.
const START_DEADLINE: Duration = Duration::from_secs(30);

/// The file of a server's users, in its directory.
const USERS: &str = "users.acl";

/// The server's program: the one in `DELAYBRIDGE_REDIS_SERVER`, or that of the path.
pub fn program() -> String {
    std::env::var("DELAYBRIDGE_REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned())
}

fn major_version(program: &str) -> u32 {
    static KNOWN: LazyLock<Mutex<HashMap<String, u32>>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    *known.entry(program.to_owned()).or_insert_with(|| {
        let output = std::process::Command::new(program).arg("--version").output();
        let output = output.unwrap_or_else(|e| panic!("run {program} (is it installed? `make setup`): {e}"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.split("v=").nth(1).and_then(|rest| rest.split('.').next()?.parse().ok());
        version.unwrap_or_else(|| panic!("read the version of {program}: {text}"))
    })
}

/// The settings of a server. The default stores nothing on disk and has no limits.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    program: Option<String>,
    append_only: bool,
    max_memory: Option<String>,
    tls: Option<TlsOptions>,
    lines: Vec<(String, String)>,
    environment: Vec<(String, String)>,
}

#[derive(Debug, Clone)]
struct TlsOptions {
    client_certificate: bool,
    /// Certificates that several servers share; otherwise the server makes its own.
    pki: Option<Pki>,
}

impl ServerOptions {
    /// Sets another program than [`program`].
    pub fn program(mut self, program: &str) -> Self {
        self.program = Some(program.to_owned());
        self
    }

    /// The major version of the program.
    pub fn major(&self) -> u32 {
        major_version(&self.named_program())
    }

    fn named_program(&self) -> String {
        self.program.clone().unwrap_or_else(program)
    }

    /// Sets `appendonly yes` and `appendfsync always`: a kill loses no acknowledged write.
    pub fn append_only(mut self) -> Self {
        self.append_only = true;
        self
    }

    /// Sets `maxmemory` with `noeviction`, in Redis's notation (`64mb`).
    pub fn max_memory(mut self, size: &str) -> Self {
        self.max_memory = Some(size.to_owned());
        self
    }

    /// Adds a second port with TLS, with a private authority, and optionally requires a client certificate.
    pub fn tls(mut self, client_certificate: bool) -> Self {
        self.tls = Some(TlsOptions { client_certificate, pki: None });
        self
    }

    /// Adds a second port with TLS and these certificates.
    pub fn tls_with(mut self, pki: &Pki) -> Self {
        self.tls = Some(TlsOptions { client_certificate: false, pki: Some(pki.clone()) });
        self
    }

    /// Adds an ACL user by its rules, such as `user bridge on >secret ~* &* +@all`.
    pub fn acl_user(self, rules: &str) -> Self {
        self.line("user", rules.trim_start_matches("user "))
    }

    /// Whether users are stored in a file, so that they survive a restart; a server allows only one of the two ways.
    fn keeps_users(&self) -> bool {
        self.lines.iter().all(|(key, _)| key != "user")
    }

    /// Adds an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a line of the configuration.
    pub fn line(mut self, key: &str, value: &str) -> Self {
        self.lines.push((key.to_owned(), value.to_owned()));
        self
    }
}

/// A server that runs or is stopped, removed with its directory on drop.
#[derive(Debug)]
pub struct RedisServer {
    options: ServerOptions,
    dir: TempDir,
    port: u16,
    tls: Option<(u16, Pki)>,
    process: Option<Process>,
    program: String,
    major: u32,
}

impl RedisServer {
    /// Starts a server with default options.
    pub async fn start() -> Self {
        Self::start_with(ServerOptions::default()).await
    }

    /// Starts a server, and waits until it answers.
    pub async fn start_with(options: ServerOptions) -> Self {
        let dir = TempDir::with_prefix("delaybridge-redis-").expect("make a directory for redis-server");
        let pki = options.tls.as_ref().map(|tls| tls.pki.clone().unwrap_or_else(|| Pki::create(dir.path())));
        std::fs::write(dir.path().join(USERS), "").expect("make the file of the server's users");
        let program = options.named_program();
        let major = options.major();
        let mut server = RedisServer { options, dir, port: 0, tls: None, process: None, program, major };
        for attempt in 1.. {
            server.port = free_port();
            server.tls = pki.clone().map(|pki| (free_port(), pki));
            match server.boot().await {
                Ok(()) => break,
                // Another process took the port between the check and the bind.
                Err(log) if attempt < 5 && log.contains("Address already in use") => {}
                Err(log) => panic!("start redis-server: {log}"),
            }
        }
        if server.options.keeps_users() {
            let ports: Vec<_> = [server.port].into_iter().chain(server.tls.as_ref().map(|(port, _)| *port)).collect();
            least::keeps_users(&ports, &server.dir.path().join(USERS), server.major);
        }
        server
    }

    /// The major version, as the program prints it.
    pub fn major(&self) -> u32 {
        self.major
    }

    /// The plain port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The endpoint for the library, with time-outs that no busy machine exceeds.
    pub fn endpoint(&self) -> RedisEndpoint {
        RedisEndpoint {
            host: "127.0.0.1".to_owned(),
            port: self.port(),
            socket: None,
            tls: None,
            database: 0,
            key_prefix: KeyPrefix::default(),
            username: None,
            password: None,
            connect_timeout: Duration::from_secs(30),
            command_timeout: Duration::from_secs(60),
        }
    }

    /// The `redis://` URL of database 0.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// The TLS port and the certificates; only with [`ServerOptions::tls`].
    pub fn tls(&self) -> (u16, &Pki) {
        let (port, pki) = self.tls.as_ref().expect("a server that was started with TLS");
        (*port, pki)
    }

    /// Opens a connection for assertions, on the plain port, as the default user, with a long time-out.
    pub async fn client(&self) -> MultiplexedConnection {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(Duration::from_secs(10)))
            .set_response_timeout(Some(Duration::from_secs(60)));
        let client = redis::Client::open(self.url()).expect("the address of a test server");
        client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .unwrap_or_else(|e| panic!("connect to the test server on port {}: {e}", self.port))
    }

    /// The number of calls of a command since the server started.
    pub async fn calls(&self, command: &str) -> u64 {
        let mut ask = redis::cmd("INFO");
        let info: String =
            ask.arg("commandstats").query_async(&mut self.client().await).await.expect("read the counts");
        let head = format!("cmdstat_{command}:calls=");
        let line = info.lines().find_map(|line| line.strip_prefix(&head)).unwrap_or("0,");
        line.split(',').next().and_then(|calls| calls.parse().ok()).expect("a number")
    }

    /// The server's information about replication, or the reason for no answer.
    pub async fn replication(&self) -> Result<String, String> {
        let client = redis::Client::open(self.url()).map_err(|e| e.to_string())?;
        let connection = tokio::time::timeout(Duration::from_secs(2), client.get_multiplexed_async_connection()).await;
        let mut connection = connection.map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
        redis::cmd("INFO").arg("replication").query_async(&mut connection).await.map_err(|e| e.to_string())
    }

    /// Makes the server write a replication stream: it keeps a backlog from the first replica on, and for an hour without
    /// one. The replica is a dummy that disconnects before it receives anything.
    pub async fn keep_backlog(&self) -> Result<(), String> {
        let mut replica =
            TcpStream::connect(("127.0.0.1", self.port)).map_err(|e| format!("connect as a replica: {e}"))?;
        replica.set_read_timeout(Some(Duration::from_secs(10))).map_err(|e| e.to_string())?;
        replica.write_all(b"PSYNC ? -1\r\n").map_err(|e| format!("ask as a replica: {e}"))?;
        for _ in 0..500 {
            if self.replication().await?.contains("repl_backlog_active:1") {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let mut said = [0; 100];
        let read = replica.read(&mut said).unwrap_or(0);
        Err(format!("the server keeps no backlog for replicas: {}", String::from_utf8_lossy(&said[..read])))
    }

    /// Stops the server gracefully; it stays down until [`boot`](Self::boot).
    pub async fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.signal(Signal::TERM);
            process.wait(START_DEADLINE).await.expect("redis-server ends within its deadline");
        }
    }

    /// Kills the server with SIGKILL; it stays down until [`boot`](Self::boot).
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Calls [`stop`](Self::stop) and [`boot`](Self::boot), with the same port and directory.
    pub async fn restart(&mut self) {
        self.stop().await;
        self.boot().await.unwrap_or_else(|log| panic!("restart redis-server on port {}: {log}", self.port));
    }

    /// Suspends the server with SIGSTOP: connections stay open, the kernel accepts further ones, nothing answers.
    pub fn pause(&mut self) {
        self.running().signal(Signal::STOP);
    }

    /// Resumes the server with SIGCONT.
    pub fn resume(&mut self) {
        self.running().signal(Signal::CONT);
    }

    /// Whether the server is not stopped.
    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// The process, for its usage.
    pub fn running(&mut self) -> &mut Process {
        self.process.as_mut().expect("a server that was not stopped")
    }

    /// Starts the process on its port, and waits for the first PONG; the error is the server's output.
    pub async fn boot(&mut self) -> Result<(), String> {
        let log = self.dir.path().join("log");
        // A new log each time, so that an old "in use" is not taken for a new one.
        let file = std::fs::File::create(&log).map_err(|e| format!("create {}: {e}", log.display()))?;
        let mut command = command(&self.program);
        command.envs(self.options.environment.iter().map(|(name, value)| (name, value)));
        command.args(self.arguments()).stdout(file).stderr(Stdio::null()).current_dir(self.dir.path());
        let mut process = Process::spawn("redis-server", command)
            .map_err(|e| format!("spawn {} (is it installed? `make setup`): {e}", self.program))?;
        let until = Instant::now() + START_DEADLINE;
        while !pings(self.port) {
            let said = || std::fs::read_to_string(&log).unwrap_or_default();
            if let Some(status) = process.exit_status() {
                return Err(format!("it ended with {status} (not installed? `make setup`): {}", said()));
            }
            if Instant::now() > until {
                return Err(format!("no PONG within {START_DEADLINE:?}: {}", said()));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.process = Some(process);
        Ok(())
    }

    fn arguments(&self) -> Vec<String> {
        let dir = self.dir.path().display().to_string();
        let mut lines: Vec<(&str, String)> = vec![
            ("bind", "127.0.0.1".into()),
            ("port", self.port.to_string()),
            ("dir", dir),
            ("save", String::new()),
            // No pauses of the server, so that late deliveries are the daemon's.
            ("latency-monitor-threshold", "0".into()),
            ("slowlog-max-len", "1024".into()),
        ];
        if self.options.append_only {
            lines.push(("appendonly", "yes".into()));
            lines.push(("appendfsync", "always".into()));
        }
        if let Some(size) = &self.options.max_memory {
            lines.push(("maxmemory", size.clone()));
            lines.push(("maxmemory-policy", "noeviction".into()));
        }
        if let (Some((port, pki)), Some(tls)) = (&self.tls, &self.options.tls) {
            lines.push(("tls-port", port.to_string()));
            lines.push(("tls-cert-file", pki.server_cert.display().to_string()));
            lines.push(("tls-key-file", pki.server_key.display().to_string()));
            lines.push(("tls-ca-cert-file", pki.ca.display().to_string()));
            lines.push(("tls-auth-clients", if tls.client_certificate { "yes" } else { "no" }.into()));
        }
        if self.options.keeps_users() {
            lines.push(("aclfile", USERS.into()));
        }
        for (key, value) in &self.options.lines {
            lines.push((key, value.clone()));
        }
        lines.into_iter().flat_map(|(key, value)| value_arguments(key, &value)).collect()
    }
}

/// One line as arguments, one for each word; an empty value stays one.
fn value_arguments(key: &str, value: &str) -> Vec<String> {
    let mut arguments = vec![format!("--{key}")];
    if value.is_empty() {
        arguments.push(String::new());
    } else {
        arguments.extend(value.split_whitespace().map(str::to_owned));
    }
    arguments
}

/// Whether the server answers PING. One that is loading does not; one that requires a password counts.
fn pings(port: u16) -> bool {
    let answer = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"PING\r\n")?;
        let mut reply = [0; 64];
        let read = stream.read(&mut reply)?;
        Ok(String::from_utf8_lossy(&reply[..read]).into_owned())
    };
    answer().is_ok_and(|reply| reply.starts_with("+PONG") || reply.starts_with("-NOAUTH"))
}
