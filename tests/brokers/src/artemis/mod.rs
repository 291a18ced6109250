//! ActiveMQ Artemis with AMQP 1.0: one broker, and a look into its queues.

mod queue;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

pub use queue::ArtemisMessage;
pub(crate) use queue::decoded;

use crate::boots::Boot;
use crate::error::{During, Error, Result};
use crate::log::Log;
use crate::ports::free_port;
use crate::process::{self, LOOK, Process};
use crate::scratch::Scratch;
use crate::{cache, java};

const CONFIG: &str = include_str!("../../artemis/broker.xml");
const SOURCE: &str = include_str!("../../artemis/Broker.java");
/// The text that a broker prints when it is ready.
const READY: &str = "READY";
/// Time-out of a start: it takes three seconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The properties of a broker; [`Default`] has the queue `orders`.
#[derive(Debug, Clone)]
pub struct ArtemisOptions {
    /// Queues that are made, each with an address of its name. `denied.NAME` takes nothing from `guest`; `full.block` and
    /// `full.fail` are full with 20,000 bytes, and then give no credit, or refuse.
    pub queues: Vec<String>,
    /// Further parameters of the acceptor, as `amqpCredits=10;amqpLowCredits=5`.
    pub acceptor: String,
    /// Whether messages get the time of their arrival. Then a full address stays full when its messages are gone.
    pub times: bool,
}

impl Default for ArtemisOptions {
    fn default() -> Self {
        ArtemisOptions { queues: vec!["orders".to_owned()], acceptor: String::new(), times: false }
    }
}

/// A running broker. `guest` with `guest`, or no login, may send anywhere but to `denied.NAME`; `nobody` with `nobody`
/// only there.
#[derive(Debug)]
pub struct Artemis {
    // Dropped in this order: the broker before its folder.
    broker: Mutex<Option<Process>>,
    port: u16,
    http: u16,
    log: Log,
    scratch: Scratch,
}

impl Artemis {
    /// Starts a broker with [`ArtemisOptions::default`].
    pub fn start() -> Result<Self> {
        Self::start_with(&ArtemisOptions::default())
    }

    /// Starts a broker; returns when it is ready.
    pub fn start_with(options: &ArtemisOptions) -> Result<Self> {
        let mut tries = 3;
        loop {
            tries -= 1;
            let scratch = Scratch::new("artemis")?;
            let port = free_port();
            let folder = scratch.path().display().to_string();
            let config = CONFIG.replace("FOLDER", &folder).replace("PORT", &port.to_string());
            let config = config.replace("OPTIONS", &options.acceptor).replace("TIMES", &options.times.to_string());
            std::fs::write(scratch.path().join("broker.xml"), config).during("write broker.xml")?;
            let log = Log::new(scratch.path().join("log"));
            let artemis = Artemis { broker: Mutex::new(None), port, http: free_port(), log, scratch };
            let _boot = Boot::wait();
            match artemis.launch() {
                Ok(()) => {
                    options.queues.iter().try_for_each(|queue| artemis.create(queue))?;
                    return Ok(artemis);
                }
                // Another process took a port between our check and the start.
                Err(e) if tries > 0 && e.to_string().contains("Address already in use") => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn launch(&self) -> Result<()> {
        let from = self.log.len();
        let program = java::program()?;
        let home = cache::artemis()?;
        let jars = format!("{}/*", home.join("lib").display());
        let classes = java::classes(&program, &home, ("Broker", SOURCE), &jars)?;
        let mut command = process::command(&program);
        // A quick start and little memory: several of them run on two processors.
        command.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m", "-XX:-UsePerfData"]);
        command.args(["-cp", &format!("{}:{jars}", classes.display()), "Broker"]);
        command.arg(self.folder().join("broker.xml")).arg(self.http.to_string()).current_dir(self.folder());
        command.env("LC_ALL", "C.UTF-8").env_remove("JAVA_TOOL_OPTIONS").env_remove("CLASSPATH");
        self.log.takes_output_of(&mut command)?;
        let process =
            Process::spawn("Artemis", command).during("start Artemis (is setpriv there? scripts/setup.sh)")?;
        *self.broker() = Some(process);
        let until = Instant::now() + PATIENCE;
        loop {
            if self.log.since(from).contains(READY) {
                return Ok(());
            }
            if let Some(status) = self.broker().as_mut().and_then(Process::exit_status) {
                return Err(self.failed(&format!("it ended with {status}")));
            }
            if Instant::now() >= until {
                return Err(self.failed(&format!("it is not ready after {PATIENCE:?}")));
            }
            thread::sleep(LOOK);
        }
    }

    fn failed(&self, what: &str) -> Error {
        Error::new(format!("start Artemis: {what}. The end of its log:\n{}", self.log_tail(40)))
    }

    /// The port of AMQP on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Suspends the broker: its connections stay open, and it does not respond.
    pub fn freeze(&self) {
        if let Some(broker) = self.broker().as_mut() {
            broker.freeze();
        }
    }

    /// Resumes a suspended broker.
    pub fn thaw(&self) {
        if let Some(broker) = self.broker().as_mut() {
            broker.signal(Signal::CONT);
        }
    }

    /// Kills the broker with SIGKILL; returns when the process has ended.
    pub fn kill(&self) {
        *self.broker() = None;
    }

    /// Stops the broker gracefully.
    pub fn stop(&self) {
        if let Some(mut broker) = self.broker().take() {
            broker.stop(Duration::from_secs(30));
        }
    }

    /// Starts the broker again with its data and port, after a [`Artemis::kill`] if it still runs; returns when it is ready.
    pub fn restart(&self) -> Result<()> {
        self.kill();
        self.launch()
    }

    /// The last lines of the broker's log, for the message of a test that fails.
    pub fn log_tail(&self, lines: usize) -> String {
        self.log.tail(lines)
    }

    /// The folder of this broker: data, log, configuration. It is removed with the broker.
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// The process id of the broker, if it runs.
    pub fn pid(&self) -> Option<u32> {
        self.broker().as_ref().map(Process::pid)
    }

    fn broker(&self) -> MutexGuard<'_, Option<Process>> {
        // After a panic of a test that locked the broker, it is unchanged.
        self.broker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
