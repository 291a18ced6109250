//! One broker process with its folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::Volume;
use super::java::{Java, Role};
use super::properties::{Ports, SCRAM, USERS};
use crate::cache;
use crate::error::{During, Error, Result};
use crate::log::Log;
use crate::process::{self, LOOK, Process};
use crate::tool::run;

/// The cluster id, the same for all clusters, so that a formatted folder fits each of them.
const CLUSTER_ID: &str = "ZGVsYXlicmlkZ2UtdGVzdA";
/// The line that a node logs when it is ready.
const READY: &str = "Kafka Server started";
/// Time-out of a start: a hundred times its duration on an idle machine.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(super) struct Node {
    pub(super) id: usize,
    pub(super) ports: Ports,
    folder: PathBuf,
    process: Option<Process>,
    frozen: bool,
    log: Log,
    /// Offset in the log at which the present run begins.
    log_from: usize,
    /// The command prefix that makes the data visible to the node.
    enter: Vec<String>,
}

impl Node {
    /// A node to start; `folder` contains its `server.properties`, and gets its data.
    pub(super) fn new(id: usize, ports: Ports, folder: PathBuf) -> Self {
        let log = Log::new(folder.join("log"));
        Node { id, ports, folder, process: None, frozen: false, log, log_from: 0, enter: Vec::new() }
    }

    pub(super) fn properties(folder: &Path) -> PathBuf {
        folder.join("server.properties")
    }

    pub(super) fn data(folder: &Path) -> PathBuf {
        folder.join("data")
    }

    /// Creates the data folder that the first start requires, from a copy of one that Kafka has formatted.
    pub(super) fn format(&self, java: &Java, log4j: &Path, controller: bool) -> Result<()> {
        let role = if controller { "controller" } else { "broker" };
        let template = java.folder.join(format!("formatted-{role}-{}", self.id));
        let data = Self::data(&self.folder);
        cache::once(&template, |template| {
            let mut command = java.command(Role::Tool, log4j, "kafka.tools.StorageTool");
            command.args(["format", "--cluster-id", CLUSTER_ID, "--config"]).arg(Self::properties(&self.folder));
            for (mechanism, (user, password)) in SCRAM.iter().flat_map(|m| USERS.map(|user| (m, user))) {
                command.arg("--add-scram").arg(format!("{mechanism}=[name={user},password={password}]"));
            }
            let output = command.output().during("start Kafka's storage tool")?;
            if !output.status.success() {
                let said = [output.stdout, output.stderr].concat();
                return Err(Error::new(format!("format {}: {}", data.display(), String::from_utf8_lossy(&said))));
            }
            copy_files(&data, template)
        })?;
        if data.exists() { Ok(()) } else { copy_files(&template, &data) }
    }

    /// Moves the formatted data to a file system of its own.
    pub(super) fn on(mut self, volume: &Volume) -> Result<Self> {
        let file = Self::properties(&self.folder);
        let lines = fs::read_to_string(&file).during(format_args!("read {}", file.display()))?;
        // Of two lines with the same name, the later one applies.
        let lines = format!("{lines}log.dirs={}\n", volume.path.display());
        fs::write(&file, lines).during(format_args!("write {}", file.display()))?;
        self.enter.clone_from(&volume.enter);
        let mut copy = process::command("cp");
        copy.arg("-r").arg(Self::data(&self.folder).join(".")).arg(&volume.path);
        run(self.behind(copy), None, "cp")?;
        Ok(self)
    }

    /// Wraps a command so that it sees the node's files, and ends with this process.
    fn behind(&self, command: Command) -> Command {
        let Some((program, arguments)) = self.enter.split_first() else { return command };
        let mut behind = process::command(program);
        behind.args(arguments).arg("--").arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => behind.env(name, value),
                None => behind.env_remove(name),
            };
        }
        behind
    }

    /// Starts the process. [`Node::wait_ready`] waits for it, so the nodes of a cluster start in parallel.
    pub(super) fn launch(&mut self, command: Command) -> Result<()> {
        let mut command = self.behind(command);
        self.log_from = self.log.len();
        self.log.takes_output_of(&mut command)?;
        command.arg(Self::properties(&self.folder));
        self.process =
            Some(Process::spawn("Kafka", command).during("start Kafka (is setpriv there? scripts/setup.sh kafka)")?);
        self.frozen = false;
        Ok(())
    }

    pub(super) fn wait_ready(&mut self) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            if self.log.since(self.log_from).contains(READY) {
                return Ok(());
            }
            if let Some(status) = self.process.as_mut().and_then(Process::exit_status) {
                return Err(self.failed(&format!("it ended with {status}")));
            }
            if Instant::now() >= until {
                return Err(self.failed(&format!("it is not ready after {PATIENCE:?}")));
            }
            thread::sleep(LOOK);
        }
    }

    fn failed(&self, what: &str) -> Error {
        Error::new(format!("start node {} of Kafka: {what}. The end of its log:\n{}", self.id, self.log_tail(30)))
    }

    /// Whether the node runs and is not suspended.
    pub(super) fn answers(&mut self) -> bool {
        !self.frozen && self.process.as_mut().is_some_and(|process| process.exit_status().is_none())
    }

    pub(super) fn freeze(&mut self) {
        if let Some(process) = &mut self.process {
            process.freeze();
            self.frozen = true;
        }
    }

    pub(super) fn thaw(&mut self) {
        if let Some(process) = &mut self.process {
            process.signal(Signal::CONT);
            self.frozen = false;
        }
    }

    pub(super) fn kill(&mut self) {
        self.process = None;
    }

    pub(super) fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Without its quorum a node waits for ever.
            process.stop(Duration::from_secs(20));
        }
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    pub(super) fn resident_memory(&mut self) -> u64 {
        self.process.as_mut().map_or(0, Process::resident_memory)
    }

    pub(super) fn log_tail(&self, lines: usize) -> String {
        self.log.tail(lines)
    }
}

/// Copies a folder that contains only files.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).during(format_args!("create {}", to.display()))?;
    for entry in fs::read_dir(from).during(format_args!("list {}", from.display()))? {
        let entry = entry.during(format_args!("list {}", from.display()))?;
        let source = entry.path();
        fs::copy(&source, to.join(entry.file_name())).during(format_args!("copy {}", source.display()))?;
    }
    Ok(())
}
