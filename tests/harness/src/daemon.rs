//! The daemon as its users run it: the built binary, a configuration file, signals, endpoints, output.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use delaybridge_ops::acl::AclPurpose;
use rustix::process::Signal;
use tempfile::TempDir;

use super::eventually::eventually;
use super::http::{self, Answer};
use super::least::{PASSWORD, confined};
use super::logs::{Lines, is_trouble};
use super::metrics::Metrics;
use brokers::ports::free_port;
use brokers::process::{Process, Usage, command};

/// The daemon that cargo built beside these tests, which are in the folder `deps`.
static BINARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let tests = std::env::current_exe().expect("the path of this test program");
    tests.parent().and_then(Path::parent).expect("a folder of cargo's").join("delaybridge")
});

/// Time-out for the daemon to be ready on a busy machine.
const START_DEADLINE: Duration = Duration::from_secs(20);

/// Time-out of an endpoint, which has a thread of its own.
const ANSWER_DEADLINE: Duration = Duration::from_secs(5);

/// A running daemon, killed by pid on drop.
///
/// The drop also fails the test if the log has a WARN or ERROR line that was not expected with
/// [`expect_log`](Daemon::expect_log).
pub struct Daemon {
    process: Process,
    http_port: u16,
    stdout: Lines,
    stderr: Lines,
    expected: Vec<String>,
    config: ConfigFile,
    /// The file that it was started with.
    file: PathBuf,
    /// The text that it waits for, and the pipe to write it to.
    held: Option<(std::fs::File, String)>,
}

/// A configuration in a directory of its own.
pub struct ConfigFile {
    dir: TempDir,
}

impl ConfigFile {
    /// Writes the text to `delaybridge.yaml`.
    pub fn new(yaml: &str) -> Self {
        let dir = TempDir::with_prefix("delaybridge-").expect("make a directory for the configuration");
        let file = ConfigFile { dir };
        file.write("delaybridge.yaml", yaml);
        file
    }

    /// The path of the configuration.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("delaybridge.yaml")
    }

    /// The path of a copy with the least rights for this purpose, in the same directory, because paths in it may be
    /// relative.
    pub fn confined(&self, purpose: AclPurpose) -> PathBuf {
        match confined(&self.path(), purpose) {
            Some(text) => self.write(&format!("{purpose:?}-delaybridge.yaml"), &text),
            None => self.path(),
        }
    }

    /// Writes another file into the same directory (passwords, certificates), and returns its path.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap_or_else(|e| panic!("write {}: {e}", path.display()));
        path
    }
}

/// A command of the binary with this configuration, with the least rights for it.
pub fn command_line(config: &ConfigFile, arguments: &[&str]) -> Command {
    let file = match arguments.first() {
        Some(&("check" | "run")) => config.confined(AclPurpose::Run),
        // It searches for keys that no configuration names yet.
        Some(&"discover") => config.path(),
        _ => config.confined(AclPurpose::Operator),
    };
    let mut command = Command::new(&*BINARY);
    command.args(arguments).env("DELAYBRIDGE_CONFIG", file).envs([PASSWORD]);
    command
}

/// Runs one command of the binary to its end, with this configuration.
pub fn cli(config: &ConfigFile, arguments: &[&str]) -> Output {
    command_line(config, arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|e| panic!("run {} {arguments:?}: {e}", BINARY.display()))
}

impl Daemon {
    /// Starts `run` with this configuration, and does not wait.
    ///
    /// The text has no `http:` section: one with a free port is added.
    pub fn spawn(yaml: &str) -> Self {
        Self::spawn_with(yaml, &[])
    }

    /// Like [`spawn`](Daemon::spawn), with more environment variables.
    pub fn spawn_with(yaml: &str, environment: &[(&str, &str)]) -> Self {
        Self::spawn_serving("", yaml, environment)
    }

    /// Like [`start`](Daemon::start), with the operators' listener; returns its port as well. Clients on this machine
    /// may do everything.
    pub async fn start_for_operators(yaml: &str) -> (Self, u16) {
        let port = free_port();
        (Self::start_for_operators_at(&format!("127.0.0.1:{port}"), yaml).await, port)
    }

    /// The same with this address for the operators' listener.
    pub async fn start_for_operators_at(listen: &str, yaml: &str) -> Self {
        Self::start_for_operators_with(&format!("listen: \"{listen}\""), yaml).await
    }

    /// The same with these keys of the operators' listener.
    pub async fn start_for_operators_with(keys: &str, yaml: &str) -> Self {
        let mut daemon = Self::spawn_serving(&format!(", admin: {{ {keys} }}"), yaml, &[]);
        daemon.wait_ready().await;
        daemon
    }

