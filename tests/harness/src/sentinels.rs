//! One master, two replicas and three sentinels, which fail over by command and after a kill.

use std::process::Stdio;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use rustix::process::Signal;
use tempfile::TempDir;

use super::eventually::eventually;
use super::failovers::{FailedOver, Failover};
use super::least;
use super::redis_server::{RedisServer, ServerOptions, program};
use super::tls::Pki;
use brokers::ports::free_port;
use brokers::process::{Process, command};

/// The name of the master.
pub const MASTER: &str = "orders";
/// Time-out of a failover on a busy machine; sentinels retry after 3 s.
const PATIENCE: Duration = Duration::from_secs(90);
/// A sentinel has given up a failover by then: several times its `failover-timeout`.
const GIVEN_UP: Duration = Duration::from_secs(15);

/// The password of sentinels that require one.
pub const PASSWORD: &str = "watched";

/// The servers and their sentinels, which end on drop.
pub struct Sentinels {
    servers: Vec<RedisServer>,
    sentinels: Vec<Sentinel>,
    secured: Option<(TempDir, Pki)>,
}

/// The user of sentinels with TLS, with the password [`PASSWORD`].
pub const WATCHER: &str = "watcher";

struct Sentinel {
    port: u16,
    /// The port with TLS.
    tls: Option<u16>,
    /// Whether it requires [`PASSWORD`].
    password: bool,
    process: Process,
    _dir: TempDir,
}

impl Sentinels {
    /// Starts all six, and waits until the sentinels know each other and the replicas.
    pub async fn start() -> Self {
        Self::start_with(false, None).await
    }

    /// The same with a second port with TLS for the sentinels, and the user [`WATCHER`] without any rights.
    pub async fn secured() -> Self {
        let dir = TempDir::with_prefix("delaybridge-tls-").expect("make a directory for certificates");
        let pki = Pki::create(dir.path());
        Self::start_with(false, Some((dir, pki))).await
    }

    /// The same with sentinels that require a password.
    pub async fn with_password() -> Self {
        Self::start_with(true, None).await
    }

    async fn start_with(password: bool, secured: Option<(TempDir, Pki)>) -> Self {
        // Replicas that come back are synchronised at once.
        let options = ServerOptions::default().line("repl-diskless-sync-delay", "0");
        let master = RedisServer::start_with(options.clone()).await;
        let of_master = options.line("replicaof", &format!("127.0.0.1 {}", master.port()));
        let replicas = tokio::join!(RedisServer::start_with(of_master.clone()), RedisServer::start_with(of_master));
        let servers = vec![master, replicas.0, replicas.1];
        let pki = secured.as_ref().map(|(_, pki)| pki);
        let sentinels: Vec<_> = (0..3).map(|_| Sentinel::start(servers[0].port(), password, pki)).collect();
        for port in [Some(sentinels[0].port), sentinels[0].tls].into_iter().flatten() {
            least::watches(port, servers.iter().map(RedisServer::port).collect());
        }
        let group = Sentinels { servers, sentinels, secured };
        group.wait_until_whole().await;
        group
    }

    /// The keys of a configuration that name the master.
    pub fn yaml(&self) -> String {
        let nodes: Vec<_> = self.sentinels.iter().map(|sentinel| format!("'127.0.0.1:{}'", sentinel.port)).collect();
        let login = if self.sentinels[0].password { format!(", password: {PASSWORD}") } else { String::new() };
        format!("sentinel: {{ master: {MASTER}, nodes: [{}]{login} }}", nodes.join(", "))
    }

    /// The keys of a configuration that name the master, with TLS and the user [`WATCHER`] for the sentinels.
    pub fn secured_yaml(&self) -> String {
        let ca = self.secured.as_ref().expect("sentinels with TLS").1.ca.display();
        let node = |sentinel: &Sentinel| format!("'127.0.0.1:{}'", sentinel.tls.expect("a port with TLS"));
        let nodes: Vec<_> = self.sentinels.iter().map(node).collect();
        let login = format!("username: {WATCHER}, password: {PASSWORD}, tls: {{ ca_file: {ca} }}");
        format!("sentinel: {{ master: {MASTER}, nodes: [{}], {login} }}", nodes.join(", "))
    }

