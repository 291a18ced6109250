//! ElasticMQ: a server that behaves as SQS, with FIFO queues and with SQS's limits. Messages are on disk, unless asked otherwise.
//!
//! It is kinder than SQS in this: it checks neither signatures nor rights, throttles nobody, and answers before a crash of the machine
//! could be survived.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::boots::Boot;
use crate::error::{During, Error, Result};
use crate::log::Log;
use crate::ports::free_port;
use crate::process::{self, LOOK, Process};
use crate::scratch::Scratch;
use crate::{cache, http, java};

/// The text that a server prints when it is ready.
const READY: &str = "=== ElasticMQ server";
/// Time-out of a start.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server.
#[derive(Debug)]
pub struct ElasticMq {
    // Dropped in this order: the server before its folder.
    server: Mutex<Option<Process>>,
    port: u16,
    log: Log,
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
        let mut tries = 3;
        loop {
            tries -= 1;
            let server = Self::prepare(free_port(), disk)?;
            let _boot = Boot::wait();
            match server.launch() {
                Ok(()) => return Ok(server),
                // Another process took the port between our check and the start.
                Err(e) if tries > 0 && e.to_string().contains("BindException") => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn prepare(port: u16, disk: bool) -> Result<Self> {
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
        Ok(ElasticMq { server: Mutex::new(None), port, log, scratch })
    }

    fn launch(&self) -> Result<()> {
        let from = self.log.len();
        let mut command = process::command(java::program()?);
        command.args(["-Xms64m", "-Xmx256m", "-Xss512k", "-XX:+UseSerialGC", "-XX:-UsePerfData"]);
        command.arg("-XX:TieredStopAtLevel=1");
        command.arg(format!("-Dconfig.file={}", self.scratch.path().join("elasticmq.conf").display()));
        command.arg("-cp").arg(cache::elasticmq()?.join("lib/*")).arg("org.elasticmq.server.Main");
        command.current_dir(self.scratch.path()).env("LC_ALL", "C.UTF-8").env_remove("JAVA_TOOL_OPTIONS");
        self.log.takes_output_of(&mut command)?;
        let process =
            Process::spawn("ElasticMQ", command).during("start ElasticMQ (is setpriv there? scripts/setup.sh)")?;
        *self.server() = Some(process);
        let until = Instant::now() + PATIENCE;
        loop {
            if self.log.since(from).contains(READY) {
                return Ok(());
            }
            if let Some(status) = self.server().as_mut().and_then(Process::exit_status) {
                return Err(self.failed(&format!("it ended with {status}")));
            }
            if Instant::now() >= until {
                return Err(self.failed(&format!("it is not ready after {PATIENCE:?}")));
            }
            thread::sleep(LOOK);
        }
    }

    fn failed(&self, what: &str) -> Error {
        Error::new(format!("start ElasticMQ: {what}. The end of its log:\n{}", self.log.tail(40)))
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
    ///
    /// # Errors
    ///
    /// The server refuses, or does not answer.
    pub fn ask(&self, action: &str, parameters: &str) -> Result<String> {
        let headers =
            ["content-type: application/x-amz-json-1.0".to_owned(), format!("x-amz-target: AmazonSQS.{action}")];
        http::post(&format!("ask ElasticMQ for {action}"), self.port, &headers, parameters)
    }

    /// Suspends the server: its connections stay open, and it does not respond.
    pub fn freeze(&self) {
        if let Some(server) = self.server().as_mut() {
            server.freeze();
        }
    }

    /// Resumes a suspended server.
    pub fn thaw(&self) {
        if let Some(server) = self.server().as_mut() {
            server.signal(Signal::CONT);
        }
    }

    /// Kills the server with SIGKILL; returns when the process has ended.
    pub fn kill(&self) {
        *self.server() = None;
    }

    /// Starts the server again with its data and port, after a [`ElasticMq::kill`] if it still runs; returns when it is ready.
    pub fn restart(&self) -> Result<()> {
        self.kill();
        self.launch()
    }

    /// The folder of this server: data, log, configuration. It is removed with the server.
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// The process id of the server, if it runs.
    pub fn pid(&self) -> Option<u32> {
        self.server().as_ref().map(Process::pid)
    }

    fn server(&self) -> MutexGuard<'_, Option<Process>> {
        // After a panic of a test that locked the server, it is unchanged.
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
