//! RabbitMQ: one node or a cluster, with an epmd of its own, isolated from others on the machine.

mod ctl;
mod epmd;
mod files;
mod odd;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

pub use ctl::Queue;
pub use odd::{RawClient, RawMessage, long, short};

use crate::boots::Boot;
use crate::error::{During, Error, Result};
use crate::log::Log;
use crate::process::{LOOK, Process};
use crate::scratch::Scratch;
use crate::tls::Certificates;
use epmd::Epmd;
use files::{Files, Ports, node_name};

/// The text that a node prints when it is ready, at any log level.
const READY: &str = "completed with ";
/// Time-out of a start: twenty times its duration on an idle machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The properties of a node; [`Default`] is one without TLS.
#[derive(Debug, Clone, Default)]
pub struct RabbitOptions {
    /// Adds a TLS listener.
    pub tls: bool,
    /// The same as `tls`, and asks the client for a certificate.
    pub mutual_tls: bool,
    /// Users, vhosts, permissions and queues as JSON, instead of [`Rabbit::DEFINITIONS`]. Nothing else exists, not even
    /// the vhost `/`.
    pub definitions: Option<String>,
    /// Further lines of `rabbitmq.conf`.
    pub config: Vec<(String, String)>,
    /// Plugins that are on: of RabbitMQ's own, or of `plugins_folder`.
    pub plugins: Vec<String>,
    /// A folder with further plugins.
    pub plugins_folder: Option<PathBuf>,
}

/// A running node.
#[derive(Debug)]
pub struct Rabbit {
    // Dropped in this order: the node before its epmd, both before the folder.
    node: Mutex<Option<Process>>,
    epmd: Arc<Epmd>,
    files: Files,
    certificates: Option<Certificates>,
    log: Log,
    scratch: Scratch,
}

/// The installed version, from the name of Debian's folder.
pub(crate) fn version() -> Option<String> {
    let sbin = files::installed().ok()?;
    let folder = sbin.parent()?.file_name()?.to_str()?;
    folder.strip_prefix("rabbitmq_server-").map(str::to_owned)
}

impl Rabbit {
    /// The default of [`RabbitOptions::definitions`].
    ///
    /// The vhosts `/` and `other`; `guest` with the password `guest` may do everything in both, `limited` with
    /// `limited` may use names that begin with `allowed.` in `/`, and `nowhere` with `nowhere` may access no vhost.
    pub const DEFINITIONS: &str = include_str!("../../rabbit/definitions.json");

    /// Starts a node with [`RabbitOptions::default`].
    pub fn start() -> Result<Self> {
        Self::start_with(RabbitOptions::default())
    }

