//! What is in Redis: the kit's own connection, and the keys of a queue that it made up.

use std::time::Duration;

use redis::{Cmd, FromRedisValue, RedisError, cmd};

/// The time limit for an answer of Redis.
const LIMIT: Duration = Duration::from_secs(20);

/// The keys of one queue, spelled here once more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// The name of the destination.
    pub name: String,
    /// The sorted set.
    pub timeout: String,
    /// The list.
    pub list: String,
    /// The channel.
    pub channel: String,
    /// The beginning of the key of an id.
    pub mark: String,
}

impl Queue {
    /// Returns the keys that belong to a name.
    pub fn named(name: &str) -> Queue {
        let braces = if name.contains('{') { ["", name, ""] } else { ["{", name, "}"] }.concat();
        Queue {
            name: name.to_owned(),
            timeout: format!("redisson_delay_queue_timeout:{braces}"),
            list: format!("redisson_delay_queue:{braces}"),
            channel: format!("redisson_delay_queue_channel:{braces}"),
            mark: format!("delaybridge:offer:{braces}:"),
        }
    }
}

/// A member of the sorted set with its score as Redis writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduled {
    /// The element.
    pub element: Vec<u8>,
    /// The score, in Redis's words.
    pub score: String,
}

impl Scheduled {
    /// Returns the score, if it is a whole number.
    pub fn due_ms(&self) -> Option<i64> {
        self.score.parse().ok()
    }
}

/// The two structures of a queue, read in one transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// The sorted set, in the order of its scores.
    pub scheduled: Vec<Scheduled>,
    /// The list, from its head.
    pub listed: Vec<Vec<u8>>,
}

impl Seen {
    /// Returns the score of the element that is in this place of the list.
    pub fn score_of_entry(&self, at: usize) -> Option<&str> {
        let element = self.listed.get(at)?;
        self.scheduled.iter().find(|one| one.element == *element).map(|one| &*one.score)
    }
}

/// A connection of the kit's own.
pub struct Server {
    url: String,
    conn: redis::Connection,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Server")
    }
}

impl Server {
    /// Connects.
    pub fn connect(url: &str) -> Result<Server, RedisError> {
        let conn = redis::Client::open(url)?.get_connection_with_timeout(LIMIT)?;
        conn.set_read_timeout(Some(LIMIT))?;
        // A server that reads nothing more takes no payload of 10 MB either.
        conn.set_write_timeout(Some(LIMIT))?;
        Ok(Server { url: url.to_owned(), conn })
    }

    /// Opens another connection to the same server.
    pub fn another(&self) -> Result<redis::Connection, RedisError> {
        let conn = redis::Client::open(&*self.url)?.get_connection_with_timeout(LIMIT)?;
        conn.set_read_timeout(Some(LIMIT))?;
        // A server that reads nothing more takes no payload of 10 MB either.
        conn.set_write_timeout(Some(LIMIT))?;
        Ok(conn)
    }

    /// Runs a command.
    pub fn query<T: FromRedisValue>(&mut self, cmd: &Cmd) -> Result<T, RedisError> {
        cmd.query(&mut self.conn)
    }

    /// Asks for Redis's time, in ms.
    pub fn now_ms(&mut self) -> Result<i64, RedisError> {
        let (seconds, micros): (i64, i64) = self.query(&cmd("TIME"))?;
        Ok(seconds * 1000 + micros / 1000)
    }

    /// Reads the contents of a queue.
    pub fn look(&mut self, queue: &Queue) -> Result<Seen, RedisError> {
        let mut both = redis::pipe();
        both.atomic();
        both.cmd("ZRANGE").arg(&queue.timeout).arg(0).arg(-1).arg("WITHSCORES");
        both.cmd("LRANGE").arg(&queue.list).arg(0).arg(-1);
        let (flat, listed): (Vec<Vec<u8>>, Vec<Vec<u8>>) = both.query(&mut self.conn)?;
        let mut flat = flat.into_iter();
        let mut scheduled = Vec::new();
        while let (Some(element), Some(score)) = (flat.next(), flat.next()) {
            scheduled.push(Scheduled { element, score: String::from_utf8_lossy(&score).into_owned() });
        }
        Ok(Seen { scheduled, listed })
    }

