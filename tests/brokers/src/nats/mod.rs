//! NATS with JetStream: one server or a cluster.

mod client;

use std::fmt::Write as _;
use std::ops::Deref;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

pub use client::NatsClient;

use crate::boots::Boot;
use crate::error::{During, Result};
use crate::log::Log;
use crate::ports::free_port;
use crate::process::{self, LOOK};
use crate::scratch::Scratch;
use crate::server::{Ready, Server, on_free_ports};
use crate::tls::Certificates;

/// The text that a server prints when it is ready.
const READY: &str = "Server is ready";
/// Time-out for a cluster to agree on a leader, and for a reload.
const PATIENCE: Duration = Duration::from_secs(60);

/// The properties of a server; [`Default`] is one without TLS that takes everybody.
#[derive(Debug, Clone, Default)]
pub struct NatsOptions {
    /// Clients must use TLS.
    pub tls: bool,
    /// The same as `tls`, and asks the client for a certificate.
    pub mutual_tls: bool,
    /// Further lines of the configuration.
    pub config: String,
}

/// A running server.
#[derive(Debug)]
pub struct Nats {
    // Dropped in this order: the server before its folder.
    server: Server,
    port: u16,
    certificates: Option<Certificates>,
    scratch: Scratch,
}

pub(crate) fn version() -> Option<String> {
    let output = Command::new(program()).arg("--version").output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().strip_prefix("nats-server: v").map(str::to_owned)
}

/// The server. Debian has it where an ordinary user does not look.
fn program() -> &'static str {
    const DEBIAN: &str = "/usr/sbin/nats-server";
    if Path::new(DEBIAN).exists() { DEBIAN } else { "nats-server" }
}

impl Nats {
    /// Starts a server with [`NatsOptions::default`].
    pub fn start() -> Result<Self> {
        Self::start_with(&NatsOptions::default())
    }

    /// Starts a server; returns when it is ready.
    pub fn start_with(options: &NatsOptions) -> Result<Self> {
        on_free_ports(|| Self::prepare(options, free_port(), ""), |nats| nats.server.start())
    }

    /// Starts a cluster; returns when its servers have agreed on a leader.
    pub fn start_cluster(servers: usize) -> Result<Vec<Self>> {
        let routes: Vec<u16> = (0..servers).map(|_| free_port()).collect();
        let all: Vec<String> = routes.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        let prepare = |port: &u16| {
            let cluster =
                format!("cluster {{ name: tests, listen: \"127.0.0.1:{port}\", routes: [{}] }}\n", all.join(", "));
            Self::prepare(&NatsOptions::default(), free_port(), &cluster)
        };
        let cluster = routes.iter().map(prepare).collect::<Result<Vec<_>>>()?;
        let _boot = Boot::wait();
        let started = cluster.iter().map(|server| server.begin()).collect::<Result<Vec<_>>>()?;
        cluster.iter().zip(started).try_for_each(|(server, from)| server.wait_ready(from))?;
        let until = Instant::now() + PATIENCE;
        for server in &cluster {
            while server.client().and_then(|mut client| client.request("$JS.API.INFO", b"")).is_err() {
                if Instant::now() >= until {
                    return Err(server.failed("the servers agree on no leader"));
                }
                thread::sleep(Duration::from_millis(200));
            }
        }
        Ok(cluster)
    }

    /// Prepares everything except the process.
    fn prepare(options: &NatsOptions, port: u16, cluster: &str) -> Result<Self> {
        let scratch = Scratch::new("nats")?;
        let folder = scratch.path();
        let certificates =
            if options.tls || options.mutual_tls { Some(Certificates::create(&folder.join("tls"))?) } else { None };
        let mut text = format!(
            "host: 127.0.0.1\nport: {port}\nserver_name: n{port}\njetstream {{ store_dir: {:?}, max_mem: 256M, max_file: 2G }}\n",
            folder.join("data")
        );
        if let Some(files) = &certificates {
            // Writing to a String does not fail.
            let _ = writeln!(
                text,
                "tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?}, verify: {} }}",
                files.server_cert, files.server_key, files.ca, options.mutual_tls
            );
        }
        text.push_str(cluster);
        text.push_str(&options.config);
        let file = folder.join("nats.conf");
        std::fs::write(&file, text).during(format_args!("write {}", file.display()))?;
        let own = folder.to_owned();
        let server = Server::new("NATS", Log::new(folder.join("log")), Ready::Prints(READY), move || {
            let mut command = process::command(program());
            command.arg("-c").arg(&file).current_dir(&own);
            Ok(command)
        });
        Ok(Nats { server, port, certificates, scratch })
    }

    /// The port of clients on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The files of a server with TLS.
    pub fn certificates(&self) -> &Certificates {
        self.certificates.as_ref().expect("this server was started with `tls` or `mutual_tls`")
    }

    /// A connection that looks behind the back of a program under test; only to a server without login and TLS.
    pub fn client(&self) -> Result<NatsClient> {
        NatsClient::connect(self.port)
    }

    /// Reads the configuration again, with these lines at its end in place of the options' own.
    pub fn reload(&self, lines: &str) -> Result<()> {
        let file = self.folder().join("nats.conf");
        let text = std::fs::read_to_string(&file).during("read nats.conf")?;
        let from = self.log().len();
        let kept = text.split("\n# reloaded\n").next().unwrap_or_default();
        std::fs::write(&file, format!("{kept}\n# reloaded\n{lines}")).during("write nats.conf")?;
        self.signal(Signal::HUP);
        let until = Instant::now() + PATIENCE;
        while !self.log().since(from).contains("Reloaded server configuration") {
            if Instant::now() >= until {
                return Err(self.failed("it does not reload"));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Asks the server to send its clients away and to stop, as an upgrade does. It runs on for a while.
    pub fn lame_duck(&self) {
        self.signal(Signal::USR2);
    }

    /// The folder of this server: data, log, configuration. It is removed with the server.
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// The name of the server in its cluster.
    pub fn name(&self) -> String {
        format!("n{}", self.port)
    }
}

impl Deref for Nats {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}
