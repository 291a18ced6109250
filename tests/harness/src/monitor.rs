//! The commands that a server executes, including those within scripts: `MONITOR`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use redis::aio::MultiplexedConnection;

use super::RedisServer;

/// A command, and its key or channel; empty if it has none.
pub type Use = (String, String);

/// The uses by a command with these words: one for each of its keys and channels.
pub fn uses(words: &[String]) -> Vec<Use> {
    let Some(name) = words.first().map(|word| word.to_lowercase()) else { return Vec::new() };
    let keys = match name.as_str() {
        "acl" | "client" | "script" | "pubsub" => {
            let part = words.get(1).map_or("", |word| word).to_lowercase();
            return vec![(format!("{name}|{part}"), String::new())];
        }
        "ping" | "info" | "time" | "select" => return vec![(name, String::new())],
        "memory" => return words.get(2).map(|key| ("memory|usage".to_owned(), key.clone())).into_iter().collect(),
        "evalsha" => 3..3 + words.get(2).and_then(|count| count.parse().ok()).unwrap_or(0),
        "exists" | "rename" | "subscribe" | "unlink" => 1..words.len(),
        "zrangestore" => 1..3,
        _ => 1..2,
    };
    words.get(keys).unwrap_or_default().iter().map(|key| (name.clone(), key.clone())).collect()
}

/// The executed uses, by the hash of the script; those outside of scripts by the empty hash.
pub type Executed = BTreeMap<String, BTreeSet<Use>>;

/// A listener to a server from its start on.
pub struct Monitor {
    lines: BufReader<TcpStream>,
    /// The address of the test's own connection, which is ignored.
    own: String,
    /// The caller of the next lines of Lua; `None` for the test's own scripts.
    script: Option<String>,
    executed: Executed,
}

impl Monitor {
    /// Begins to listen to all clients except `own`.
    pub async fn start(server: &RedisServer, own: &mut MultiplexedConnection) -> Monitor {
        let info: String = redis::cmd("CLIENT").arg("INFO").query_async(own).await.expect("ask for the own address");
        let address = info.split(' ').find_map(|pair| pair.strip_prefix("addr=")).expect("an address");
        redis::cmd("CONFIG").arg("RESETSTAT").exec_async(own).await.expect("reset the counts of commands");
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("connect to the test server");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("limit the time of an answer");
        stream.write_all(b"MONITOR\r\n").expect("ask for everything that is executed");
        let mut lines = BufReader::new(stream);
        lines.read_until(b'\n', &mut Vec::new()).expect("an answer");
        Monitor { lines, own: address.to_owned(), script: None, executed: Executed::new() }
    }

    /// All uses so far.
    pub async fn executed(&mut self, own: &mut MultiplexedConnection) -> &Executed {
        // Administrative commands are not shown, but counted.
        let counts: String = redis::cmd("INFO").arg("commandstats").query_async(own).await.expect("read the counts");
        let counted = counts.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split(':').next());
        let unseen = counted.filter(|name| name.starts_with("acl|") || name.starts_with("client|"));
        let unseen: Vec<_> = unseen.map(|name| (name.to_owned(), String::new())).collect();
        self.executed.entry(String::new()).or_default().extend(unseen);
        let () = redis::cmd("ECHO").arg("until now").query_async(own).await.expect("mark where to stop");
        while self.next() != ["ECHO", "until now"] {}
        &self.executed
    }

    /// Records one line, and returns its words.
    fn next(&mut self) -> Vec<String> {
        let mut line = Vec::new();
        self.lines.read_until(b'\n', &mut line).expect("a line");
        let text = String::from_utf8_lossy(&line);
        let (who, words) = text.split_once("] ").unwrap_or_else(|| panic!("a command, not {text:?}"));
        // No key contains a quote, and nothing after the keys matters.
        let words: Vec<_> = words.split('"').skip(1).step_by(2).map(str::to_owned).collect();
        // The commands of a script follow the line of its caller.
        if who.ends_with(" lua") {
            if let Some(script) = self.script.clone() {
                self.executed.entry(script).or_default().extend(uses(&words));
            }
        } else if who.ends_with(&self.own) {
            self.script = None;
        } else {
            self.executed.entry(String::new()).or_default().extend(uses(&words));
            self.script = words[0].eq_ignore_ascii_case("evalsha").then(|| words[1].clone());
        }
        words
    }
}
