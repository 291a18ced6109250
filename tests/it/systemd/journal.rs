//! The log lines of a daemon whose standard error is the journal.

use std::io::{BufRead, BufReader, PipeWriter};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};

use harness::daemon::ConfigFile;
use harness::ports::free_port;

/// The lines of a daemon with a wrong configuration.
fn ended_for(yaml: &str) -> Vec<String> {
    let config = ConfigFile::new(yaml);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut daemon = spawn(&config, "text", writer, 0);
    let lines = BufReader::new(reader).lines().map_while(Result::ok).collect();
    assert_eq!(daemon.wait().expect("the end of the daemon").code(), Some(2));
    lines
}

/// Starts a daemon with standard error as systemd gives it; the inode in its environment is greater by this.
fn spawn(config: &ConfigFile, format: &str, stderr: PipeWriter, moved: u64) -> Child {
    let handle = std::os::fd::OwnedFd::from(stderr.try_clone().expect("a second handle"));
    let stream = std::fs::File::from(handle).metadata().expect("its metadata");
    Command::new(env!("CARGO_BIN_EXE_delaybridge"))
        .args(["run", "--log-format", format, "--config"])
        .arg(config.path())
        .env("JOURNAL_STREAM", format!("{}:{}", stream.dev(), stream.ino() + moved))
        .stderr(stderr)
        .spawn()
        .expect("start the daemon")
}

/// The lines of a daemon that misses its Redis and is stopped then, with standard error as systemd gives it. With `moved`, the
/// environment speaks of another standard error.
fn lines(format: &str, moved: bool) -> Vec<String> {
    let yaml = format!("redis: {{ url: 'redis://127.0.0.1:{}' }}\nsinks: {{ out: {{ stdout: }} }}\n", free_port());
    let config = ConfigFile::new(&format!(
        "http: none\n{yaml}queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, to: [{{ sink: out }}] }} }}\n"
    ));
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut daemon = spawn(&config, format, writer, u64::from(moved));
    let mut lines = Vec::new();
    for line in BufReader::new(reader).lines().map_while(Result::ok) {
        if line.contains("cannot reach Redis") {
            let pid = Pid::from_child(&daemon);
            kill_process(pid, Signal::TERM).expect("stop the daemon");
        }
        lines.push(line);
    }
    daemon.wait().expect("the end of the daemon");
    lines
}

#[test]
fn each_line_has_its_level_in_front_where_standard_error_is_the_journal() {
    let levels = [("INFO", "<6>"), ("WARN", "<4>"), ("ERROR", "<3>")];
    for format in ["text", "json"] {
        let lines = lines(format, false);
        assert!(lines.len() >= 2, "{lines:?}");
        for line in &lines {
            let right = levels.iter().any(|(level, front)| line.starts_with(front) && line.contains(level));
            assert!(right, "{format}: {line}");
        }
    }
    // The reason why a daemon does not start has several lines, and was not logged.
    let ended = ended_for("redis: soon\n");
    assert!(ended.len() > 2 && ended.iter().all(|line| line.starts_with("<3>")), "{ended:?}");
    let lines = lines("text", true);
    assert!(!lines.is_empty() && lines.iter().all(|line| !line.starts_with('<')), "{lines:?}");
}
