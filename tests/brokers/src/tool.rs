//! Runs of a broker's command-line tools.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::error::{During, Error, Result};
use crate::process::Process;

/// Time-out: long for every tool on every machine; a request to a suspended server would never end.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs a tool to its end; returns its output.
pub(crate) fn run(mut command: Command, input: Option<String>, name: &str) -> Result<Vec<u8>> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    if input.is_some() {
        command.stdin(Stdio::piped());
    }
    let mut process = Process::spawn(name, command).during(format_args!("start {name}"))?;
    let child = process.child_mut();
    let stdin = child.stdin.take();
    let stdout = child.stdout.take().expect("piped");
    let stderr = child.stderr.take().expect("piped");
    // All pipes concurrently: a tool that blocks on one of them would never end.
    let (status, printed, complained) = thread::scope(|scope| {
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            // The output of a tool that ends early says why.
            scope.spawn(move || drop(stdin.write_all(input.as_bytes())));
        }
        let printed = scope.spawn(|| read(stdout));
        let complained = scope.spawn(|| read(stderr));
        let status = process.wait_blocking(PATIENCE);
        // Killing the process closes the pipes, for which the readers wait.
        process.kill();
        (status, printed.join().expect("reading does not panic"), complained.join().expect("reading does not panic"))
    });
    if status.is_some_and(|status| status.success()) {
        return Ok(printed);
    }
    let how = status.map_or_else(|| format!("it still ran after {PATIENCE:?}"), |status| status.to_string());
    let said = [complained, printed].concat();
    Err(Error::new(format!("run {name}: {how}: {}", String::from_utf8_lossy(&said))))
}

fn read(mut from: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    // After an error, return the output so far.
    let _ = from.read_to_end(&mut bytes);
    bytes
}
