//! Kafka: one to three nodes in KRaft mode, each a process of its own.

mod acl;
mod admin;
mod java;
mod node;
mod odd;
mod properties;
mod tools;
mod training;
mod wire;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use acl::{Operation, Resource};
pub use admin::{NewTopic, Partition};
pub use odd::write_record;
pub use tools::Record;

use crate::boots::Boot;
use crate::error::{During, Result};
use crate::scratch::Scratch;
use crate::tls::Certificates;
use java::{Java, Role};
use node::Node;
use properties::{Ports, USERS, is_controller, server_properties};

/// The properties of a cluster; [`Default`] is one node that does not create topics automatically.
#[derive(Debug, Clone)]
pub struct KafkaOptions {
    /// Number of nodes, 1 to 3. Of two, only the first is a controller, so the second may die; of three, any one may.
    pub nodes: usize,
    /// Whether a record for a missing topic creates it.
    pub auto_create: bool,
    /// Adds a listener with user and password (PLAIN and SCRAM); see [`Kafka::password`].
    pub sasl: bool,
    /// Adds a TLS listener; with `sasl` also one with both.
    pub tls: bool,
    /// The same as `tls`, and asks the client for a certificate.
    pub mutual_tls: bool,
    /// Lets the SASL listeners take tokens as well (OAUTHBEARER), which Kafka's own validator checks.
    pub tokens: Option<TokenRules>,
    /// Whether rights are checked: `admin`, and clients without authentication, may do everything, others only what
    /// [`Kafka::add_acl`] allows.
    pub acl: bool,
    /// The file system of one node's data.
    pub volume: Option<Volume>,
    /// Further lines of `server.properties`, which override the others.
    pub properties: Vec<(String, String)>,
    /// Whether to start quickly with little memory; set to false to measure throughput.
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
            tokens: None,
            acl: false,
            volume: None,
            properties: Vec::new(),
            fast_jit: true,
        }
    }
}

/// The tokens that are valid.
#[derive(Debug, Clone)]
pub struct TokenRules {
    /// Where the public keys are (JWKS).
    pub keys: String,
    /// The audience that a token must have.
    pub audience: String,
}

/// A file system that is visible only in a mount namespace of its own.
#[derive(Debug, Clone)]
pub struct Volume {
    /// The node whose data is on it.
    pub node: usize,
    /// The mount point.
    pub path: PathBuf,
    /// The command prefix that runs another command in the mount namespace.
    pub enter: Vec<String>,
}

/// A running cluster. Nodes are counted from 1, as in Kafka.
#[derive(Debug)]
pub struct Kafka {
    // Dropped in this order: the processes before their folder.
    nodes: Vec<Mutex<Node>>,
    options: KafkaOptions,
    certificates: Option<Certificates>,
    java: Java,
    scratch: Scratch,
}

impl Kafka {
    /// Starts one node with [`KafkaOptions::default`].
    pub fn start() -> Result<Self> {
        Self::start_with(KafkaOptions::default())
    }

    /// Starts a cluster; returns when every node is ready.
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
                // Another process took a port between our check and the start.
                Err(e) if tries > 0 && e.to_string().contains("Address already in use") => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Prepares everything except the processes.
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
            self.node(id).launch(self.allowing_keys(command(role, &self.log4j())))?;
        }
        (1..=self.nodes.len()).try_for_each(|id| self.node(id).wait_ready())
    }

    /// The command with the property without which Kafka reads no public keys.
    fn allowing_keys(&self, mut command: std::process::Command) -> std::process::Command {
        if let Some(TokenRules { keys, .. }) = &self.options.tokens {
            command.env("JDK_JAVA_OPTIONS", format!("-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}"));
        }
        command
    }

    /// The addresses of all nodes for clients without authentication: `host:port`, separated by commas.
    pub fn bootstrap(&self) -> String {
        self.addresses("127.0.0.1", |ports| ports.plain)
    }

    /// The addresses for clients with user and password.
    pub fn bootstrap_sasl(&self) -> String {
        assert!(self.options.sasl, "this Kafka was started without `sasl`");
        self.addresses("127.0.0.1", |ports| ports.sasl)
    }

    /// The addresses for clients with TLS, which check the server with [`Certificates::ca`].
    pub fn bootstrap_tls(&self) -> String {
        assert!(self.certificates.is_some(), "this Kafka was started without `tls`");
        self.addresses("localhost", |ports| ports.tls)
    }

    /// The addresses for clients with both.
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

    /// Suspends a node: its connections stay open, and it does not respond.
    pub fn freeze(&self, node: usize) {
        self.node(node).freeze();
    }

    /// Resumes a suspended node.
    pub fn thaw(&self, node: usize) {
        self.node(node).thaw();
    }

    /// Whether a node runs and is not suspended.
    pub fn answers(&self, node: usize) -> bool {
        self.node(node).answers()
    }

    /// Kills a node with SIGKILL; returns when the process has ended.
    pub fn kill(&self, node: usize) {
        self.node(node).kill();
    }

    /// Stops one node gracefully.
    pub fn stop_node(&self, node: usize) {
        self.node(node).stop();
    }

    /// Starts a node again with its data and ports, after a [`Kafka::kill`] if it still runs; returns when it is ready.
    pub fn restart(&self, node: usize) -> Result<()> {
        let mut node = self.node(node);
        node.kill();
        let role = Role::Node { fast_jit: self.options.fast_jit };
        node.launch(self.allowing_keys(self.java.command(role, &self.log4j(), MAIN)))?;
        node.wait_ready()
    }

    /// Stops a single node gracefully; several nodes are killed, because the last one would wait for the others.
    pub fn stop(self) {
        if let [node] = &self.nodes[..] {
            lock(node).stop();
        }
    }

    /// The last lines of a node's log, for the message of a test that fails.
    pub fn log_tail(&self, node: usize, lines: usize) -> String {
        self.node(node).log_tail(lines)
    }

    /// The folder of this cluster, with the data and the log of each node. It is removed with the cluster.
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// Resident memory of all nodes, in bytes.
    pub fn resident_memory(&self) -> u64 {
        self.nodes.iter().map(|node| lock(node).resident_memory()).sum()
    }

    /// Process ids of the running nodes.
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
    // After a panic of a test that locked the node, the node is unchanged.
    node.lock().unwrap_or_else(PoisonError::into_inner)
}
