//! The rights that the sink needs on its server.

use crate::link::Side;
use crate::link::rights::command::{LPUSH, RPUSH, XADD};
use crate::link::rights::{Grant, Pattern};
use crate::sink::{RedisCommand, RedisWrite};

impl RedisWrite<'_> {
    /// The rights that delivery needs, for elements of the queue with this id. `None` where the source sends the command, in its
    /// own script.
    pub fn grant(&self, queue: &str) -> Option<Grant> {
        let command = match self.command {
            _ if self.with_verdict => return None,
            RedisCommand::Push(Side::Left) => LPUSH,
            RedisCommand::Push(Side::Right) => RPUSH,
            RedisCommand::Add => XADD,
        };
        let parts: Vec<_> = self.key.outline(queue).collect();
        let key = match parts.iter().cloned().collect::<Option<String>>() {
            Some(name) => Pattern::exact(name),
            None => Pattern::around(parts),
        };
        Some(Grant::on([key], [command]))
    }
}
