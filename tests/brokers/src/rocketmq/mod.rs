//! RocketMQ 4 and 5: a name server, masters, and a look into their queues.

mod reader;
mod wire;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use self::wire::RocketWire;
use crate::cache;
use crate::error::{During, Error, Result};
use crate::java::{Archive, Java};
use crate::log::Log;
use crate::ports::free_port;
use crate::process::LOOK;
use crate::scratch::Scratch;
use crate::server::{Ready, Server, on_free_ports};

pub use self::wire::RocketMqMessage;

/// Settings of every broker: small files, and nothing that is made without being asked for.
const BROKER: &str = include_str!("../../rocketmq/broker.conf");
const LOGBACK: &str = include_str!("../../rocketmq/logback.xml");
/// The text that both servers print when they are ready.
const READY: &str = "boot success";
/// Options of Java.
const JAVA: [&str; 7] = [
    // A machine with a full disk does not block tests.
    "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99",
    "-Xmx512m",
    "-XX:MaxDirectMemorySize=256m",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
];
/// The kinds of server, each with its archive of classes.
const NAME_SERVER: &str = "name-server";
/// As [`NAME_SERVER`].
const MASTER: &str = "broker";
/// Longest wait for a topic to be known.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time in which a message that is stored becomes visible to consumers.
const SETTLED: Duration = Duration::from_millis(100);

/// A version that scripts/setup.sh downloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RocketMqVersion {
    /// The last of version 4 with a name server.
    Four,
    /// Version 5.
    Five,
}

/// The variable with the version that is started where none is asked for: 4 or 5.
const VERSION: &str = "DELAYBRIDGE_ROCKETMQ";

impl RocketMqVersion {
    /// The version of the variable `DELAYBRIDGE_ROCKETMQ`; 5 without it.
    fn chosen() -> RocketMqVersion {
        match std::env::var(VERSION).as_deref() {
            Ok("4") => RocketMqVersion::Four,
            Ok("5") | Err(_) => RocketMqVersion::Five,
            Ok(other) => panic!("read {VERSION}={other}: there are 4 and 5"),
        }
    }

    fn folder(self) -> Result<std::path::PathBuf> {
        match self {
            RocketMqVersion::Four => cache::complete(cache::ROCKETMQ_4, "RocketMQ 4"),
            RocketMqVersion::Five => cache::complete(cache::ROCKETMQ_5, "RocketMQ 5"),
        }
    }
}

/// The properties of a cluster; [`Default`] is one broker with the topic `orders`, of version 5 unless the variable
/// `DELAYBRIDGE_ROCKETMQ` says 4.
#[derive(Debug, Clone)]
pub struct RocketMqOptions {
    /// The version.
    pub version: RocketMqVersion,
    /// Names of the brokers, each a master, with further lines of their configuration.
    pub brokers: Vec<(String, String)>,
    /// Topics that are there at first, on every broker: name, queues, rights (6: read and write).
    pub topics: Vec<(String, u32, u32)>,
    /// `plain_acl.yml` of every broker, for version 4.
    pub acl: Option<String>,
    /// Further arguments of Java, for all servers.
    pub java: Vec<String>,
}

impl Default for RocketMqOptions {
    fn default() -> Self {
        RocketMqOptions {
            version: RocketMqVersion::chosen(),
            brokers: vec![("a".to_owned(), String::new())],
            topics: vec![("orders".to_owned(), 4, 6)],
            acl: None,
            java: Vec::new(),
        }
    }
}

/// A server and its port on 127.0.0.1.
#[derive(Debug)]
struct Node {
    server: Server,
    port: u16,
}

/// A running cluster.
#[derive(Debug)]
pub struct RocketMq {
    // Dropped in this order: the servers before their folder.
    brokers: Vec<Node>,
    name_server: Node,
    java: Java,
    scratch: Scratch,
}

impl RocketMq {
    /// Starts a cluster with [`RocketMqOptions::default`].
    pub fn start() -> Result<Self> {
        Self::start_with(&RocketMqOptions::default())
    }