    /// Gives the user [`WATCHER`] these rights on all sentinels.
    pub async fn let_watch(&self, rules: &[String]) {
        for sentinel in &self.sentinels {
            let mut connection = sentinel.client().await.expect("connect to a sentinel");
            let mut command = redis::cmd("ACL");
            command.arg("SETUSER").arg(WATCHER).arg(format!(">{PASSWORD}")).arg(rules);
            command.exec_async(&mut connection).await.expect("a user of a sentinel");
        }
    }

    /// The ports of the sentinels.
    pub fn ports(&self) -> Vec<u16> {
        self.sentinels.iter().map(|sentinel| sentinel.port).collect()
    }

    /// A server.
    pub fn server(&mut self, place: usize) -> &mut RedisServer {
        &mut self.servers[place]
    }

    /// Connects to a server.
    pub async fn client(&self, place: usize) -> MultiplexedConnection {
        self.servers[place].client().await
    }

    /// The index of the master that the first sentinel names.
    pub async fn master(&self) -> Option<usize> {
        let mut connection = self.sentinels.first()?.client().await.ok()?;
        let port = named(&mut connection).await.ok()??;
        self.servers.iter().position(|server| server.port() == port)
    }

    /// The URL of the master that the first sentinel names.
    pub async fn master_url(&self) -> Option<String> {
        Some(self.servers[self.master().await?].url())
    }

    /// Suspends a sentinel without closing its sockets.
    pub fn freeze_sentinel(&mut self, place: usize) {
        self.sentinels[place].process.signal(Signal::STOP);
    }

    /// Resumes a suspended sentinel.
    pub fn thaw_sentinel(&mut self, place: usize) {
        self.sentinels[place].process.signal(Signal::CONT);
    }

    /// Fails over, and waits until the new master is one.
    pub async fn fail_over(&mut self, how: Failover) -> FailedOver {
        let old = self.master().await.expect("a master before the failover");
        let mut began = Instant::now();
        match how {
            Failover::Kill => self.servers[old].kill(),
            Failover::Command => {
                // INPROG and NOGOODSLAVE mean: not yet.
                eventually("SENTINEL FAILOVER", PATIENCE, async || {
                    began = Instant::now();
                    self.command_failover().await
                })
                .await;
            }
        }
        let mut asked = Instant::now();
        let new = eventually("another master", PATIENCE, async || {
            let new = self.master().await.filter(|new| *new != old);
            // A sentinel gives up a failover if no replica is promoted in time, and does not repeat one that was commanded.
            if new.is_none() && matches!(how, Failover::Command) && asked.elapsed() > GIVEN_UP {
                asked = Instant::now();
                self.command_failover().await?;
            }
            let new = new.ok_or("the sentinel names the former master")?;
            let info = self.servers[new].replication().await?;
            if info.contains("role:master") { Ok(new) } else { Err(format!("server {new}: {info}")) }
        });
        let new = new.await;
        FailedOver::ended(old, new, began)
    }

    /// Commands the first sentinel to fail over, whatever the state of the master.
    async fn command_failover(&self) -> Result<(), String> {
        let mut connection = self.sentinels[0].client().await.map_err(|e| e.to_string())?;
        let mut command = redis::cmd("SENTINEL");
        command.arg("FAILOVER").arg(MASTER);
        command.query_async::<()>(&mut connection).await.map_err(|e| e.to_string())
    }

    /// Starts a killed server. It starts as a separate master, and the sentinels make it a replica.
    pub async fn bring_back(&mut self, place: usize) {
        self.servers[place].boot().await.unwrap_or_else(|log| panic!("start a killed server again: {log}"));
    }

