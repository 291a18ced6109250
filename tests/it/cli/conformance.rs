//! `conformance` as people call it; what the kit finds is tested in `tests/producers`.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{Answer, ask, config};
use harness::{RedisServer, eventually};

#[tokio::test]
async fn a_producer_that_says_nothing_is_told_so_and_the_statements_are_a_list() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let listed = ask(&config, "conformance --list --output json").json();
    assert_eq!(listed["statements"][0]["statement"], "K1", "{listed}");
    let line = |rest: &str| format!("conformance --redis-url {} {rest}", server.url());
    ask(&config, &line("-- true")).failed(1, &["ended with code 0 instead of answering `open`", "standard error"]);
    ask(&config, &line("--timeout 200ms -- sleep 60")).failed(1, &["did not answer `open`", "200ms"]);
    ask(&config, &line("-- echo ready")).failed(1, &["ready", "one JSON object a line"]);
    ask(&config, "conformance -- true").failed(2, &["--redis-url"]);
    ask(&config, &line("--username kit -- true")).failed(2, &["write the login into --redis-url"]);
    // Options of every command, in front of it.
    assert!(ask(&config, "--config nowhere.yaml conformance --list").well().starts_with("K1 "));
}

/// The daemon's binary in a folder of its own, without what is built beside it.
fn alone() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("make a directory");
    let program = folder.path().join("delaybridge");
    std::fs::hard_link(env!("CARGO_BIN_EXE_delaybridge"), &program).expect("link the binary");
    (folder, program)
}

fn list(program: &Path, path: &Path) -> Answer {
    let listed = Command::new(program).args(["conformance", "--list"]).env("PATH", path).output();
    Answer::of(listed.expect("start the binary"))
}

#[test]
fn the_program_is_found_in_the_path_too_and_said_to_be_missing_where_it_is_not() {
    let (folder, program) = alone();
    let error = list(&program, folder.path()).failed(1, &["find delaybridge-tools", "`make build`"]);
    assert!(error.contains(folder.path().to_str().expect("a path")), "{error}");
    let beside = Path::new(env!("CARGO_BIN_EXE_delaybridge-tools")).parent().expect("a directory");
    assert!(list(&program, beside).well().starts_with("K1 "));
}

#[tokio::test]
async fn a_signal_ends_it_as_any_program() {
    let server = RedisServer::start().await;
    let mut child = Command::new(env!("CARGO_BIN_EXE_delaybridge"))
        .args(["conformance", "--redis-url", &server.url(), "--", "sleep", "60"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("start the binary");
    let program = PathBuf::from(format!("/proc/{}/exe", child.id()));
    eventually("the process to be delaybridge-tools", Duration::from_secs(60), async || {
        match program.read_link().expect("read the name of the program") {
            name if name.ends_with("delaybridge-tools") => Ok(()),
            name => Err(name.display().to_string()),
        }
    })
    .await;
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid")).expect("a pid");
    kill_process(pid, Signal::TERM).expect("send SIGTERM");
    let status = child.wait().expect("wait for the command");
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()), "{status}");
}
