//! A command line tool of a broker: runs to its end, and what it printed comes back.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::error::{During, Error, Result};
use crate::process::Process;

/// Long for every tool, on every machine; one that asks a frozen server would never end.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs a tool to its end and returns what it printed.
pub(crate) fn run(mut command: Command, input: Option<String>, name: &str) -> Result<Vec<u8>> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    if input.is_some() {
        command.stdin(Stdio::piped());
    }
    let mut process = Process::spawn(name, command).during(format_args!("start {name}"))?;
    let child = process.child_mut();
    let stdin = child.stdin.take();
    let (stdout, stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    // All pipes at once: a tool that waits for one of them would wait for ever.
    let (status, printed, complained) = thread::scope(|scope| {
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            // A tool that ends early says why on its output.
            scope.spawn(move || drop(stdin.write_all(input.as_bytes())));
        }
        let printed = scope.spawn(|| read(stdout));
        let complained = scope.spawn(|| read(stderr));
        let status = process.wait_blocking(PATIENCE);
        // Closes the pipes, for which the readers wait.
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
    // What came before an error is all that there is to say.
    let _ = from.read_to_end(&mut bytes);
    bytes
}
