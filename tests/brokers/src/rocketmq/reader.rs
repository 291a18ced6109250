//! Messages as RocketMQ's own client for Java reads them.

use super::RocketMqMessage;
use crate::artemis::decoded;
use crate::error::{Error, Result};
use crate::java::{Archive, Java};
use crate::tool::run;

const SOURCE: &str = include_str!("../../rocketmq/Reader.java");

/// Reads so many messages, each with its tags and keys.
pub(super) fn read(
    java: Java,
    name_server: &str,
    topic: &str,
    count: usize,
) -> Result<Vec<(RocketMqMessage, String, String)>> {
    let java = java.and_program("Reader", SOURCE)?;
    let mut command = java.quick(&Archive::Read("reader"), &["-Xmx128m"], "Reader");
    command.args([name_server, topic, &count.to_string()]);
    let printed = run(command, None, "RocketMQ's client")?;
    let printed = String::from_utf8_lossy(&printed);
    let lines = printed.lines().filter_map(|line| line.strip_prefix("MESSAGE "));
    lines.map(|line| message(line).ok_or_else(|| Error::new(format!("read {line:?}: no message")))).collect()
}

fn message(line: &str) -> Option<(RocketMqMessage, String, String)> {
    let parts = line.split(' ').map(decoded).collect::<Option<Vec<_>>>()?;
    let text = |place: usize| parts.get(place).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let properties = text(3)?;
    let properties = properties.lines().filter_map(|line| line.split_once('='));
    let properties = properties.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let queue = text(0)?.parse().ok()?;
    let body = parts.get(4)?.clone();
    let message = RocketMqMessage { broker: 0, queue, properties, body, stored_ms: None };
    Some((message, text(1)?, text(2)?))
}
