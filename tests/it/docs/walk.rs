//! A page as its reader follows it: its files in an empty directory, its commands in a shell, one after the other, with
//! a Redis of their own.

use std::collections::VecDeque;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use super::page::{Remark, blocks};
use super::read;
use crate::delivery::PATIENCE;
use harness::logs::Lines;
use harness::ports::free_port;
use harness::process::{Process, command};
use harness::{RedisServer, eventually};

/// The Redis that the pages name.
const NAMED: &str = "redis://127.0.0.1:6379";
/// The address of the job queue that the pages name.
const API: &str = "127.0.0.1:7777";
/// The Kafka that the pages name.
pub const KAFKA: &str = "127.0.0.1:9092";
/// The RabbitMQ that the pages name.
pub const RABBIT: &str = "127.0.0.1:5672";

/// The real addresses for those in the pages.
struct Named(Vec<(&'static str, String)>);

impl Named {
    fn replaced(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (named, real)| text.replace(named, real))
    }
}

/// A reader on the way through a page.
pub struct Walk {
    page: &'static str,
    directory: TempDir,
    /// The real addresses for those in the pages.
    named: Named,
    /// The server, which ends with this value.
    pub server: RedisServer,
    /// The remaining commands, in order.
    left: VecDeque<String>,
    /// The running processes, with their output.
    running: Vec<(Process, Lines)>,
}

impl Walk {
    /// Writes the files of the page, and a `redis-cli` that finds the server.
    pub async fn new(page: &'static str) -> Walk {
        Walk::with(page, &[]).await
    }

    /// The same with further servers: the address on the page, and the real one.
    pub async fn with(page: &'static str, servers: &[(&'static str, String)]) -> Walk {
        let server = RedisServer::start().await;
        let directory = TempDir::with_prefix("delaybridge-page-").expect("make a directory for a page");
        let own =
            [(NAMED, server.url().trim_end_matches("/0").to_owned()), (API, format!("127.0.0.1:{}", free_port()))];
        let named = Named(own.into_iter().chain(servers.iter().cloned()).collect());
        let text = read(page);
        let mut left = VecDeque::new();
        for block in blocks(&text) {
            if block.is_to_be_run() {
                left.extend(block.text.lines().map(str::to_owned));
            } else if let (Some(name), Some(Remark::Cases)) = (block.file(), &block.remark) {
                std::fs::write(directory.path().join(name), &block.text).expect("write a file of the page");
            } else if let ("yaml", Some(name)) = (block.kind.as_str(), block.file()) {
                let beside = if let Some(Remark::Beside(yaml)) = &block.remark { yaml } else { "" };
                let text = named.replaced(&format!("{}{beside}\n", block.text));
                // The default port of the probes would conflict with other daemons on this machine.
                std::fs::write(directory.path().join(name), format!("http: none\n{text}"))
                    .expect("write a file of the page");
            }
        }
        let wrapper = directory.path().join("redis-cli");
        let script =
            format!("#!/bin/sh\nexec \"$(PATH=$PATH_OF_REDIS command -v redis-cli)\" -p {} \"$@\"\n", server.port());
        std::fs::write(&wrapper, script).expect("write redis-cli");
        std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).expect("let redis-cli be run");
        Walk { page, directory, named, server, left, running: Vec::new() }
    }

    fn shell(&self, line: &str, mut shell: Command) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let binary = Path::new(env!("CARGO_BIN_EXE_delaybridge")).parent().expect("a directory");
        shell.args(["-e", "-c", &self.named.replaced(line)]).current_dir(self.directory.path());
        shell.env("PATH", format!("{}:{}:{path}", self.directory.path().display(), binary.display()));
        shell.env("PATH_OF_REDIS", path).stdin(Stdio::null());
        shell
    }

    /// A file that a command has written.
    pub fn file(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    /// Runs a command that is not on the page.
    #[track_caller]
    pub fn aside(&self, line: &str) -> String {
        let output = self.shell(line, Command::new("sh")).output().expect("run a shell");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let out = text(&output.stdout);
        let err = text(&output.stderr);
        assert!(output.status.success(), "{}: {line}: {out}{err}", self.page);
        out
    }

    /// Runs the page's commands up to and including the next one with this beginning; returns the output of that one. A
    /// daemon is left running.
    #[track_caller]
    pub fn until(&mut self, beginning: &str) -> String {
        loop {
            let line = self.left.pop_front().unwrap_or_else(|| panic!("{}: no command `{beginning}`", self.page));
            let shown = if line.starts_with("delaybridge run") {
                self.leave_running(&line);
                String::new()
            } else {
                self.aside(&line)
            };
            if line.starts_with(beginning) {
                return shown;
            }
        }
    }

    /// Runs the page's commands up to the next one with this beginning, and repeats that one until it shows this text,
    /// because its output may be delayed.
    pub async fn until_shown(&mut self, beginning: &str, text: &str) {
        while self.left.front().is_some_and(|line| !line.starts_with(beginning)) {
            let line = self.left.front().cloned().unwrap_or_default();
            self.until(&line);
        }
        let line = self.left.pop_front().unwrap_or_else(|| panic!("{}: no command `{beginning}`", self.page));
        eventually(&format!("`{text}` of {line}"), PATIENCE, async || {
            let shown = self.aside(&line);
            if shown.contains(text) { Ok(()) } else { Err(shown) }
        })
        .await;
    }

    /// Runs the page's commands up to the next one with this beginning, and repeats that one until it succeeds, as a reader does whom
    /// it asks to wait.
    pub async fn until_done(&mut self, beginning: &str) {
        while self.left.front().is_some_and(|line| !line.starts_with(beginning)) {
            let line = self.left.front().cloned().unwrap_or_default();
            self.until(&line);
        }
        let line = self.left.pop_front().unwrap_or_else(|| panic!("{}: no command `{beginning}`", self.page));
        eventually(&format!("{line} to succeed"), PATIENCE, async || {
            let output = self.shell(&line, Command::new("sh")).output().expect("run a shell");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() { Ok(()) } else { Err(said) }
        })
        .await;
    }

    /// Links a program or a folder of the repository into the reader's directory.
    pub fn link(&self, name: &str, to: &Path) {
        std::os::unix::fs::symlink(to, self.directory.path().join(name)).expect("make a link");
    }

    fn leave_running(&mut self, line: &str) {
        let mut shell = self.shell(&format!("exec {line}"), command("sh"));
        shell.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Process::spawn(line, shell).expect("start a shell");
        let lines = Lines::collect(process.child_mut().stdout.take().expect("stdout is piped"));
        self.running.push((process, lines));
    }

    /// Waits until a running process has written this to its standard output.
    pub async fn appears(&self, text: &str) {
        eventually(&format!("`{text}` in a terminal"), PATIENCE, async || {
            let all: Vec<_> = self.running.iter().flat_map(|(_, lines)| lines.all()).collect();
            if all.iter().any(|line| line.contains(text)) { Ok(()) } else { Err(all.join("\n")) }
        })
        .await;
    }

    /// Kills the running processes.
    pub async fn kill(&mut self) {
        for (process, _) in &mut self.running {
            process.signal(Signal::KILL);
            assert!(process.wait(PATIENCE).await.is_some(), "{}: a killed process runs", self.page);
        }
        self.running.clear();
    }

    /// Runs the rest of the page, and ends the running processes with Ctrl-C.
    pub async fn ends(mut self) {
        while let Some(line) = self.left.pop_front() {
            self.aside(&line);
        }
        self.stop().await;
    }

    /// Ends the running processes with Ctrl-C.
    pub async fn stop(&mut self) {
        for (process, lines) in &mut self.running {
            process.signal(Signal::INT);
            let status = process.wait(Duration::from_secs(40)).await;
            assert!(status.is_some_and(|status| status.success()), "{}: {status:?}: {:?}", self.page, lines.all());
        }
        self.running.clear();
    }
}
