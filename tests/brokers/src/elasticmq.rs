//! ElasticMQ: a server that behaves as SQS, with FIFO queues and with SQS's limits. Messages are on disk, unless asked otherwise.
//!
//! It is kinder than SQS in this: it checks neither signatures nor rights, throttles nobody, and answers before a crash of the machine
//! could be survived.

use std::ops::Deref;
use std::path::Path;

use crate::error::{During, Result};
use crate::java::{Archive, Java};
use crate::log::Log;
use crate::ports::free_port;
use crate::scratch::Scratch;
use crate::server::{Ready, Server, on_free_ports};
use crate::{cache, http};

/// The text that a server prints when it is ready.
const READY: &str = "=== ElasticMQ server";
/// The name of its archive of classes.
const ROLE: &str = "server";

/// A running server.
#[derive(Debug)]
pub struct ElasticMq {
    // Dropped in this order: the server before its folder.
    server: Server,
    port: u16,
    scratch: Scratch,
}

impl ElasticMq {
    /// Starts a server; returns when it is ready.
    pub fn start() -> Result<Self> {
        Self::start_with(true)
    }

    /// Starts a server without a disk, which takes ten times as many messages.
    pub fn start_in_memory() -> Result<Self> {
        Self::start_with(false)
    }

    fn start_with(disk: bool) -> Result<Self> {
        let java = Java::with_jars_of(cache::elasticmq()?)?;
        let start = |archive: Archive, disk| {
            on_free_ports(|| Self::prepare(&java, &archive, free_port(), disk), |made| made.server.start())
        };
        java.train(ROLE, |archive| {
            let trained = start(archive, true)?;
            trained.ask("CreateQueue", r#"{"QueueName":"training"}"#)?;
            trained.stop();
            Ok(())
        })?;
        start(Archive::Read(ROLE), disk)
    }

    fn prepare(java: &Java, archive: &Archive, port: u16, disk: bool) -> Result<Self> {
        let scratch = Scratch::new("elasticmq")?;
        let queues = scratch.path().join("queues.conf");
        let data = scratch.path().join("data");
        // Written before it is answered, as far as H2 can.
        let uri = format!("jdbc:h2:{};WRITE_DELAY=0", data.display());
        let text = format!(
            "include classpath(\"application.conf\")\n\
             node-address {{ protocol = http, host = \"127.0.0.1\", port = {port}, context-path = \"\" }}\n\
             rest-sqs {{ enabled = true, bind-port = {port}, bind-hostname = \"127.0.0.1\", sqs-limits = strict }}\n\
             rest-stats {{ enabled = false }}\n\
             generate-node-address = false\n\
             queues {{}}\n\
             queues-storage {{ enabled = {disk}, path = {queues:?} }}\n\
             messages-storage {{ enabled = {disk}, driver-class = \"org.h2.Driver\", uri = {uri:?}, username = \"\", password = \"\" }}\n"
        );
        let file = scratch.path().join("elasticmq.conf");
        std::fs::write(&file, text).during(format_args!("write {}", file.display()))?;
        let log = Log::new(scratch.path().join("log"));
        let (java, archive, folder) = (java.clone(), archive.clone(), scratch.path().to_owned());
        let server = Server::new("ElasticMQ", log, Ready::Prints(READY), move || {
            let config = format!("-Dconfig.file={}", file.display());
            let mut command = java.quick(&archive, &["-Xmx256m", &config], "org.elasticmq.server.Main");
            command.current_dir(&folder);
            Ok(command)
        });
        Ok(ElasticMq { server, port, scratch })
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// URL of the queue of this name.
    pub fn queue_url(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/000000000000/{name}", self.port)
    }

    /// Asks for an action of SQS, `CreateQueue`, with these parameters in JSON; returns the JSON of the answer.
    pub fn ask(&self, action: &str, parameters: &str) -> Result<String> {
        let headers =
            ["content-type: application/x-amz-json-1.0".to_owned(), format!("x-amz-target: AmazonSQS.{action}")];
        http::post(&format!("ask ElasticMQ for {action}"), self.port, &headers, parameters)
    }

    /// The folder of this server: data, log, configuration. It is removed with the server.
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }
}

impl Deref for ElasticMq {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}
