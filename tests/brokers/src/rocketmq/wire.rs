//! The remoting protocol, as far as a look into queues needs it. It shares nothing with the sink, whose messages it reads.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::error::{During, Error, Result};

/// Time for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
const PULL: u32 = 11;
const CREATE_TOPIC: u32 = 17;
const ROUTE: u32 = 105;
/// Answers to a pull: messages, and the end of the queue.
const FOUND: i64 = 0;
const NOT_FOUND: i64 = 19;

/// A message in a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RocketMqMessage {
    /// The place of the broker.
    pub broker: usize,
    /// The queue there.
    pub queue: u32,
    /// The properties, sorted by name.
    pub properties: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// The time at which the broker stored it, in ms, where the protocol was read.
    pub stored_ms: Option<i64>,
}

impl RocketMqMessage {
    /// The value of a property.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A connection to a server.
pub(super) struct RocketWire(TcpStream);

struct Answer {
    code: i64,
    header: String,
    body: Vec<u8>,
}

impl RocketWire {
    pub(super) fn connect(port: u16) -> Result<RocketWire> {
        let stream =
            TcpStream::connect(("127.0.0.1", port)).during(format_args!("connect to RocketMQ at port {port}"))?;
        stream.set_read_timeout(Some(PATIENCE)).during("set a time-out")?;
        Ok(RocketWire(stream))
    }

    fn ask(&mut self, code: u32, fields: &[(&str, &str)]) -> Result<Answer> {
        let what = format!("ask RocketMQ with code {code}");
        let fields: Vec<_> = fields.iter().map(|(name, value)| format!("\"{name}\":\"{value}\"")).collect();
        let header = format!(
            r#"{{"code":{code},"language":"JAVA","version":407,"opaque":1,"flag":0,"extFields":{{{}}},"serializeTypeCurrentRPC":"JSON"}}"#,
            fields.join(",")
        );
        let length = u32::try_from(header.len()).expect("a short header");
        let mut frame = (length + 4).to_be_bytes().to_vec();
        frame.extend(length.to_be_bytes());
        frame.extend(header.as_bytes());
        self.0.write_all(&frame).during(&what)?;
        let length = self.number(&what)?;
        let rest = self.number(&what)?;
        let mut header = vec![0; rest as usize & 0x00ff_ffff];
        self.0.read_exact(&mut header).during(&what)?;
        let mut body = vec![0; length as usize - 4 - header.len()];
        self.0.read_exact(&mut body).during(&what)?;
        let header = String::from_utf8_lossy(&header).into_owned();
        let code = number_in(&header, "\"code\":").ok_or_else(|| Error::new(format!("{what}: {header}")))?;
        Ok(Answer { code, header, body })
    }

    fn number(&mut self, what: &str) -> Result<u32> {
        let mut bytes = [0; 4];
        self.0.read_exact(&mut bytes).during(what)?;
        Ok(u32::from_be_bytes(bytes))
    }

    pub(super) fn create(&mut self, topic: &str, queues: u32) -> Result<()> {
        let queues = queues.to_string();
        let fields = [
            ("topic", topic),
            ("defaultTopic", "TBW102"),
            ("readQueueNums", &queues),
            ("writeQueueNums", &queues),
            ("perm", "6"),
            ("topicFilterType", "SINGLE_TAG"),
            ("topicSysFlag", "0"),
            ("order", "false"),
        ];
        match self.ask(CREATE_TOPIC, &fields)? {
            Answer { code: 0, .. } => Ok(()),
            answer => Err(Error::new(format!("create topic {topic}: {}", answer.header))),
        }
    }

    pub(super) fn route(&mut self, topic: &str) -> Result<String> {
        match self.ask(ROUTE, &[("topic", topic), ("acceptStandardJsonOnly", "true")])? {
            Answer { code: 0, body, .. } => Ok(String::from_utf8_lossy(&body).into_owned()),
            answer => Err(Error::new(format!("find topic {topic}: {}", answer.header))),
        }
    }

    pub(super) fn queues(&mut self, topic: &str) -> Result<u32> {
        let route = self.route(topic)?;
        let count = number_in(&route, "\"writeQueueNums\":").and_then(|count| u32::try_from(count).ok());
        count.ok_or_else(|| Error::new(format!("find the queues of topic {topic}: {route}")))
    }

    pub(super) fn pull(&mut self, topic: &str, broker: usize, queue: u32) -> Result<Vec<RocketMqMessage>> {
        let mut messages = Vec::new();
        let mut offset = 0_i64;
        loop {
            let number = queue.to_string();
            let from = offset.to_string();
            let fields = [
                ("consumerGroup", "look"),
                ("topic", topic),
                ("queueId", &*number),
                ("queueOffset", &*from),
                ("maxMsgNums", "256"),
                // It has its subscription with it.
                ("sysFlag", "4"),
                ("commitOffset", "0"),
                ("suspendTimeoutMillis", "0"),
                ("subscription", "*"),
                ("subVersion", "0"),
                ("expressionType", "TAG"),
            ];
            let answer = self.ask(PULL, &fields)?;
            match answer.code {
                FOUND => {
                    let mut rest = &answer.body[..];
                    while !rest.is_empty() {
                        let read = message(&mut rest, broker, queue);
                        messages
                            .push(read.ok_or_else(|| Error::new(format!("read a message of {topic}: it ends early")))?);
                    }
                    let next = number_in(&answer.header, "\"nextBeginOffset\":\"");
                    offset = next.ok_or_else(|| Error::new(format!("pull from {topic}: {}", answer.header)))?;
                }
                NOT_FOUND => return Ok(messages),
                // An offset before the first: the queue is empty, or older ones are gone.
                _ => return Err(Error::new(format!("pull from {topic} {queue} at {offset}: {}", answer.header))),
            }
        }
    }
}

/// The number behind this text.
fn number_in(text: &str, behind: &str) -> Option<i64> {
    let rest = text.split(behind).nth(1)?;
    let end = rest.find(|letter: char| !(letter.is_ascii_digit() || letter == '-')).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// A message as a broker stores it: 84 bytes of numbers, the body, the topic and the properties, each behind its length.
fn message(rest: &mut &[u8], broker: usize, queue: u32) -> Option<RocketMqMessage> {
    let mut take = |count: usize| {
        let (taken, others) = rest.split_at_checked(count)?;
        *rest = others;
        Some(taken)
    };
    let head = take(84)?;
    let stored_ms = head.get(56..64).and_then(|time| time.try_into().ok()).map(i64::from_be_bytes);
    let length = u32::from_be_bytes(take(4)?.try_into().ok()?);
    let body = take(length as usize)?.to_vec();
    let length = take(1)?[0];
    take(usize::from(length))?;
    let length = u16::from_be_bytes(take(2)?.try_into().ok()?);
    let properties = String::from_utf8_lossy(take(usize::from(length))?).into_owned();
    let pairs = properties.split('\u{2}').filter_map(|pair| pair.split_once('\u{1}'));
    let mut properties: Vec<(String, String)> =
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    properties.sort();
    Some(RocketMqMessage { broker, queue, properties, body, stored_ms })
}
