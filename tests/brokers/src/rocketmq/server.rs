//! A process of RocketMQ: a name server or a broker.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::error::{During, Error, Result};
use crate::java;
use crate::log::Log;
use crate::process::{self, LOOK, Process};

/// The text that both print when they are ready.
const READY: &str = "boot success";
/// Time-out of a start: a broker takes nine seconds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// A quick start and little memory: several of them run on two processors.
const JAVA: &[&str] = &[
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-XX:-UsePerfData",
    // A machine with a full disk does not block tests.
    "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99",
    "-Xms64m",
    "-Xmx512m",
    "-XX:MaxDirectMemorySize=256m",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
];

/// A server, which may be down.
#[derive(Debug)]
pub(super) struct RocketServer {
    process: Mutex<Option<Process>>,
    name: String,
    main: String,
    jars: PathBuf,
    home: PathBuf,
    settings: PathBuf,
    java: Vec<String>,
    port: u16,
    log: Log,
}

impl RocketServer {
    /// A server that does not run yet: its name and its main class, its port and the file of its settings.
    pub(super) fn new(
        home: &Path,
        (name, main): (&str, &str),
        jars: &Path,
        port: u16,
        settings: &Path,
        java: &[String],
    ) -> RocketServer {
        RocketServer {
            process: Mutex::new(None),
            name: name.to_owned(),
            main: main.to_owned(),
            jars: jars.join("*"),
            home: home.to_owned(),
            settings: settings.to_owned(),
            java: java.to_vec(),
            port,
            log: Log::new(home.join(format!("{}.log", name.replace(' ', "-")))),
        }
    }

    /// Starts it; returns when it is ready.
    pub(super) fn start(&self) -> Result<()> {
        let from = self.log.len();
        let home = self.home.display();
        let mut command = process::command(java::program()?);
        command.args(JAVA).args(&self.java);
        command.arg(format!("-Drocketmq.home.dir={home}")).arg(format!("-Duser.home={home}"));
        command.arg(format!("-Drocketmq.client.logRoot={home}/logs"));
        command.arg("-cp").arg(&self.jars).arg(&self.main).arg("-c").arg(&self.settings);
        command.current_dir(&self.home).env("LC_ALL", "C.UTF-8");
        command.env_remove("JAVA_TOOL_OPTIONS").env_remove("CLASSPATH").env_remove("NAMESRV_ADDR");
        self.log.takes_output_of(&mut command)?;
        let process =
            Process::spawn("RocketMQ", command).during("start RocketMQ (is setpriv there? scripts/setup.sh)")?;
        *self.process() = Some(process);
        let until = Instant::now() + PATIENCE;
        loop {
            if self.log.since(from).contains(READY) {
                return Ok(());
            }
            if let Some(status) = self.process().as_mut().and_then(Process::exit_status) {
                return Err(self.failed(&format!("it ended with {status}")));
            }
            if Instant::now() >= until {
                return Err(self.failed(&format!("it is not ready after {PATIENCE:?}")));
            }
            thread::sleep(LOOK);
        }
    }

    fn failed(&self, what: &str) -> Error {
        Error::new(format!("start RocketMQ, {}: {what}. The end of its log:\n{}", self.name, self.log_tail(40)))
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.process().as_ref().map(Process::pid)
    }

    /// The port on 127.0.0.1.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn freeze(&self) {
        if let Some(process) = self.process().as_mut() {
            process.freeze();
        }
    }

    pub(super) fn thaw(&self) {
        if let Some(process) = self.process().as_mut() {
            process.signal(Signal::CONT);
        }
    }

    /// Kills it with SIGKILL; returns when it has ended.
    pub(super) fn kill(&self) {
        *self.process() = None;
    }

    pub(super) fn log_tail(&self, lines: usize) -> String {
        self.log.tail(lines)
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        // After a panic of a test that locked it, it is unchanged.
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
