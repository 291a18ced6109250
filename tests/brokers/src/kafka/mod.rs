//! Kafka: one to three nodes in KRaft mode, each a process of its own.

mod acl;
mod admin;
mod java;
mod node;
mod properties;
mod tools;
mod training;
mod wire;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use acl::{Operation, Resource};
pub use admin::{NewTopic, Partition};
pub use tools::Record;

use crate::boots::Boot;
use crate::error::{During, Result};
use crate::scratch::Scratch;
use crate::tls::Certificates;
use java::{Java, Role};
use node::Node;
use properties::{Ports, USERS, is_controller, server_properties};

/// What a cluster is like; [`Default`] is one node that creates no topics by itself.
#[derive(Debug, Clone)]
pub struct KafkaOptions {
    /// 1 to 3. Of two only the first is a controller, so the second may die; of three any one may.
    pub nodes: usize,
    /// Whether a record for a topic that is not there makes it.
    pub auto_create: bool,
    /// Adds a listener with user and password (PLAIN and SCRAM), see [`Kafka::password`].
    pub sasl: bool,
    /// Adds a TLS listener; with `sasl` also one with both.
    pub tls: bool,
    /// As `tls`, and asks the client for a certificate.
    pub mutual_tls: bool,
    /// Rights are checked: `admin`, and clients without authentication, may do everything, others what
    /// [`Kafka::add_acl`] allows.
    pub acl: bool,
    /// A node whose data is on a file system of its own.
    pub volume: Option<Volume>,
    /// Further lines of `server.properties`; they win over ours.
    pub properties: Vec<(String, String)>,
    /// Quick start and little memory; turn it off to measure throughput.
    pub fast_jit: bool,
}

impl Default for KafkaOptions {
    fn default() -> Self {
        KafkaOptions {
            nodes: 1,
            auto_create: false,
            sasl: false,
            tls: false,
            mutual_tls: false,
            acl: false,
            volume: None,
            properties: Vec::new(),
            fast_jit: true,
        }
    }
}

/// A file system that only processes in a mount name space of its own see.
#[derive(Debug, Clone)]
pub struct Volume {
    /// The node that keeps its data there.
    pub node: usize,
    /// Where it is mounted.
    pub path: PathBuf,
    /// The command and its arguments that another command is started behind, so that it sees the file system.
    pub enter: Vec<String>,
}

/// A running cluster. Nodes are counted from 1, as Kafka does.
#[derive(Debug)]
pub struct Kafka {
    // Dropped in this order: processes before the folder that they write to.
    nodes: Vec<Mutex<Node>>,
    options: KafkaOptions,
    certificates: Option<Certificates>,
    java: Java,
    scratch: Scratch,
}

impl Kafka {
    /// One node, everything else as [`KafkaOptions::default`] says.
    pub fn start() -> Result<Self> {
        Self::start_with(KafkaOptions::default())
    }

    /// Starts a cluster and returns when every node serves.
    pub fn start_with(options: KafkaOptions) -> Result<Self> {
        let java = Java::find()?;
        training::once(&java)?;
        Self::start_on_free_ports(&java, &options, |role, log4j| java.command(role, log4j, MAIN))
    }

