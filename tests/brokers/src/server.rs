//! The life of a server process, the same for all: started until it is ready, suspended, killed, started again.

use std::fmt;
use std::net::TcpStream;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::boots::Boot;
use crate::error::{During, Error, Result};
use crate::log::Log;
use crate::process::{LOOK, Process};

/// Time-out of a start: more than ten times the longest on an idle machine.
const PATIENCE: Duration = Duration::from_secs(180);
/// Time-out of a graceful stop, after which the server is killed.
const STOP: Duration = Duration::from_secs(30);
/// What servers print if another process has their port.
const TAKEN: [&str; 4] = ["Address already in use", "address already in use", "eaddrinuse", "BindException"];

/// The sign that a server is ready.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ready {
    /// It prints this text.
    Prints(&'static str),
    /// It listens on this port of 127.0.0.1.
    Listens(u16),
}

/// A server, which may be down. Its data and its ports stay the same over restarts.
pub struct Server {
    name: String,
    command: Box<dyn Fn() -> Result<Command> + Send + Sync>,
    ready: Ready,
    log: Log,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    process: Option<Process>,
    frozen: bool,
}

impl Server {
    /// A server that does not run yet; `command` starts it, and its output goes to `log`.
    pub(crate) fn new(
        name: impl Into<String>,
        log: Log,
        ready: Ready,
        command: impl Fn() -> Result<Command> + Send + Sync + 'static,
    ) -> Self {
        Server { name: name.into(), command: Box::new(command), ready, log, state: Mutex::default() }
    }

    /// Starts the process; returns when it is ready.
    pub(crate) fn start(&self) -> Result<()> {
        let from = self.begin()?;
        self.wait_ready(from)
    }

    /// Starts the process; returns the offset in the log at which its lines begin.
    pub(crate) fn begin(&self) -> Result<usize> {
        let from = self.log.len();
        let mut command = (self.command)()?;
        self.log.takes_output_of(&mut command)?;
        let process = Process::spawn(&self.name, command)
            .during(format_args!("start {} (is setpriv there? scripts/setup.sh)", self.name))?;
        *self.state() = State { process: Some(process), frozen: false };
        Ok(from)
    }

    /// Waits until the process is ready whose log begins at this offset.
    pub(crate) fn wait_ready(&self, from: usize) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        while !self.is_ready(from) {
            if let Some(status) = self.state().process.as_mut().and_then(Process::exit_status) {
                return Err(self.failed(&format!("it ended with {status} (is it installed? scripts/setup.sh)")));
            }
            if Instant::now() >= until {
                return Err(self.failed(&format!("it is not ready after {PATIENCE:?}")));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    fn is_ready(&self, from: usize) -> bool {
        match self.ready {
            Ready::Prints(text) => self.log.since(from).contains(text),
            Ready::Listens(port) => TcpStream::connect(("127.0.0.1", port)).is_ok(),
        }
    }

    /// The error of a start, with the end of the log.
    pub(crate) fn failed(&self, what: &str) -> Error {
        Error::new(format!("start {}: {what}. The end of its log:\n{}", self.name, self.log.tail(40)))
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(process) = &mut self.state().process {
            process.signal(signal);
        }
    }

    /// Suspends the server: its connections stay open, and it does not respond.
    pub fn freeze(&self) {
        let mut state = self.state();
        if let Some(process) = &mut state.process {
            process.freeze();
            state.frozen = true;
        }
    }

    /// Resumes a suspended server.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
        self.state().frozen = false;
    }

    /// Whether the server runs and is not suspended.
    pub fn answers(&self) -> bool {
        let mut state = self.state();
        !state.frozen && state.process.as_mut().is_some_and(|process| process.exit_status().is_none())
    }

    /// Kills the server with SIGKILL; returns when the process has ended.
    pub fn kill(&self) {
        self.state().process = None;
    }

    /// Stops the server gracefully.
    pub fn stop(&self) {
        let process = self.state().process.take();
        if let Some(mut process) = process {
            process.stop(STOP);
        }
    }

    /// Starts the server again with its data and ports, after a [`Server::kill`] if it still runs; returns when it is
    /// ready.
    pub fn restart(&self) -> Result<()> {
        self.kill();
        self.start()
    }

    /// The last lines of the log, for the message of a test that fails.
    pub fn log_tail(&self, lines: usize) -> String {
        self.log.tail(lines)
    }

    /// Resident memory in bytes; 0 if the server does not run.
    pub fn resident_memory(&self) -> u64 {
        self.state().process.as_mut().map_or(0, Process::resident_memory)
    }

    /// The process id, if the server runs.
    pub fn pid(&self) -> Option<u32> {
        self.state().process.as_ref().map(Process::pid)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // After a panic of a test that locked the state, it is unchanged.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("name", &self.name).field("pid", &self.pid()).finish_non_exhaustive()
    }
}

/// Prepares servers on free ports, and starts them; does both once more if another process took a port in between.
pub(crate) fn on_free_ports<T>(prepare: impl Fn() -> Result<T>, start: impl Fn(&T) -> Result<()>) -> Result<T> {
    let mut tries = 3;
    loop {
        tries -= 1;
        let prepared = prepare()?;
        let _boot = Boot::wait();
        match start(&prepared) {
            Ok(()) => return Ok(prepared),
            Err(e) if tries > 0 && TAKEN.iter().any(|text| e.to_string().contains(text)) => {}
            Err(e) => return Err(e),
        }
    }
}
