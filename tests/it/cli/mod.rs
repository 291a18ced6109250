//! The command line as people use it: the built binary, a real Redis, exit codes and messages.

mod access;
mod bench;
mod check;
mod conformance;
mod dead;
mod decode;
mod deep;
mod elements;
mod fsck;
mod interrupt;
mod json;
mod letters;
mod one;
mod recover;
mod standard_input;
mod words;

use std::io::Write;
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use harness::RedisServer;
use harness::daemon::{ConfigFile, cli, command_line};

/// Time-out of a step on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A configuration with the queues `texts` (string), `docs` (json) and `bytes` (raw) on this server.
fn config(server: &RedisServer) -> ConfigFile {
    ConfigFile::new(&yaml(&server.url()))
}

fn yaml(url: &str) -> String {
    let queue = |id: &str, codec: &str| {
        format!(
            "  {id}:\n    source: {{ redisson: {{ name: \"app:{id}\" }} }}\n    codec: {codec}\n    to: [{{ sink: out }}]\n"
        )
    };
    format!(
        "http: none\nredis: {{ url: {url}, connect_timeout: 60s, command_timeout: 60s }}\nsinks: {{ out: {{ redis: {{ list: done }} }} }}\nqueues:\n{}{}{}",
        queue("texts", "string"),
        queue("docs", "json"),
        queue("bytes", "raw"),
    )
}

/// The result of one command.
struct Answer {
    code: i32,
    out: String,
    err: String,
}

impl Answer {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the command line writes UTF-8");
        Answer { code: output.status.code().expect("an exit code"), out: text(output.stdout), err: text(output.stderr) }
    }

    /// The output of a command that must succeed.
    #[track_caller]
    fn well(self) -> String {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        assert_eq!(self.err, "");
        self.out
    }

    #[track_caller]
    fn json(self) -> Value {
        serde_json::from_str(&self.well()).expect("one JSON document")
    }

    /// The standard error of a command that must fail with this exit code and these words.
    #[track_caller]
    fn failed(self, code: i32, words: &[&str]) -> String {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        for word in words {
            assert!(self.err.contains(word), "{word} in: {}", self.err);
        }
        self.err
    }
}

fn ask(config: &ConfigFile, line: &str) -> Answer {
    Answer::of(cli(config, &line.split(' ').collect::<Vec<_>>()))
}

/// Runs a command with this standard input.
fn ask_with(config: &ConfigFile, line: &str, input: &[u8]) -> Answer {
    let mut child = command_line(config, &line.split(' ').collect::<Vec<_>>())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start the binary");
    child.stdin.take().expect("a pipe").write_all(input).expect("write to the command");
    Answer::of(child.wait_with_output().expect("wait for the command"))
}

/// A configuration with the default user of the server with this URL, who may do everything with any password.
fn as_default_user(url: &str) -> ConfigFile {
    ConfigFile::new(&yaml(&url.replace("redis://", "redis://default:any@")))
}

/// Sends a signal to a command.
fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid")).expect("a pid");
    kill_process(pid, signal).expect("send the signal");
}

/// Waits for the end of a command.
async fn end(child: Child) -> Answer {
    let ended = tokio::task::spawn_blocking(|| child.wait_with_output());
    let ended = tokio::time::timeout(PATIENCE, ended).await.expect("the command ends");
    Answer::of(ended.expect("wait for the command").expect("wait for the command"))
}
