//! A Java program with Redisson and Kafka's own client, which users run instead of or beside the daemon.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::sync::oneshot;

use harness::logs::Lines;
use harness::process::Process;

/// The version of Redisson: the newest that setup installs.
pub const REDISSON: &str = "4.7.0";

/// A running program of `peers/Peer.java`; its Redisson client lives until it is dropped.
pub struct Peer {
    /// The process, for its usage.
    pub process: Process,
    complaints: Lines,
    answer: oneshot::Receiver<String>,
}

/// The result that the program prints.
#[derive(Debug, Clone, Copy)]
pub struct Done {
    /// Number of offered elements, or of acknowledged records.
    pub count: usize,
    /// The duration in seconds, without the start of the virtual machine.
    pub seconds: f64,
    /// The CPU time in that duration, in seconds.
    pub cpu: f64,
}

impl Peer {
    /// Starts the program with these arguments; blocks while it is compiled for the first time.
    pub fn spawn(arguments: &[&str]) -> Result<Self> {
        let source = include_str!("peers/Peer.java");
        let mut command = brokers::redisson::beside_kafka(REDISSON, "Peer", source).map_err(anyhow::Error::msg)?;
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process::spawn("Peer", command).context("start the Java program")?;
        let child = process.child_mut();
        let output = child.stdout.take().context("take what the Java program says")?;
        let complaints = Lines::collect(child.stderr.take().context("take what the Java program complains of")?);
        let (sender, answer) = oneshot::channel();
        std::thread::spawn(move || {
            let line = BufReader::new(output).lines().map_while(Result::ok).find(|line| line.starts_with('{'));
            // Without a line the sender is dropped, and the receiver reports an error.
            line.map(|line| sender.send(line))
        });
        Ok(Peer { process, complaints, answer })
    }

    /// Waits for the result.
    pub async fn done(&mut self, patience: Duration) -> Result<Done> {
        let said = || self.complaints.all().join("\n");
        let line = match tokio::time::timeout(patience, &mut self.answer).await {
            Ok(Ok(line)) => line,
            Ok(Err(_)) => bail!("the Java program ended: {}", said()),
            Err(_) => bail!("the Java program is not done after {patience:?}: {}", said()),
        };
        let answer: Value = serde_json::from_str(&line).with_context(|| format!("read {line}"))?;
        let number = |name: &str| answer[name].as_f64().with_context(|| format!("find {name} in {line}"));
        if number("failed")? > 0.0 {
            bail!("the Java program failed with some: {line}: {}", said());
        }
        Ok(Done { count: number("done")? as usize, seconds: number("seconds")?, cpu: number("cpu")? })
    }
}