    /// Removes an element from both structures, as one who delivers it does.
    pub fn take(&mut self, queue: &Queue, element: &[u8]) -> Result<(), RedisError> {
        let mut both = redis::pipe();
        both.atomic();
        both.cmd("ZREM").arg(&queue.timeout).arg(element).ignore();
        both.cmd("LREM").arg(&queue.list).arg(1).arg(element).ignore();
        both.query(&mut self.conn)
    }

    /// Lists the keys whose names contain `part`, which must have no characters that are special in a pattern.
    pub fn keys_with(&mut self, part: &str) -> Result<Vec<Vec<u8>>, RedisError> {
        let mut found = Vec::new();
        let mut cursor = b"0".to_vec();
        loop {
            let mut scan = cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(format!("*{part}*")).arg("COUNT").arg(5_000);
            let (next, keys): (Vec<u8>, Vec<Vec<u8>>) = self.query(&scan)?;
            found.extend(keys);
            if next == b"0" {
                return Ok(found);
            }
            cursor = next;
        }
    }
}

/// Listens to the channel of a queue.
pub struct Listener {
    conn: redis::Connection,
    channel: String,
    /// A channel that the kit alone writes to: its message comes behind all that were published before it.
    end: String,
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("channel", &self.channel).finish_non_exhaustive()
    }
}

impl Listener {
    /// Subscribes; it hears what is published from now on.
    pub fn on(server: &Server, queue: &Queue) -> Result<Listener, RedisError> {
        let mut conn = server.another()?;
        let end = format!("{}:end", queue.name);
        conn.send_packed_command(&cmd("SUBSCRIBE").arg(&queue.channel).arg(&end).get_packed_command())?;
        for _ in 0..2 {
            conn.recv_response()?;
        }
        Ok(Listener { conn, channel: queue.channel.clone(), end })
    }

    /// Reads the messages that were published since the last call.
    pub fn heard(&mut self, server: &mut Server) -> Result<Vec<String>, RedisError> {
        let () = server.query(cmd("PUBLISH").arg(&self.end).arg("end"))?;
        let mut heard = Vec::new();
        loop {
            let message: Vec<redis::Value> = redis::from_redis_value(self.conn.recv_response()?)?;
            let words = message.into_iter().filter_map(|word| redis::from_redis_value::<Vec<u8>>(word).ok());
            let words: Vec<String> = words.map(|word| String::from_utf8_lossy(&word).into_owned()).collect();
            match &words[..] {
                [_, channel, _] if *channel == self.end => return Ok(heard),
                [_, channel, text] if *channel == self.channel => heard.push(text.clone()),
                _ => {}
            }
        }
    }
}

/// Sees every command that the server runs, those inside of scripts too.
pub struct Monitor {
    conn: redis::Connection,
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Monitor")
    }
}

impl Monitor {
    /// Starts to watch.
    pub fn on(server: &Server) -> Result<Monitor, RedisError> {
        let mut conn = server.another()?;
        conn.send_packed_command(&cmd("MONITOR").get_packed_command())?;
        conn.recv_response()?;
        Ok(Monitor { conn })
    }

    /// Reads the commands until now that have `part` in an argument, and every `MULTI` and `EXEC`: the name, and who
    /// sent it, `lua` for a script.
    pub fn lines(&mut self, server: &mut Server, part: &str) -> Result<Vec<(String, String)>, RedisError> {
        let end = format!("{part}:monitor-end");
        let () = server.query(cmd("EXISTS").arg(&end))?;
        let mut lines = Vec::new();
        loop {
            let line: String = redis::from_redis_value(self.conn.recv_response()?)?;
            if line.contains(&end) {
                return Ok(lines);
            }
            // `1339518083.107412 [0 127.0.0.1:60866] "ZADD" ...`; inside of a script `lua` is in the place of the address.
            let name = line.split('"').nth(1).unwrap_or_default().to_uppercase();
            if line.contains(part) || name == "MULTI" || name == "EXEC" {
                let sender = line.split(['[', ']']).nth(1).and_then(|sender| sender.split(' ').nth(1));
                lines.push((name, sender.unwrap_or_default().to_owned()));
            }
        }
    }
}
