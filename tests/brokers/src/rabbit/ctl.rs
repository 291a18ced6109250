//! Calls of `rabbitmqctl`. A call takes a second, mostly for the start of Erlang.

use super::Rabbit;
use crate::error::{Error, Result};
use crate::tool;

/// A queue as the node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// The name.
    pub name: String,
    /// Number of messages that wait for a consumer.
    pub ready: u64,
    /// Number of messages that a consumer has not acknowledged.
    pub unacknowledged: u64,
}

impl Rabbit {
    /// Runs `rabbitmqctl` with these arguments; returns its output.
    pub fn ctl(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.files.command("rabbitmqctl");
        command.args(["--silent", "--node", &self.files.node]).args(arguments);
        let name = format!("rabbitmqctl {}", arguments.first().unwrap_or(&""));
        tool::run(command, None, &name).map(|printed| String::from_utf8_lossy(&printed).into_owned())
    }

    /// Creates a vhost without any permissions.
    pub fn add_vhost(&self, vhost: &str) -> Result<()> {
        self.ctl(&["add_vhost", vhost]).map(drop)
    }

    /// Creates a user without any permissions.
    pub fn add_user(&self, user: &str, password: &str) -> Result<()> {
        self.ctl(&["add_user", user, password]).map(drop)
    }

    /// Sets the permissions of a user in a vhost: three regular expressions over names, for configure, write and read.
    pub fn set_permissions(&self, vhost: &str, user: &str, [configure, write, read]: [&str; 3]) -> Result<()> {
        self.ctl(&["set_permissions", "--vhost", vhost, user, configure, write, read]).map(drop)
    }

    /// Sets or clears the memory alarm, which blocks publishers.
    pub fn set_memory_alarm(&self, on: bool) -> Result<()> {
        // 0.4 of the machine is RabbitMQ's own default.
        self.ctl(&["set_vm_memory_high_watermark", if on { "0.000001" } else { "0.4" }]).map(drop)
    }

    /// Sets or clears the disk alarm, which blocks publishers.
    pub fn set_disk_alarm(&self, on: bool) -> Result<()> {
        self.ctl(&["set_disk_free_limit", if on { "900000GB" } else { "50MB" }]).map(drop)
    }

    /// Closes every connection, as an operator can; clients see `reason`.
    pub fn close_all_connections(&self, reason: &str) -> Result<()> {
        self.ctl(&["close_all_connections", "--global", reason]).map(drop)
    }

    /// Suspends or resumes the node's process of a quorum queue in the vhost `/`. To publishers this is a queue without
    /// a majority, on a healthy node.
    pub fn suspend_quorum_queue(&self, queue: &str, suspended: bool) -> Result<()> {
        let word = if suspended { "suspend" } else { "resume" };
        self.ctl(&["eval", &format!("sys:{word}(whereis('%2F_{queue}')).")]).map(drop)
    }

    /// Stops the broker but not Erlang: connections are closed properly, and new ones are refused.
    pub fn stop_app(&self) -> Result<()> {
        self.ctl(&["stop_app"]).map(drop)
    }

    /// Undoes [`Rabbit::stop_app`].
    pub fn start_app(&self) -> Result<()> {
        self.ctl(&["start_app"]).map(drop)
    }

    /// The queues of a vhost.
    pub fn queues(&self, vhost: &str) -> Result<Vec<Queue>> {
        let columns = ["name", "messages_ready", "messages_unacknowledged"];
        let printed = self.ctl(&[&["list_queues", "--vhost", vhost, "--no-table-headers"][..], &columns].concat())?;
        let odd = |line: &str| Error::new(format!("list queues: this line is not understood: {line}"));
        let queue = |line: &str| {
            let mut fields = line.split('\t');
            let queue = (fields.next(), number(fields.next()), number(fields.next()));
            let (Some(name), Some(ready), Some(unacknowledged)) = queue else { return Err(odd(line)) };
            Ok(Queue { name: name.to_owned(), ready, unacknowledged })
        };
        printed.lines().map(queue).collect()
    }

    /// Number of messages in a queue, including unacknowledged ones; `None` if the queue does not exist.
    pub fn queue_depth(&self, vhost: &str, queue: &str) -> Result<Option<u64>> {
        let found = self.queues(vhost)?.into_iter().find(|found| found.name == queue);
        Ok(found.map(|queue| queue.ready + queue.unacknowledged))
    }
}

fn number(text: Option<&str>) -> Option<u64> {
    text?.parse().ok()
}
