//! The command under test: one JSON object a line to its standard input, one line back for each.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use serde_json::{Map, Value};

/// A line that is longer is no answer of a producer.
const LONGEST_LINE: u64 = 64 << 20;

/// Bytes of an unreadable line that an error shows.
const SHOWN: usize = 200;

/// The time limit for the end of a command at the end of its input.
const TO_END: Duration = Duration::from_secs(5);

/// The command under test, running. It is killed when this is dropped.
#[derive(Debug)]
pub struct Producer {
    name: String,
    child: Child,
    /// A thread writes: a command that does not read must not hold up the time limit.
    to: Option<SyncSender<Vec<u8>>>,
    from: Receiver<Line>,
    asked: u64,
    limit: Duration,
}

type Line = std::io::Result<Option<Vec<u8>>>;

/// An answer of the command.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// `ok: true`, with the fields of the operation.
    Done(Map<String, Value>),
    /// `ok: false`, with its error.
    Refused(String),
    /// `ok: false`, because the producer does not have this.
    NotOffered,
}

/// The command broke the protocol, so that nothing can be said about the producer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The command did not start.
    #[error("start `{command}`: {error}; is the path right, and the file executable?")]
    Start {
        /// The command.
        command: String,
        /// The system's error.
        error: String,
    },
    /// The command ended.
    #[error("`{command}` ended with {status} instead of answering {to}; what it wrote to standard error may say why")]
    Ended {
        /// The command.
        command: String,
        /// The exit status.
        status: String,
        /// The operation that it should have answered.
        to: String,
    },
    /// The command did not answer in time.
    #[error("`{command}` did not answer {to} within {limit:?}; does it flush its output after each line?")]
    Silent {
        /// The command.
        command: String,
        /// The operation that it should have answered.
        to: String,
        /// The time limit.
        limit: Duration,
    },
    /// The command wrote something else than the answer.
    #[error(
        "`{command}` answered {to} with {line}: {why}; only answers may be on standard output, one JSON object a line"
    )]
    Garbage {
        /// The command.
        command: String,
        /// The operation that it should have answered.
        to: String,
        /// The beginning of the line.
        line: String,
        /// The problem with the line.
        why: String,
    },
}

impl Producer {
    /// Starts the command.
    pub fn start(command: &[OsString], limit: Duration) -> Result<Producer, Broken> {
        let name = command.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default();
        let failed = |error: String| Broken::Start { command: name.clone(), error };
        let program = command.first().ok_or_else(|| failed("no command was given".to_owned()))?;
        let mut child = Command::new(program)
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("it has no standard input or output".to_owned()));
        };
        let (to, lines) = sync_channel::<Vec<u8>>(1);
        std::thread::spawn(move || write_lines(stdin, &lines));
        let (lines, from) = sync_channel::<Line>(1);
        std::thread::spawn(move || read_lines(stdout, &lines));
        Ok(Producer { name, child, to: Some(to), from, asked: 0, limit })
    }

    /// Sends an operation and waits for its answer.
    pub fn ask(&mut self, mut operation: Value) -> Result<Answer, Broken> {
        self.asked += 1;
        let op = operation["op"].as_str().unwrap_or_default();
        let to = format!("`{op}` (n {})", self.asked);
        operation["n"] = self.asked.into();
        let mut line = operation.to_string().into_bytes();
        line.push(b'\n');
        // A command that ended closes its input: the end of its output says so below.
        let _ = self.to.as_ref().map(|sender| sender.try_send(line));
        let line = match self.from.recv_timeout(self.limit) {
            Ok(Ok(Some(line))) => line,
            Ok(Ok(None)) | Err(RecvTimeoutError::Disconnected) => return Err(self.ended(to)),
            Ok(Err(error)) => return Err(self.garbage(to, &[], error.to_string())),
            Err(RecvTimeoutError::Timeout) => {
                return Err(Broken::Silent { command: self.name.clone(), to, limit: self.limit });
            }
        };
        let answer = match serde_json::from_slice::<Value>(&line) {
            Ok(Value::Object(answer)) => answer,
            Ok(_) => return Err(self.garbage(to, &line, "no JSON object".to_owned())),
            Err(error) => return Err(self.garbage(to, &line, format!("no JSON ({error})"))),
        };
        if answer.get("n").and_then(Value::as_u64) != Some(self.asked) {
            return Err(self.garbage(to, &line, format!("its \"n\" is not {}", self.asked)));
        }
        match answer.get("ok") {
            Some(Value::Bool(true)) => Ok(Answer::Done(answer)),
            Some(Value::Bool(false)) if answer.get("unsupported") == Some(&Value::Bool(true)) => Ok(Answer::NotOffered),
            Some(Value::Bool(false)) => {
                Ok(Answer::Refused(answer.get("error").and_then(Value::as_str).unwrap_or("no error text").to_owned()))
            }
            _ => Err(self.garbage(to, &line, "its \"ok\" is neither true nor false".to_owned())),
        }
    }

    /// Closes the command's input and waits for its end, which should be with code 0.
    ///
    /// # Errors
    ///
    /// [`Broken::Silent`] if it does not end, [`Broken::Ended`] with another code.
    pub fn end(mut self) -> Result<(), Broken> {
        self.to = None;
        let to = "the end of its input".to_owned();
        let mut waited = Duration::ZERO;
        while waited < TO_END {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => {
                    return Err(Broken::Ended { command: self.name.clone(), status: in_words(status), to });
                }
                Ok(None) | Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
            waited += Duration::from_millis(5);
        }
        Err(Broken::Silent { command: self.name.clone(), to, limit: TO_END })
    }

    fn ended(&mut self, to: String) -> Broken {
        // Its output is closed; its end follows at once, unless it closed the output alone.
        let mut status = None;
        for _ in 0..200 {
            status = self.child.try_wait().ok().flatten();
            if status.is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = status.map_or_else(|| "its output closed".to_owned(), in_words);
        Broken::Ended { command: self.name.clone(), status, to }
    }

    fn garbage(&self, to: String, line: &[u8], why: String) -> Broken {
        let shown = String::from_utf8_lossy(&line[..line.len().min(SHOWN)]).into_owned();
        let cut = if line.len() > SHOWN { "..." } else { "" };
        Broken::Garbage { command: self.name.clone(), to, line: format!("{shown:?}{cut}"), why }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.to = None;
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn in_words(status: ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| format!("code {code}"))
}

fn write_lines(mut stdin: impl Write, lines: &Receiver<Vec<u8>>) {
    while let Ok(line) = lines.recv() {
        if stdin.write_all(&line).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

fn read_lines(stdout: impl Read, lines: &SyncSender<Line>) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        let read = (&mut stdout).take(LONGEST_LINE).read_until(b'\n', &mut line);
        let line = match read {
            Ok(_) if line.len() as u64 == LONGEST_LINE => Err(std::io::Error::other("a line of more than 64 MiB")),
            Ok(0) => Ok(None),
            Ok(_) => Ok(Some(line)),
            Err(error) => Err(error),
        };
        let last = !matches!(line, Ok(Some(_)));
        if lines.send(line).is_err() || last {
            return;
        }
    }
}