    /// Waits until both replicas follow the master, and all sentinels agree.
    pub async fn wait_until_whole(&self) {
        eventually("two linked replicas and three sentinels that agree", PATIENCE, async || {
            let mut named = Vec::new();
            for sentinel in &self.sentinels {
                let mut connection = sentinel.client().await.map_err(|e| e.to_string())?;
                let mut command = redis::cmd("SENTINEL");
                command.arg("MASTER").arg(MASTER);
                let fields: Vec<String> = command.query_async(&mut connection).await.map_err(|e| e.to_string())?;
                let field = |name: &str| fields.chunks(2).find(|pair| pair[0] == name).map(|pair| pair[1].clone());
                let known = (field("num-other-sentinels"), field("num-slaves"), field("flags"));
                if known != (Some("2".into()), Some("2".into()), Some("master".into())) {
                    return Err(format!("{known:?}"));
                }
                named.push(field("port"));
            }
            named.dedup();
            let [Some(port)] = &named[..] else { return Err(format!("{named:?}")) };
            let master = self.servers.iter().find(|server| server.port().to_string() == *port).ok_or("unknown")?;
            let info = master.replication().await?;
            if info.matches("state=online").count() == 2 { Ok(()) } else { Err(info) }
        })
        .await;
    }
}

impl Sentinel {
    fn start(master: u16, password: bool, pki: Option<&Pki>) -> Sentinel {
        for _ in 0..5 {
            let dir = TempDir::with_prefix("delaybridge-sentinel-").expect("make a directory");
            let port = free_port();
            let mut lines = vec![
                format!("port {port}"),
                "bind 127.0.0.1".to_owned(),
                format!("dir {}", dir.path().display()),
                format!("sentinel monitor {MASTER} 127.0.0.1 {master} 2"),
                format!("sentinel down-after-milliseconds {MASTER} 500"),
                format!("sentinel failover-timeout {MASTER} 3000"),
                format!("sentinel parallel-syncs {MASTER} 2"),
            ];
            let tls = pki.map(|_| free_port());
            if let (Some(pki), Some(tls)) = (pki, tls) {
                lines.extend([
                    format!("tls-port {tls}"),
                    format!("tls-cert-file {}", pki.server_cert.display()),
                    format!("tls-key-file {}", pki.server_key.display()),
                    format!("tls-ca-cert-file {}", pki.ca.display()),
                    "tls-auth-clients no".to_owned(),
                ]);
            }
            if password {
                lines.extend([format!("requirepass {PASSWORD}"), format!("sentinel sentinel-pass {PASSWORD}")]);
            }
            let file = dir.path().join("sentinel.conf");
            std::fs::write(&file, lines.join("\n") + "\n").expect("write the configuration of a sentinel");
            let log = std::fs::File::create(dir.path().join("log")).expect("create the log of a sentinel");
            let mut command = command(program());
            command.arg(&file).arg("--sentinel").stdout(log).stderr(Stdio::null()).current_dir(dir.path());
            let mut process = Process::spawn("sentinel", command).expect("spawn a sentinel");
            let until = Instant::now() + Duration::from_secs(30);
            while Instant::now() < until && process.exit_status().is_none() {
                if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return Sentinel { port, tls, password, process, _dir: dir };
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        panic!("start a sentinel: is redis-server installed? `make setup`");
    }

    async fn client(&self) -> redis::RedisResult<MultiplexedConnection> {
        client(self.port, if self.password { PASSWORD } else { "" }).await
    }
}

/// The port of the master that the sentinel on this port names, which requires no password.
pub async fn master_of(sentinel: u16) -> redis::RedisResult<Option<u16>> {
    named(&mut client(sentinel, "").await?).await
}

async fn named(sentinel: &mut MultiplexedConnection) -> redis::RedisResult<Option<u16>> {
    let mut command = redis::cmd("SENTINEL");
    command.arg("GET-MASTER-ADDR-BY-NAME").arg(MASTER);
    let found: Option<(String, u16)> = command.query_async(sentinel).await?;
    Ok(found.map(|(_, port)| port))
}

async fn client(sentinel: u16, password: &str) -> redis::RedisResult<MultiplexedConnection> {
    let login = if password.is_empty() { String::new() } else { format!(":{password}@") };
    let client = redis::Client::open(format!("redis://{login}127.0.0.1:{sentinel}/"))?;
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(5)));
    client.get_multiplexed_async_connection_with_config(&config).await
}