    /// Starts with further keys under `http`.
    fn spawn_serving(http: &str, yaml: &str, environment: &[(&str, &str)]) -> Self {
        let http_port = free_port();
        let config = ConfigFile::new(&format!("http: {{ listen: 127.0.0.1:{http_port}{http} }}\n{yaml}"));
        let file = config.confined(AclPurpose::Run);
        Self::spawn_from(config, file, http_port, environment)
    }

    /// Starts `run` with the configuration on standard input, and waits until `/readyz` reports ready.
    pub async fn start_by_standard_input(yaml: &str) -> Self {
        let http_port = free_port();
        let config = ConfigFile::new(&format!("http: {{ listen: 127.0.0.1:{http_port} }}\n{yaml}"));
        let mut daemon = Self::spawn_from(config, PathBuf::from("-"), http_port, &[]);
        daemon.wait_ready().await;
        daemon
    }

    /// Starts `run`, and returns while it reads its configuration, whose text it gets at [`release`](Daemon::release).
    pub fn spawn_held(yaml: &str) -> Self {
        let http_port = free_port();
        let config = ConfigFile::new(&format!("http: {{ listen: 127.0.0.1:{http_port} }}\n{yaml}"));
        let whole = config.confined(AclPurpose::Run);
        let text = std::fs::read_to_string(&whole).expect("read the configuration");
        let pipe = whole.with_extension("pipe");
        let made = Command::new("mkfifo").arg(&pipe).status().expect("run mkfifo");
        assert!(made.success(), "make a pipe for the configuration: {made}");
        let mut daemon = Self::spawn_from(config, pipe.clone(), http_port, &[]);
        // Returns when the daemon has opened it as well.
        let writer = std::fs::OpenOptions::new().write(true).open(&pipe).expect("open the pipe");
        // A later reading finds the whole file.
        std::fs::rename(&whole, &pipe).expect("put the file in the place of the pipe");
        daemon.held = Some((writer, text));
        daemon
    }

    /// Lets a daemon that was started by [`spawn_held`](Daemon::spawn_held) have its configuration.
    pub fn release(&mut self) {
        let (mut writer, text) = self.held.take().expect("it waits for its configuration");
        std::io::Write::write_all(&mut writer, text.as_bytes()).expect("write the configuration");
    }

    fn spawn_from(config: ConfigFile, file: PathBuf, http_port: u16, environment: &[(&str, &str)]) -> Self {
        let mut command = command(&*BINARY);
        command.arg("run").arg("--config").arg(&file).envs([PASSWORD]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).envs(environment.iter().copied());
        if file == Path::new("-") {
            let text = config.confined(AclPurpose::Run);
            command.stdin(std::fs::File::open(text).expect("open the configuration"));
        }
        let mut process =
            Process::spawn("delaybridge", command).unwrap_or_else(|e| panic!("spawn {}: {e}", BINARY.display()));
        let stdout = Lines::collect(process.child_mut().stdout.take().expect("stdout is piped"));
        let stderr = Lines::collect(process.child_mut().stderr.take().expect("stderr is piped"));
        Daemon { process, http_port, stdout, stderr, expected: Vec::new(), config, file, held: None }
    }

    /// Starts, and waits until `/readyz` reports ready.
    pub async fn start(yaml: &str) -> Self {
        let mut daemon = Self::spawn(yaml);
        daemon.wait_ready().await;
        daemon
    }

    /// Starts, and waits until the daemon has started; its sinks may be down.
    pub async fn start_with_sinks_down(yaml: &str) -> Self {
        let daemon = Self::spawn(yaml);
        eventually("the daemon to have started", START_DEADLINE, async || match daemon.get("/startupz").await {
            Ok(Answer { status: 200, .. }) => Ok(()),
            Ok(answer) => Err(format!("{} {}", answer.status, answer.body)),
            Err(e) => Err(e),
        })
        .await;
        daemon
    }

    /// Waits until `/readyz` reports ready.
    pub async fn wait_ready(&mut self) {
        eventually("the daemon to be ready", START_DEADLINE, async || {
            if let Some(status) = self.process.exit_status() {
                // A panic instead of an Err, because the daemon will not come back.
                panic!("the daemon ended with {status} before it was ready:\n{}", self.stderr.all().join("\n"));
            }
            match self.get("/readyz").await {
                Ok(Answer { status: 200, .. }) => Ok(()),
                Ok(answer) => Err(format!("{} {}", answer.status, answer.body)),
                Err(e) => Err(e),
            }
        })
        .await;
    }