    /// Starts a cluster; returns when its topics are known.
    pub fn start_with(options: &RocketMqOptions) -> Result<Self> {
        let java = Java::with_jars_of(options.version.folder()?)?;
        let start = |options: &RocketMqOptions, archives: [Archive; 2]| {
            on_free_ports(|| Self::prepare(&java, &archives, options), |cluster: &RocketMq| cluster.launch(options))
        };
        java.train(MASTER, |broker| {
            java.train(NAME_SERVER, |name_server| {
                let version = options.version;
                let cluster = start(&RocketMqOptions { version, ..RocketMqOptions::default() }, [name_server, broker])?;
                cluster.brokers.iter().chain([&cluster.name_server]).for_each(|trained| trained.server.stop());
                Ok(())
            })
        })?;
        start(options, [Archive::Read(NAME_SERVER), Archive::Read(MASTER)])
    }

    fn prepare(java: &Java, archives: &[Archive; 2], options: &RocketMqOptions) -> Result<Self> {
        let scratch = Scratch::new("rocketmq")?;
        let home = scratch.path();
        let [of_name_server, of_broker] = archives;
        let write = |path: &Path, text: &str| {
            let folder = path.parent().unwrap_or(home);
            std::fs::create_dir_all(folder).during(format_args!("create {}", folder.display()))?;
            std::fs::write(path, text).during(format_args!("write {}", path.display()))
        };
        let port = free_port();
        let settings = home.join("namesrv.conf");
        let text = format!(
            "listenPort={port}\nkvConfigPath={0}/kv.json\nconfigStorePath={0}/namesrv.properties\n",
            home.display()
        );
        write(&settings, &text)?;
        write(&home.join("conf/logback_namesrv.xml"), LOGBACK)?;
        write(&home.join("conf/logback_broker.xml"), LOGBACK)?;
        let server = |name: &str, archive: &Archive, main: &'static str, port: u16, settings: &Path| {
            let log = Log::new(home.join(format!("{}.log", name.replace(' ', "-"))));
            let (java, archive, home) = (java.clone(), archive.clone(), home.to_owned());
            let (settings, more) = (settings.to_owned(), options.java.clone());
            let command = move || {
                let folder = home.display();
                let own = [
                    format!("-Drocketmq.home.dir={folder}"),
                    format!("-Duser.home={folder}"),
                    format!("-Drocketmq.client.logRoot={folder}/logs"),
                ];
                let options: Vec<&str> = JAVA.into_iter().chain(own.iter().chain(&more).map(String::as_str)).collect();
                let mut command = java.quick(&archive, &options, main);
                command.arg("-c").arg(&settings).current_dir(&home).env_remove("NAMESRV_ADDR");
                Ok(command)
            };
            Node { server: Server::new(format!("RocketMQ, {name}"), log, Ready::Prints(READY), command), port }
        };
        let name_server =
            server("name server", of_name_server, "org.apache.rocketmq.namesrv.NamesrvStartup", port, &settings);
        if let Some(acl) = &options.acl {
            write(&home.join("conf/plain_acl.yml"), acl)?;
        }
        let mut brokers = Vec::new();
        for (name, more) in &options.brokers {
            let folder = home.join(name);
            let settings = home.join(format!("{name}.conf"));
            let own = free_port();
            let text = BROKER
                .replace("NAMESRV", &format!("127.0.0.1:{port}"))
                .replace("NAME", name)
                .replace("HAPORT", &free_port().to_string())
                .replace("PORT", &own.to_string())
                .replace("FOLDER", &folder.display().to_string());
            let acl = if options.acl.is_some() { "aclEnable=true\n" } else { "" };
            write(&settings, &format!("{text}{acl}{more}\n"))?;
            write(&folder.join("config/topics.json"), &topics(&options.topics))?;
            brokers.push(server(name, of_broker, "org.apache.rocketmq.broker.BrokerStartup", own, &settings));
        }
        Ok(RocketMq { brokers, name_server, java: java.clone(), scratch })
    }

    fn launch(&self, options: &RocketMqOptions) -> Result<()> {
        self.name_server.server.start()?;
        self.brokers.iter().try_for_each(|broker| broker.server.start())?;
        options.topics.iter().try_for_each(|(topic, ..)| self.wait_for(topic))
    }

    /// `host:port` of the name server.
    pub fn name_server(&self) -> String {
        format!("127.0.0.1:{}", self.name_server.port)
    }

    /// The port of the name server.
    pub fn port(&self) -> u16 {
        self.name_server.port
    }

    /// Makes a topic with so many queues at every broker; returns when the name server knows it.
    pub fn create(&self, topic: &str, queues: u32) -> Result<()> {
        for broker in &self.brokers {
            RocketWire::connect(broker.port)?.create(topic, queues)?;
        }
        self.wait_for(topic)
    }

    /// Waits until the name server knows a topic at every broker.
    pub fn wait_for(&self, topic: &str) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            let route = RocketWire::connect(self.port()).and_then(|mut wire| wire.route(topic));
            let known = route.as_ref().is_ok_and(|route| {
                self.brokers.iter().all(|broker| route.contains(&format!("127.0.0.1:{}", broker.port)))
            });
            if known {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(Error::new(format!("wait for topic {topic}: still {route:?} after {PATIENCE:?}")));
            }
            thread::sleep(LOOK);
        }
    }

    /// The messages of a topic, broker by broker and queue by queue, over the protocol. A broker answers a producer before a consumer
    /// sees the message: it is read until nothing is added.
    pub fn messages(&self, topic: &str) -> Result<Vec<RocketMqMessage>> {
        self.wait_for(topic)?;
        let mut before = self.pull(topic)?;
        loop {
            thread::sleep(SETTLED);
            let now = self.pull(topic)?;
            if now.len() == before.len() {
                return Ok(now);
            }
            before = now;
        }
    }

    fn pull(&self, topic: &str) -> Result<Vec<RocketMqMessage>> {
        let mut messages = Vec::new();
        for (place, broker) in self.brokers.iter().enumerate() {
            let queues = RocketWire::connect(self.port())?.queues(topic)?;
            let mut wire = RocketWire::connect(broker.port)?;
            for queue in 0..queues {
                messages.extend(wire.pull(topic, place, queue)?);
            }
        }
        Ok(messages)
    }

    /// So many messages of a topic, as RocketMQ's own client reads them: queue, tags, keys, properties, body.
    pub fn read(&self, topic: &str, count: usize) -> Result<Vec<(RocketMqMessage, String, String)>> {
        reader::read(self.java.clone(), &self.name_server(), topic, count)
    }

    /// Suspends a broker: its connections stay open, and it does not respond.
    pub fn freeze(&self, broker: usize) {
        self.brokers[broker].server.freeze();
    }

    /// Resumes a suspended broker.
    pub fn thaw(&self, broker: usize) {
        self.brokers[broker].server.thaw();
    }

    /// Kills a broker with SIGKILL; returns when the process has ended.
    pub fn kill(&self, broker: usize) {
        self.brokers[broker].server.kill();
    }

    /// Starts a broker again with its data and port, after a [`RocketMq::kill`] if it still runs; returns when it is ready.
    pub fn restart(&self, broker: usize) -> Result<()> {
        self.brokers[broker].server.restart()
    }

    /// Kills the name server.
    pub fn kill_name_server(&self) {
        self.name_server.server.kill();
    }

    /// Starts the name server again; it knows a broker when that has registered anew, which takes up to 10 s.
    pub fn restart_name_server(&self) -> Result<()> {
        self.name_server.server.restart()
    }

    /// The last lines of a broker's log, for the message of a test that fails.
    pub fn log_tail(&self, broker: usize, lines: usize) -> String {
        self.brokers[broker].server.log_tail(lines)
    }

    /// The process ids of the brokers that run.
    pub fn pids(&self) -> Vec<u32> {
        self.brokers.iter().filter_map(|broker| broker.server.pid()).collect()
    }

    /// The folder of this cluster: data, logs, configuration. It is removed with the cluster.
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }
}

/// The file of a broker's topics.
fn topics(topics: &[(String, u32, u32)]) -> String {
    let topic = |(name, queues, rights): &(String, u32, u32)| {
        format!(
            r#""{name}":{{"order":false,"perm":{rights},"readQueueNums":{queues},"topicFilterType":"SINGLE_TAG","topicName":"{name}","topicSysFlag":0,"writeQueueNums":{queues}}}"#
        )
    };
    let topics: Vec<String> = topics.iter().map(topic).collect();
    format!(r#"{{"dataVersion":{{"counter":1,"timestamp":1}},"topicConfigTable":{{{}}}}}"#, topics.join(","))
}
