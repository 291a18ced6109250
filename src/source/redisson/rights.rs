//! What the scripts and looks of a queue need to be allowed, for a check before the first element is at stake.

use super::Redisson;
use crate::config::Mode;

impl Redisson {
    /// One command for each right that this queue needs in this mode, with its real keys: what `ACL DRYRUN` can be asked
    /// about.
    pub fn commands(&self, mode: Mode) -> Vec<Vec<&[u8]>> {
        match mode {
            Mode::Deliver => self.to_deliver(),
            Mode::Shadow => self.to_look(),
            Mode::Rescue { .. } => {
                let mut commands = self.to_deliver();
                commands.push(vec![b"RPUSH", &self.keys.ready, b"a"]);
                commands
            }
        }
    }

    /// What looks at a queue and changes nothing.
    fn to_look(&self) -> Vec<Vec<&[u8]>> {
        const READS: [&[u8]; 10] =
            [b"TYPE", b"TIME", b"INFO", b"ZCARD", b"ZCOUNT", b"ZRANGE", b"LLEN", b"SCARD", b"HMGET", b"XLEN"];
        let reads = |command: &Vec<&[u8]>| command.first().is_some_and(|name| READS.contains(name));
        let loads =
            |command: &Vec<&[u8]>| matches!(command.first(), Some(name) if *name == b"EVALSHA" || *name == b"SCRIPT");
        self.to_deliver().into_iter().filter(|command| reads(command) || loads(command)).collect()
    }

    fn to_deliver(&self) -> Vec<Vec<&[u8]>> {
        let k = &self.keys;
        let (z, l, ready): (&[u8], &[u8], &[u8]) = (&k.delayed, &k.list, &k.ready);
        let (in_flight, retry, dead): (&[u8], &[u8], &[u8]) = (&k.in_flight, &k.retry, &k.dead);
        let (ghosts, turn, state): (&[u8], &[u8], &[u8]) = (&k.ghosts, &k.ghosts_turn, &k.state);
        let mut commands: Vec<Vec<&[u8]>> = vec![
            vec![b"EVALSHA", b"0000000000000000000000000000000000000000", b"1", z],
            vec![b"SCRIPT", b"LOAD", b"return 1"],
            vec![b"TIME"],
            vec![b"SUBSCRIBE", k.channel.as_bytes()],
            vec![b"SUBSCRIBE", k.presence.as_bytes()],
            vec![b"PUBSUB", b"NUMSUB", k.channel.as_bytes()],
            vec![b"INFO", b"memory"],
            vec![b"XADD", dead, b"*", b"a", b"b"],
            vec![b"XLEN", dead],
            vec![b"XTRIM", dead, b"MAXLEN", b"1"],
            vec![b"XRANGE", dead, b"-", b"+"],
            vec![b"XREVRANGE", dead, b"+", b"-"],
            vec![b"XDEL", dead, b"1-1"],
            vec![b"HSET", state, b"a", b"b"],
            vec![b"HSETNX", state, b"a", b"b"],
            vec![b"HGET", state, b"a"],
            vec![b"HMGET", state, b"a"],
            vec![b"HGET", state, b"a"],
            vec![b"HDEL", state, b"a"],
            vec![b"SADD", ghosts, b"a"],
            vec![b"SMISMEMBER", ghosts, b"a"],
            vec![b"SREM", ghosts, b"a"],
            vec![b"SCARD", ghosts],
            vec![b"RENAME", ghosts, turn],
            vec![b"SUNIONSTORE", turn, turn, ghosts],
            vec![b"EXISTS", turn],
            vec![b"DEL", turn],
            vec![b"ZMSCORE", z, b"a"],
            vec![b"LPOS", l, b"a"],
            vec![b"LINDEX", l, b"0"],
            vec![b"LPOP", l],
            vec![b"RPOP", l],
            vec![b"LREM", l, b"1", b"a"],
            vec![b"RPUSH", l, b"a"],
            vec![b"LLEN", ready],
            vec![b"LRANGE", ready, b"0", b"0"],
            vec![b"LTRIM", ready, b"0", b"0"],
            vec![b"LRANGE", l, b"0", b"0"],
            vec![b"LTRIM", l, b"0", b"0"],
        ];
        for zset in [z, in_flight, retry] {
            commands.push(vec![b"TYPE", zset]);
            commands.push(vec![b"ZADD", zset, b"1", b"a"]);
            commands.push(vec![b"ZREM", zset, b"a"]);
            commands.push(vec![b"ZCARD", zset]);
            commands.push(vec![b"ZCOUNT", zset, b"0", b"1"]);
            commands.push(vec![b"ZSCORE", zset, b"a"]);
            commands.push(vec![b"ZRANGE", zset, b"0", b"0"]);
            commands.push(vec![b"ZRANGEBYSCORE", zset, b"0", b"1"]);
        }
        commands
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::SCRIPTS;
    use super::*;
    use crate::config::ListCleanup;

    #[test]
    fn every_command_of_the_daemon_s_scripts_is_asked_for() {
        let queue = Redisson::new("q", [0; 8], true, true, ListCleanup::Auto);
        let asked: Vec<_> = queue
            .commands(Mode::Rescue { after: Duration::ZERO })
            .iter()
            .map(|words| String::from_utf8_lossy(words[0]).into_owned())
            .collect();
        for script in SCRIPTS.all() {
            // Only the command line sends these.
            if matches!(script.name(), "offer" | "cancel" | "redrive") {
                continue;
            }
            for call in script.text().split("redis.call('").skip(1) {
                let command = call.split('\'').next().unwrap();
                assert!(asked.iter().any(|asked| asked == command), "{command}, of script {}", script.name());
            }
        }
    }
}
