//! Writes of a sink to a Redis server: asked for by the checks of rights, of loops, and of `exactly_once`.

use bytes::Bytes;

use delaybridge_core::template::Template;
use delaybridge_link::rights::command::{EVALSHA, GET, LPUSH, RPUSH, SET, XADD};
use delaybridge_link::rights::{Grant, Pattern, to_load_scripts};
use delaybridge_link::{KeyPrefix, RedisTarget, Side};

/// The rest, after our prefix, of the keys that remember what was written to a destination, with `duplicates: look`.
pub const MARKS: &str = "sent:";

/// A Redis server that a sink writes to.
#[derive(Debug, Clone, Copy)]
pub enum SinkRedis<'a> {
    /// The one that holds the queues, over the source's connection.
    OfTheQueues,
    /// One of its own.
    Own(&'a RedisTarget),
}

/// The write of a target in Redis.
#[derive(Debug, Clone, Copy)]
pub struct RedisWrite<'a> {
    /// Template of the key.
    pub key: &'a Template,
    /// The command.
    pub command: RedisCommand,
    /// Whether the source's own script writes it together with the verdict (`exactly_once`).
    pub with_verdict: bool,
}

/// The command that writes an element to Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedisCommand {
    /// A push to this end of a list.
    Push(Side),
    /// An entry of a stream.
    Add,
}

impl<'a> RedisWrite<'a> {
    /// Returns the list, and its end, that the source's script pushes to together with the verdict.
    pub fn push_with_verdict(&self) -> Option<(&'a Bytes, Side)> {
        match self.command {
            RedisCommand::Push(side) if self.with_verdict => Some((self.key.static_bytes()?, side)),
            RedisCommand::Push(_) | RedisCommand::Add => None,
        }
    }

    /// Returns the rights that delivery needs, for elements of the queue with this id; `in_order`: its elements are;
    /// `once`: the write leaves a mark, whose key has the prefix. None where the source sends the command, in its own
    /// script.
    pub fn grants(&self, queue: &str, in_order: bool, once: Option<&KeyPrefix>) -> Vec<Grant> {
        let command = match self.command {
            _ if self.with_verdict => return Vec::new(),
            RedisCommand::Push(Side::Left) => LPUSH,
            RedisCommand::Push(Side::Right) => RPUSH,
            RedisCommand::Add => XADD,
        };
        let parts: Vec<_> = self.key.outline(queue).collect();
        let key = match parts.iter().cloned().collect::<Option<String>>() {
            Some(name) => Pattern::exact(name),
            None => Pattern::around(parts),
        };
        if let Some(prefix) = once {
            let marks = Pattern::around([Some(prefix.name(MARKS)), None]);
            return vec![
                Grant::on([key.clone()], [command]),
                Grant::on([key, marks.clone()], [EVALSHA]),
                Grant::on([marks], [GET, SET]),
                to_load_scripts(),
            ];
        }
        match self.command {
            RedisCommand::Add if in_order => vec![Grant::on([key], [command, EVALSHA]), to_load_scripts()],
            RedisCommand::Push(_) | RedisCommand::Add => vec![Grant::on([key], [command])],
        }
    }
}
