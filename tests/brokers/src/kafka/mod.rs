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

pub use acl::{Operation, Resource};
pub use admin::{NewTopic, Partition};
pub use odd::write_record;
pub use tools::Record;

use crate::cache;
use crate::error::{During, Result};
use crate::java::{Archive, Java};
use crate::scratch::Scratch;
use crate::server::{Server, on_free_ports};
use crate::tls::Certificates;
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
    nodes: Vec<Node>,
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
        let java = Java::with_jars_of(cache::kafka()?)?;
        training::once(&java)?;
        Self::start_on_free_ports(&java, &options, &Archive::Read(java::NODE))
    }

    fn start_on_free_ports(java: &Java, options: &KafkaOptions, archive: &Archive) -> Result<Self> {
        on_free_ports(
            || Self::prepare(java, options, archive),
            |kafka: &Kafka| {
                let started = kafka.nodes.iter().map(|node| node.server.begin()).collect::<Result<Vec<_>>>()?;
                kafka.nodes.iter().zip(started).try_for_each(|(node, from)| node.server.wait_ready(from))
            },
        )
    }

    /// Prepares everything except the processes.
    fn prepare(java: &Java, options: &KafkaOptions, archive: &Archive) -> Result<Self> {
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
            let lines = server_properties(id, &ports, &node::data(&folder), options, certificates.as_ref());
            let file = node::properties(&folder);
            fs::write(&file, lines).during(format_args!("write {}", file.display()))?;
            node::format(java, &folder, &log4j, (id, is_controller(id, options.nodes)))?;
            if let Some(volume) = options.volume.iter().find(|volume| volume.node == id) {
                node::move_data(&folder, volume)?;
            }
            nodes.push(Node::new(java, archive, (id, own), (&folder, &log4j), options));
        }
        Ok(Kafka { nodes, options: options.clone(), certificates, java: java.clone(), scratch })
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
        self.node(node).restart()
    }

    /// Stops a single node gracefully; several nodes are killed, because the last one would wait for the others.
    pub fn stop(self) {
        if let [node] = &self.nodes[..] {
            node.server.stop();
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
        self.nodes.iter().map(|node| node.server.resident_memory()).sum()
    }

    /// Process ids of the running nodes.
    pub fn pids(&self) -> Vec<u32> {
        self.nodes.iter().filter_map(|node| node.server.pid()).collect()
    }

    fn addresses(&self, host: &str, port: impl Fn(Ports) -> u16) -> String {
        let all: Vec<String> = self.nodes.iter().map(|node| format!("{host}:{}", port(node.ports))).collect();
        all.join(",")
    }

    fn running_ports(&self) -> Vec<u16> {
        let running = self.nodes.iter().filter(|node| node.server.answers());
        running.map(|node| node.ports.plain).collect()
    }

    fn ports_of(&self, id: usize) -> Option<Ports> {
        self.nodes.get(id.checked_sub(1)?).map(|node| node.ports)
    }

    fn node(&self, id: usize) -> &Server {
        let nodes = self.nodes.len();
        let node = id.checked_sub(1).and_then(|at| self.nodes.get(at));
        &node.unwrap_or_else(|| panic!("node {id}: there are nodes 1 to {nodes}")).server
    }

    fn log4j(&self) -> PathBuf {
        log4j(self.scratch.path())
    }
}

const MAIN: &str = "kafka.Kafka";

fn log4j(folder: &Path) -> PathBuf {
    folder.join("log4j2.properties")
}
