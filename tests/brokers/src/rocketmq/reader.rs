//! Messages as RocketMQ's own client for Java reads them.

use std::path::Path;

use super::RocketMqMessage;
use crate::artemis::decoded;
use crate::error::{Error, Result};
use crate::tool::run;
use crate::{java, process};

const SOURCE: &str = include_str!("../../rocketmq/Reader.java");

/// Reads so many messages, each with its tags and keys.
pub(super) fn read(
    program: &Path,
    home: &Path,
    name_server: &str,
    topic: &str,
    count: usize,
) -> Result<Vec<(RocketMqMessage, String, String)>> {
    let jars = format!("{}/*", home.join("lib").display());
    let classes = java::classes(program, home, ("Reader", SOURCE), &jars)?;
    let mut command = process::command(program);
    command.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m"]);
    command.args(["-cp", &format!("{}:{jars}", classes.display()), "Reader", name_server, topic, &count.to_string()]);
    command.env_remove("JAVA_TOOL_OPTIONS").env_remove("CLASSPATH");
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