    fn start_on_free_ports(
        java: &Java,
        options: &KafkaOptions,
        command: impl Fn(Role, &Path) -> std::process::Command,
    ) -> Result<Self> {
        let mut tries = 3;
        loop {
            tries -= 1;
            let _boot = Boot::wait();
            let kafka = Self::prepare(java, options)?;
            match kafka.launch(&command) {
                Ok(()) => return Ok(kafka),
                // Another process took a port between our look and the start.
                Err(e) if tries > 0 && e.to_string().contains("Address already in use") => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Everything but the processes.
    fn prepare(java: &Java, options: &KafkaOptions) -> Result<Self> {
        assert!((1..=3).contains(&options.nodes), "a cluster of {} nodes: 1 to 3 are possible", options.nodes);
        let scratch = Scratch::new("kafka")?;
        let log4j = log4j(scratch.path());
        fs::write(&log4j, include_str!("../../kafka/log4j2.properties"))
            .during(format_args!("write {}", log4j.display()))?;
        let certificates = if options.tls || options.mutual_tls {
            Some(Certificates::create(&scratch.path().join("tls"))?)
        } else {
            None
        };
        let ports: Vec<Ports> = (0..options.nodes).map(|_| Ports::free()).collect();
        let mut nodes = Vec::new();
        for (id, &own) in (1..).zip(&ports) {
            let folder = scratch.path().join(format!("node{id}"));
            fs::create_dir(&folder).during(format_args!("create {}", folder.display()))?;
            let lines = server_properties(id, &ports, &Node::data(&folder), options, certificates.as_ref());
            let file = Node::properties(&folder);
            fs::write(&file, lines).during(format_args!("write {}", file.display()))?;
            let node = Node::new(id, own, folder);
            node.format(java, &log4j, is_controller(id, options.nodes))?;
            let volume = options.volume.iter().find(|volume| volume.node == id);
            let node = match volume {
                Some(volume) => node.on(volume)?,
                None => node,
            };
            nodes.push(Mutex::new(node));
        }
        Ok(Kafka { nodes, options: options.clone(), certificates, java: java.clone(), scratch })
    }

    fn launch(&self, command: impl Fn(Role, &Path) -> std::process::Command) -> Result<()> {
        let role = Role::Node { fast_jit: self.options.fast_jit };
        for id in 1..=self.nodes.len() {
            self.node(id).launch(command(role, &self.log4j()))?;
        }
        (1..=self.nodes.len()).try_for_each(|id| self.node(id).wait_ready())
    }

    /// Where clients without authentication connect: `host:port`, of all nodes.
    pub fn bootstrap(&self) -> String {
        self.addresses("127.0.0.1", |ports| ports.plain)
    }

    /// Where clients with user and password connect.
    pub fn bootstrap_sasl(&self) -> String {
        assert!(self.options.sasl, "this Kafka was started without `sasl`");
        self.addresses("127.0.0.1", |ports| ports.sasl)
    }

    /// Where clients with TLS connect. They check the server with [`Certificates::ca`].
    pub fn bootstrap_tls(&self) -> String {
        assert!(self.certificates.is_some(), "this Kafka was started without `tls`");
        self.addresses("localhost", |ports| ports.tls)
    }

    /// Where clients with both connect.
    pub fn bootstrap_sasl_tls(&self) -> String {
        assert!(self.options.sasl && self.certificates.is_some(), "this Kafka was started without `sasl` and `tls`");
        self.addresses("localhost", |ports| ports.sasl_tls)
    }

    /// The files of a cluster with TLS.
    pub fn certificates(&self) -> &Certificates {
        self.certificates.as_ref().expect("this Kafka was started with `tls` or `mutual_tls`")
    }

    /// The password of `admin` or `alice`, the users of the SASL listeners.
    pub fn password(user: &str) -> &'static str {
        USERS.iter().find(|(name, _)| *name == user).expect("admin and alice are the users").1
    }

    /// Pauses a node: connections stay open and nothing is answered.
    pub fn freeze(&self, node: usize) {
        self.node(node).freeze();
    }

    /// Resumes a frozen node.
    pub fn thaw(&self, node: usize) {
        self.node(node).thaw();
    }

    /// Whether a node runs and may answer: not killed, not ended by itself, not frozen.
    pub fn answers(&self, node: usize) -> bool {
        self.node(node).answers()
    }

    /// SIGKILL. The process is gone when this returns.
    pub fn kill(&self, node: usize) {
        self.node(node).kill();
    }

    /// An orderly end of one node.
    pub fn stop_node(&self, node: usize) {
        self.node(node).stop();
    }

    /// Starts a node on its data and ports once more, after a [`Kafka::kill`] if it still runs, and returns when it
    /// serves.
    pub fn restart(&self, node: usize) -> Result<()> {
        let mut node = self.node(node);
        node.kill();
        let role = Role::Node { fast_jit: self.options.fast_jit };
        node.launch(self.java.command(role, &self.log4j(), MAIN))?;
        node.wait_ready()
    }

    /// An orderly end of a single node; several nodes are killed, for the last one would wait for the others.
    pub fn stop(self) {
        if let [node] = &self.nodes[..] {
            lock(node).stop();
        }
    }

    /// The last lines of a node's log, for the message of a test that fails.
    pub fn log_tail(&self, node: usize, lines: usize) -> String {
        self.node(node).log_tail(lines)
    }

    /// The files of this cluster: the data and log of each node. Removed with the cluster.
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// Resident memory of all nodes in bytes.
    pub fn resident_memory(&self) -> u64 {
        self.nodes.iter().map(|node| lock(node).resident_memory()).sum()
    }

    /// Process ids of the nodes that run.
    pub fn pids(&self) -> Vec<u32> {
        self.nodes.iter().filter_map(|node| lock(node).pid()).collect()
    }

    fn addresses(&self, host: &str, port: impl Fn(Ports) -> u16) -> String {
        let all: Vec<String> = self.nodes.iter().map(|node| format!("{host}:{}", port(lock(node).ports))).collect();
        all.join(",")
    }

    fn running_ports(&self) -> Vec<u16> {
        let running = self.nodes.iter().map(lock).filter_map(|mut node| node.answers().then_some(node.ports.plain));
        running.collect()
    }

    fn ports_of(&self, id: usize) -> Option<Ports> {
        self.nodes.get(id.checked_sub(1)?).map(|node| lock(node).ports)
    }

    fn node(&self, id: usize) -> MutexGuard<'_, Node> {
        let nodes = self.nodes.len();
        lock(
            id.checked_sub(1)
                .and_then(|at| self.nodes.get(at))
                .unwrap_or_else(|| panic!("node {id}: there are nodes 1 to {nodes}")),
        )
    }

    fn log4j(&self) -> PathBuf {
        log4j(self.scratch.path())
    }
}

const MAIN: &str = "kafka.Kafka";

fn log4j(folder: &Path) -> PathBuf {
    folder.join("log4j2.properties")
}

fn lock(node: &Mutex<Node>) -> MutexGuard<'_, Node> {
    // A test that failed while it held a node leaves the node as it is.
    node.lock().unwrap_or_else(PoisonError::into_inner)
}