    /// Requests one of the endpoints.
    pub async fn get(&self, path: &str) -> Result<Answer, String> {
        http::get(self.http_port, path, ANSWER_DEADLINE).await
    }

    /// The port of `/metrics` and the probes.
    pub fn http_port(&self) -> u16 {
        self.http_port
    }

    /// Scrapes the metrics.
    pub async fn metrics(&self) -> Metrics {
        let answer = self.get("/metrics").await.unwrap_or_else(|e| panic!("scrape the daemon: {e}"));
        assert_eq!(answer.status, 200, "scrape the daemon: {}", answer.body);
        Metrics::parse(&answer.body)
    }

    /// The sum of the series that match a selector such as `name{queue="q"}`.
    pub async fn metric(&self, selector: &str) -> f64 {
        self.metrics().await.sum(selector)
    }

    /// Sends a signal.
    pub fn signal(&mut self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Kills and reaps the process.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Waits for the end, and returns the exit code; panics with the log after `deadline`.
    pub async fn wait_exit(&mut self, deadline: Duration) -> i32 {
        let Some(status) = self.process.wait(deadline).await else {
            panic!("the daemon still runs after {deadline:?}:\n{}", self.stderr.all().join("\n"));
        };
        status.code().unwrap_or_else(|| panic!("the daemon was ended by a signal: {status}"))
    }

    /// Sends SIGTERM; returns the exit code.
    pub async fn stop(&mut self) -> i32 {
        self.signal(Signal::TERM);
        self.wait_exit(Duration::from_secs(40)).await
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Memory and CPU time.
    pub fn usage(&self) -> Usage {
        self.process.usage()
    }

    /// The lines of standard output.
    pub fn stdout(&self) -> &Lines {
        &self.stdout
    }

    /// The log lines.
    pub fn log(&self) -> &Lines {
        &self.stderr
    }

    /// The configuration, for further commands.
    pub fn config(&self) -> &ConfigFile {
        &self.config
    }

    /// The file that the daemon was started with, and reads on a reload.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Replaces that file by a changed one, as an editor does.
    pub fn rewrite(&self, change: impl FnOnce(String) -> String) {
        let text = std::fs::read_to_string(&self.file).expect("read the daemon's configuration");
        let beside = self.file.with_extension("new");
        std::fs::write(&beside, change(text)).expect("write the changed configuration");
        std::fs::rename(&beside, &self.file).expect("put it in place");
    }

    /// Runs a command of the binary with the daemon's own file, as its user would.
    pub fn beside(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(&*BINARY);
        command.args(arguments).arg("--config").arg(&self.file).envs([PASSWORD]).stdin(Stdio::null());
        command.output().unwrap_or_else(|e| panic!("run {} {arguments:?}: {e}", BINARY.display()))
    }

    /// Requests a reload with SIGHUP, and waits until it is over; returns whether it succeeded.
    pub async fn reload(&mut self) -> bool {
        let lines = self.stderr.count();
        self.signal(Signal::HUP);
        eventually("the reload to be over", START_DEADLINE, async || {
            let lines = self.stderr.since(lines);
            let said = |text: &str| lines.iter().any(|line| line.contains(text));
            match (said("configuration reloaded"), said("reload refused")) {
                (true, _) => Ok(true),
                (_, true) => Ok(false),
                _ => Err(format!("{lines:?}")),
            }
        })
        .await
    }

    /// Expects WARN and ERROR lines with this text.
    pub fn expect_log(&mut self, text: &str) -> &mut Self {
        self.expected.push(text.to_owned());
        self
    }

    /// The unexpected WARN and ERROR lines.
    pub fn unexpected_log_lines(&self) -> Vec<String> {
        // The look at the first elements meets what a test schedules right after the start; `delivery/codecs.rs` has its rules.
        let at_start = "scheduled elements are";
        let expected = |line: &String| line.contains(at_start) || self.expected.iter().any(|text| line.contains(text));
        self.stderr.all().into_iter().filter(|line| is_trouble(line) && !expected(line)).collect()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.process.kill();
        if std::thread::panicking() {
            let log = self.stderr.all();
            let tail = log.len().saturating_sub(60);
            println!("the daemon's last log lines:\n{}", log[tail..].join("\n"));
            return;
        }
        let unexpected = self.unexpected_log_lines();
        assert!(unexpected.is_empty(), "the daemon logged what the test did not expect: {}", unexpected.join("\n"));
    }
}
