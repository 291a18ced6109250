//! Administration of a node: Erlang that the node evaluates. `rabbitmqctl` does the same, and takes a second of a
//! processor to start Erlang; `erl_call` takes 10 ms.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::Rabbit;
use crate::artemis::decoded;
use crate::error::{Error, Result};
use crate::process;
use crate::tool;

/// The time for what is evaluated again.
const PATIENCE: Duration = Duration::from_secs(60);

/// The user in RabbitMQ's log of changes.
const ACTOR: &str = r#"<<"tests">>"#;

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
    /// Evaluates an Erlang expression in the node; returns its value as Erlang prints it, in one line.
    pub fn eval(&self, expression: &str) -> Result<String> {
        self.text(&format!(r#"io_lib:format("~0tp", [begin {expression} end])"#))
    }

    fn text(&self, expression: &str) -> Result<String> {
        static CALLS: AtomicU32 = AtomicU32::new(0);
        let mut command = process::command("erl_call");
        // The node refuses a second one of the same name at the same time.
        let name = format!("tests{}x{}", std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed));
        let address = format!("127.0.0.1:{}", self.files.ports.node);
        command.env("HOME", self.folder()).args(["-h", &name, "-address", &address, "-e"]);
        // Base64, because `erl_call` escapes what it prints.
        let input = format!("base64:encode_to_string(unicode:characters_to_binary({expression})).\n");
        let printed = tool::run(command, Some(input), "erl_call")?;
        let printed = String::from_utf8_lossy(&printed);
        let value = printed.trim().strip_prefix("{ok, ").and_then(|rest| rest.strip_suffix('}'));
        // An empty text is an empty list.
        let value = value.map(|value| if value == "[]" { "" } else { value.trim_matches('"') });
        let text = value.and_then(decoded).and_then(|bytes| String::from_utf8(bytes).ok());
        text.ok_or_else(|| Error::new(format!("evaluate {expression} in RabbitMQ: {printed}")))
    }

    /// Creates a vhost without any permissions.
    pub fn add_vhost(&self, vhost: &str) -> Result<()> {
        self.eval(&format!("ok = rabbit_vhost:add({}, {ACTOR})", binary(vhost))).map(drop)
    }

    /// Creates a user without any permissions.
    pub fn add_user(&self, user: &str, password: &str) -> Result<()> {
        let [user, password] = [user, password].map(binary);
        self.eval(&format!("ok = rabbit_auth_backend_internal:add_user({user}, {password}, {ACTOR})")).map(drop)
    }

    /// Sets the permissions of a user in a vhost: three regular expressions over names, for configure, write and read.
    pub fn set_permissions(&self, vhost: &str, user: &str, patterns: [&str; 3]) -> Result<()> {
        let [vhost, user] = [vhost, user].map(binary);
        let patterns = patterns.map(binary).join(", ");
        let set = "rabbit_auth_backend_internal:set_permissions";
        self.eval(&format!("ok = {set}({user}, {vhost}, {patterns}, {ACTOR})")).map(drop)
    }

    /// Sets the permissions of a user for the topics of an exchange in the vhost `/`: two regular expressions over
    /// routing keys, for write and read.
    pub fn set_topic_permissions(&self, user: &str, exchange: &str, patterns: [&str; 2]) -> Result<()> {
        let [user, exchange] = [user, exchange].map(binary);
        let patterns = patterns.map(binary).join(", ");
        let set = "rabbit_auth_backend_internal:set_topic_permissions";
        self.eval(&format!(r#"ok = {set}({user}, <<"/">>, {exchange}, {patterns}, {ACTOR})"#)).map(drop)
    }

    /// Sets or clears the memory alarm, which blocks publishers.
    pub fn set_memory_alarm(&self, on: bool) -> Result<()> {
        // 0.4 of the machine is RabbitMQ's own default.
        let share = if on { "0.000001" } else { "0.4" };
        self.eval_patiently(&format!("ok = vm_memory_monitor:set_vm_memory_high_watermark({share})"))
    }

    /// Sets or clears the disk alarm, which blocks publishers.
    pub fn set_disk_alarm(&self, on: bool) -> Result<()> {
        let limit = if on { "900000GB" } else { "50MB" };
        self.eval_patiently(&format!(r#"ok = rabbit_disk_monitor:set_disk_free_limit("{limit}")"#))
    }

    /// Evaluates what may be evaluated twice, again while the process that is asked does not answer within the 5 s of Erlang's calls:
    /// the one that watches the disk runs `df`, which takes its time on a busy one.
    fn eval_patiently(&self, expression: &str) -> Result<()> {
        let begun = Instant::now();
        loop {
            match self.eval(expression) {
                Err(error) if error.to_string().contains("{timeout,") && begun.elapsed() < PATIENCE => {}
                done => return done.map(drop),
            }
        }
    }

    /// Closes every connection, as an operator can; clients see `reason`.
    pub fn close_all_connections(&self, reason: &str) -> Result<()> {
        let close = format!("rabbit_networking:close_connection(Pid, {reason:?})");
        self.eval(&format!("[catch {close} || Pid <- rabbit_networking:connections()]")).map(drop)
    }

    /// Suspends or resumes the node's process of a quorum queue in the vhost `/`. To publishers this is a queue without
    /// a majority, on a healthy node.
    pub fn suspend_quorum_queue(&self, queue: &str, suspended: bool) -> Result<()> {
        let word = if suspended { "suspend" } else { "resume" };
        self.eval(&format!("sys:{word}(whereis('%2F_{queue}'))")).map(drop)
    }

    /// Stops the broker but not Erlang: connections are closed properly, and new ones are refused.
    pub fn stop_app(&self) -> Result<()> {
        self.eval("ok = rabbit:stop()").map(drop)
    }

    /// Undoes [`Rabbit::stop_app`].
    pub fn start_app(&self) -> Result<()> {
        self.eval("ok = rabbit:start()").map(drop)
    }

    /// The queues of a vhost.
    pub fn queues(&self, vhost: &str) -> Result<Vec<Queue>> {
        let list = format!(
            r#"[io_lib:format("~ts\t~b\t~b\n", [Name, Ready, Unacknowledged]) ||
                [{{name, {{resource, _, queue, Name}}}}, {{messages_ready, Ready}}, {{messages_unacknowledged, Unacknowledged}}]
                <- rabbit_amqqueue:info_all({}, [name, messages_ready, messages_unacknowledged])]"#,
            binary(vhost)
        );
        let printed = self.text(&list)?;
        let queue = |line: &str| {
            let mut fields = line.split('\t');
            let queue = (fields.next(), number(fields.next()), number(fields.next()));
            let (Some(name), Some(ready), Some(unacknowledged)) = queue else {
                return Err(Error::new(format!("list queues: this line is not understood: {line}")));
            };
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

fn binary(text: &str) -> String {
    format!("<<{text:?}/utf8>>")
}

fn number(text: Option<&str>) -> Option<u64> {
    text?.parse().ok()
}