    /// Starts a node; returns when it is ready.
    pub fn start_with(options: RabbitOptions) -> Result<Self> {
        let mut tries = 3;
        loop {
            tries -= 1;
            let rabbit = Self::prepare(&options, None, None)?;
            let _boot = Boot::wait();
            match rabbit.launch() {
                Ok(()) => return Ok(rabbit),
                // Another process took a port between our check and the start.
                Err(e) if tries > 0 && e.to_string().contains("eaddrinuse") => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Starts a cluster, each node with a folder and ports of its own, on the epmd of the first; returns when all nodes
    /// are ready.
    pub fn start_cluster(nodes: usize) -> Result<Vec<Self>> {
        let options = RabbitOptions::default();
        let mut cluster = vec![Self::prepare(&options, Some(1), None)?];
        for number in 2..=nodes {
            cluster.push(Self::prepare(&options, Some(number), cluster.first())?);
        }
        // Started by this thread, because a node ends with the thread that started it.
        let boot = Boot::wait();
        let started = cluster.iter().map(Self::begin).collect::<Result<Vec<_>>>()?;
        cluster.iter().zip(started).try_for_each(|(node, from)| node.wait_ready(from))?;
        drop(boot);
        for node in &cluster[1..] {
            let first = node_name(Some(1));
            for step in [&["stop_app"][..], &["reset"], &["join_cluster", &first], &["start_app"]] {
                node.ctl(step)?;
            }
        }
        Ok(cluster)
    }

    /// Prepares everything except the node's process; `first` is the first node of its cluster.
    fn prepare(options: &RabbitOptions, number: Option<usize>, first: Option<&Rabbit>) -> Result<Self> {
        let sbin = files::installed()?;
        let scratch = Scratch::new("rabbitmq")?;
        let certificates = if options.tls || options.mutual_tls {
            Some(Certificates::create(&scratch.path().join("tls"))?)
        } else {
            None
        };
        let mut ports = Ports::free();
        ports.epmd = first.map_or(ports.epmd, |first| first.files.ports.epmd);
        let own = (ports, node_name(number));
        let files = Files::write(sbin, scratch.path(), own, options, certificates.as_ref())?;
        let epmd = match first {
            Some(first) => first.epmd.clone(),
            None => Arc::new(Epmd::start(ports.epmd, scratch.path())?),
        };
        let log = Log::new(scratch.path().join("log"));
        Ok(Rabbit { node: Mutex::new(None), epmd, files, certificates, log, scratch })
    }

    fn launch(&self) -> Result<()> {
        let from = self.begin()?;
        self.wait_ready(from)
    }

    /// Starts the process; returns the offset in the log at which its lines begin.
    fn begin(&self) -> Result<usize> {
        let from = self.log.len();
        let mut command = self.files.command("rabbitmq-server");
        // With this variable the script becomes the node itself, with the known pid.
        command.env("RUNNING_UNDER_SYSTEMD", "true");
        self.log.takes_output_of(&mut command)?;
        let process =
            Process::spawn("RabbitMQ", command).during("start RabbitMQ (is setpriv there? scripts/setup.sh)")?;
        *self.node() = Some(process);
        Ok(from)
    }

    /// Waits until the process is ready whose log begins at this offset.
    fn wait_ready(&self, from: usize) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            if self.log.since(from).contains(READY) {
                return Ok(());
            }
            if let Some(status) = self.node().as_mut().and_then(Process::exit_status) {
                return Err(self.failed(&format!("it ended with {status}")));
            }
            if Instant::now() >= until {
                return Err(self.failed(&format!("it is not ready after {PATIENCE:?}")));
            }
            thread::sleep(LOOK);
        }
    }

    fn failed(&self, what: &str) -> Error {
        Error::new(format!("start RabbitMQ: {what}. The end of its log:\n{}", self.log_tail(40)))
    }

    /// The port of AMQP on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.files.ports.amqp
    }

    /// The port of AMQP with TLS on 127.0.0.1. Clients check the server, `localhost`, with [`Certificates::ca`].
    pub fn tls_port(&self) -> u16 {
        assert!(self.certificates.is_some(), "this RabbitMQ was started without `tls`");
        self.files.ports.amqps
    }

    /// The files of a node with TLS.
    pub fn certificates(&self) -> &Certificates {
        self.certificates.as_ref().expect("this RabbitMQ was started with `tls` or `mutual_tls`")
    }

    /// Suspends the node: its connections stay open, and it does not respond.
    pub fn freeze(&self) {
        if let Some(node) = self.node().as_mut() {
            node.freeze();
        }
    }

    /// Resumes a suspended node.
    pub fn thaw(&self) {
        if let Some(node) = self.node().as_mut() {
            node.signal(Signal::CONT);
        }
    }

    /// Kills the node with SIGKILL; returns when the process has ended.
    pub fn kill(&self) {
        *self.node() = None;
    }

    /// Stops the node gracefully. Durable queues with their persistent messages are back after [`Rabbit::restart`].
    pub fn stop(&self) {
        if let Some(mut node) = self.node().take() {
            node.stop(Duration::from_secs(30));
        }
    }

    /// Starts the node again with its data and ports, after a [`Rabbit::kill`] if it still runs; returns when it is
    /// ready.
    pub fn restart(&self) -> Result<()> {
        self.kill();
        self.launch()
    }

    /// The last lines of the node's log, for the message of a test that fails.
    pub fn log_tail(&self, lines: usize) -> String {
        self.log.tail(lines)
    }

    /// The folder of this node: data, log, configuration. It is removed with the node.
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// Resident memory of the node, in bytes.
    pub fn resident_memory(&self) -> u64 {
        self.node().as_mut().map_or(0, Process::resident_memory)
    }

    /// The process id of the node, if it runs.
    pub fn pid(&self) -> Option<u32> {
        self.node().as_ref().map(Process::pid)
    }

    fn node(&self) -> MutexGuard<'_, Option<Process>> {
        // After a panic of a test that locked the node, the node is unchanged.
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
