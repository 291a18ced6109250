//! RabbitMQ: one node or a cluster, with an epmd of its own, isolated from others on the machine.

mod eval;
mod files;
mod odd;

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use eval::Queue;
pub use odd::{RawClient, RawMessage, long, short};

use crate::boots::Boot;
use crate::error::Result;
use crate::log::Log;
use crate::process::command;
use crate::scratch::Scratch;
use crate::server::{Ready, Server, on_free_ports};
use crate::tls::Certificates;
use files::{Files, Ports, node_name};

/// The text that a node prints when it is ready, at any log level.
const READY: &str = "completed with ";

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
    node: Server,
    epmd: Arc<Server>,
    files: Arc<Files>,
    certificates: Option<Certificates>,
    scratch: Scratch,
}

/// Starts Erlang's name service on a port of 127.0.0.1. Nodes find each other through it. Each cluster has its own: that of the machine
/// may be absent, and one that a node starts would outlive it.
fn start_epmd(port: u16, folder: &Path) -> Result<Server> {
    let own = folder.to_owned();
    let server = Server::new("epmd", Log::new(folder.join("epmd.log")), Ready::Listens(port), move || {
        let mut command = command("epmd");
        command.args(["-address", "127.0.0.1", "-port", &port.to_string()]).current_dir(&own);
        Ok(command)
    });
    server.start()?;
    Ok(server)
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
        on_free_ports(|| Self::prepare(&options, None, None), |rabbit| rabbit.node.start())
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
        let started = cluster.iter().map(|node| node.begin()).collect::<Result<Vec<_>>>()?;
        cluster.iter().zip(started).try_for_each(|(node, from)| node.wait_ready(from))?;
        drop(boot);
        for node in &cluster[1..] {
            let first = node_name(Some(1));
            node.stop_app()?;
            node.eval("rabbit_mnesia:reset()")?;
            node.eval(&format!("rabbit_mnesia:join_cluster('{first}', disc)"))?;
            node.start_app()?;
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
        let files = Arc::new(Files::write(sbin, scratch.path(), own, options, certificates.as_ref())?);
        let epmd = match first {
            Some(first) => first.epmd.clone(),
            None => Arc::new(start_epmd(ports.epmd, scratch.path())?),
        };
        let started = files.clone();
        let node = Server::new("RabbitMQ", Log::new(scratch.path().join("log")), Ready::Prints(READY), move || {
            let mut command = started.command("rabbitmq-server");
            // With this variable the script becomes the node itself, with the known pid.
            command.env("RUNNING_UNDER_SYSTEMD", "true");
            Ok(command)
        });
        Ok(Rabbit { node, epmd, files, certificates, scratch })
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

    /// The folder of this node: data, log, configuration. It is removed with the node.
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }
}

/// After [`Server::stop`] and [`Server::restart`] durable queues are back, with their persistent messages.
impl Deref for Rabbit {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.node
    }
}
