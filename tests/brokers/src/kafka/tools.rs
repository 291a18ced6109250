//! Kafka's own Java producer and consumer, as the reference for partitions and records.

use std::process::Command;
use std::time::Duration;

use super::Kafka;
use super::java::{TOOL, tool};
use crate::error::{Error, Result};
use crate::java::Archive;
use crate::tool::run;

/// A record as the Java consumer shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The partition.
    pub partition: i32,
    /// The key; `None` for null.
    pub key: Option<Vec<u8>>,
    /// The value; `None` for null.
    pub value: Option<Vec<u8>>,
    /// The headers, in order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// The separators: control characters that the texts of tests do not contain.
const FIELD: char = '\x1f';
const LINE: char = '\x1e';
const HEADER: char = '\x1d';
const NULL: &str = "\x1c";

impl Kafka {
    /// Reads a topic from its beginning: `max` records, or fewer if none arrives for `timeout`.
    ///
    /// Starts a Java process. Keys, values and headers must not contain the control characters 1C to 1F.
    pub fn java_consume(&self, topic: &str, max: usize, timeout: Duration) -> Result<Vec<Record>> {
        let mut command = self.tool("org.apache.kafka.tools.consumer.ConsoleConsumer");
        consumer_arguments(&mut command, &self.bootstrap(), topic, max, timeout);
        let output = run(command, None, "the Java consumer")?;
        output.split(|&byte| byte == LINE as u8).filter(|line| !line.is_empty()).map(record).collect()
    }

    /// Writes one record for each key, with the key's index as the value, and lets the Java producer choose the
    /// partition. Keys must not contain tabs or line ends.
    pub fn java_produce(&self, topic: &str, keys: &[&str]) -> Result<()> {
        let mut command = self.tool("org.apache.kafka.tools.ConsoleProducer");
        producer_arguments(&mut command, &self.bootstrap(), topic);
        let lines: String = keys.iter().enumerate().map(|(place, key)| format!("{key}\t{place}\n")).collect();
        run(command, Some(lines), "the Java producer").map(drop)
    }

    fn tool(&self, class: &str) -> Command {
        tool(&self.java, &Archive::Read(TOOL), &self.log4j(), class)
    }
}

pub(super) fn consumer_arguments(command: &mut Command, bootstrap: &str, topic: &str, max: usize, timeout: Duration) {
    command.args(["--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning"]);
    command.args(["--max-messages", &max.to_string(), "--timeout-ms", &timeout.as_millis().to_string()]);
    for (name, value) in [
        ("print.partition", "true"),
        ("print.headers", "true"),
        ("print.key", "true"),
        ("key.separator", &FIELD.to_string()),
        ("line.separator", &LINE.to_string()),
        ("headers.separator", &HEADER.to_string()),
        ("null.literal", NULL),
    ] {
        command.args(["--formatter-property", &format!("{name}={value}")]);
    }
}

pub(super) fn producer_arguments(command: &mut Command, bootstrap: &str, topic: &str) {
    command.args(["--bootstrap-server", bootstrap, "--topic", topic]);
    command.args(["--reader-property", "parse.key=true", "--reader-property", "key.separator=\t"]);
}

fn record(line: &[u8]) -> Result<Record> {
    let odd = || Error::new(format!("read the Java consumer's output: {:?}", String::from_utf8_lossy(line)));
    let mut fields = line.split(|&byte| byte == FIELD as u8);
    let mut next = || fields.next().ok_or_else(odd);
    let partition = next()?;
    let headers = next()?;
    let key = next()?;
    let value = next()?;
    let partition = str::from_utf8(partition).ok().and_then(|text| text.strip_prefix("Partition:"));
    let headers = match headers {
        b"NO_HEADERS" => Vec::new(),
        headers => headers
            .split(|&byte| byte == HEADER as u8)
            .map(|header| split_header(header).ok_or_else(odd))
            .collect::<Result<_>>()?,
    };
    Ok(Record {
        partition: partition.and_then(|number| number.parse().ok()).ok_or_else(odd)?,
        key: nullable(key),
        value: nullable(value),
        headers,
    })
}

fn split_header(header: &[u8]) -> Option<(String, Option<Vec<u8>>)> {
    let colon = header.iter().position(|&byte| byte == b':')?;
    let name = String::from_utf8_lossy(&header[..colon]).into_owned();
    Some((name, nullable(&header[colon + 1..])))
}

fn nullable(field: &[u8]) -> Option<Vec<u8>> {
    (field != NULL.as_bytes()).then(|| field.to_vec())
}
