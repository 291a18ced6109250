//! A server's information, parsed from `INFO`. Pure: text in, facts or a reason out.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

use super::error::ConnectErrorKind;

/// The oldest supported server: `ZMSCORE`, `LPOS` with `RANK` and `COUNT`, `ACL` categories as used here.
const OLDEST: Version = Version { major: 6, minor: 2, patch: 0 };

/// The version of a server. Valkey reports the version of Redis with which it is compatible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
    /// The third number; zero if absent.
    pub patch: u32,
}

impl Version {
    /// Parses `7.0.15`; a suffix of the third number is ignored (`7.4.0-rc1`).
    pub fn parse(text: &str) -> Option<Version> {
        let mut parts = text.trim().splitn(3, '.').map(|part| {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            part[..digits].parse::<u32>().ok()
        });
        let major = parts.next()??;
        let minor = parts.next()??;
        let patch = parts.next().flatten().unwrap_or(0);
        Some(Version { major, minor, patch })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The role of a server in replication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Accepts writes.
    Master,
    /// Follows another server and accepts no writes.
    Replica,
}

/// The information that a server reports at connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// The version of the server.
    pub version: Version,
    /// The role; always [`Role::Master`] once a link is up.
    pub role: Role,
    /// The memory limit in bytes; 0 is none.
    pub maxmemory: u64,
    /// The eviction policy (`maxmemory-policy`).
    pub maxmemory_policy: String,
    /// The time of its clock, in ms since the epoch.
    pub now_ms: Option<i64>,
    /// The history of its data; `None` if the server does not report it.
    pub history: Option<History>,
}

/// The history of the data behind a connection. Two connections with equal histories reach a server that has lost
/// nothing in between: a restart changes the run id, and a promoted replica has another replication id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct History(u64);

impl History {
    /// Returns the history of a server with this run id and this replication id.
    fn of_server(run: &str, replication: &str) -> History {
        History(xxh3_64(format!("{run} {replication}").as_bytes()))
    }

    /// Returns a hash that is the same in every process that is connected to this server.
    pub fn hash(self) -> u64 {
        self.0
    }

    /// Returns a history for one connection only, if the server reports none.
    pub fn of_connection(node: usize, epoch: u64) -> History {
        History(xxh3_64(format!("connection {node} {epoch}").as_bytes()))
    }
}

impl ServerInfo {
    /// Parses the replies to `INFO server`, `INFO replication` and `INFO memory`, concatenated in any order.
    ///
    /// The policy is read from `INFO`, not from `CONFIG GET`: `INFO` has it since 4.0, and managed services refuse
    /// `CONFIG`.
    ///
    /// # Errors
    ///
    /// Returns what is missing or unsupported, and what to do about it.
    pub fn parse(text: &str) -> Result<ServerInfo, (ConnectErrorKind, String)> {
        let field = |name: &str| field(text, name);
        if let Some(reason) = unsuitable(text) {
            return Err((ConnectErrorKind::Unsupported, reason.to_owned()));
        }
        let version = field("redis_version").and_then(Version::parse).ok_or_else(|| {
            (ConnectErrorKind::Server, "INFO has no redis_version: is this a Redis server?".to_owned())
        })?;
        if version < OLDEST {
            let text = format!("the server is Redis {version}, 6.2 or newer is needed: upgrade the server");
            return Err((ConnectErrorKind::TooOld, text));
        }
        let role = match field("role") {
            Some("master") => Role::Master,
            Some("slave" | "replica") => {
                let master = match (field("master_host"), field("master_port")) {
                    (Some(host), Some(port)) => format!(" of {}:{}", cut(host), cut(port)),
                    _ => String::new(),
                };
                let text = format!(
                    "the server is a read-only replica{master}: connect to the master; waiting for it to be promoted"
                );
                return Err((ConnectErrorKind::Replica, text));
            }
            other => {
                let text = format!("INFO has the role {:?}, which is neither master nor replica", other.map(cut));
                return Err((ConnectErrorKind::Server, text));
            }
        };
        Ok(ServerInfo {
            version,
            role,
            maxmemory: Memory::parse(text).limit.unwrap_or(0),
            maxmemory_policy: field("maxmemory_policy").unwrap_or("unknown").to_owned(),
            now_ms: field("server_time_usec").and_then(|us| us.parse::<i64>().ok()).map(|us| us / 1_000),
            history: field("run_id")
                .zip(field("master_replid"))
                .map(|(run, replication)| History::of_server(run, replication)),
        })
    }

    /// Returns whether the server may evict keys when its memory is full, which could lose elements.
    pub fn evicts(&self) -> bool {
        self.maxmemory_policy != "noeviction" && self.maxmemory_policy != "unknown"
    }
}

/// Returns the reason why a compatible server loses elements or delivers them twice, whatever version it reports.
fn unsuitable(info: &str) -> Option<&'static str> {
    let is_set = |name| field(info, name).is_some_and(|value| matches!(value, "1" | "yes"));
    if field(info, "dragonfly_version").is_some() {
        return Some(
            "the server is Dragonfly, which is not supported: the clock of its scripts (`TIME`) can be 0, and leases \
             depend on it: use Redis or Valkey",
        );
    }
    if field(info, "role") == Some("active-replica") || is_set("active-replica") || is_set("multi-master") {
        return Some(
            "the server is KeyDB with active replicas, which is not supported: two servers that both accept writes \
             would give the same element to two daemons: switch `active-replica` and `multi-master` off, or use Redis \
             or Valkey",
        );
    }
    None
}

/// The memory of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Bytes in use.
    pub used: u64,
    /// The limit in bytes (`maxmemory`); `None` if there is none.
    pub limit: Option<u64>,
}

impl Memory {
    /// Parses the reply to `INFO memory`, alone or among others. A missing field counts as 0.
    pub fn parse(text: &str) -> Memory {
        let number = |name: &str| field(text, name).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
        Memory { used: number("used_memory"), limit: Some(number("maxmemory")).filter(|limit| *limit > 0) }
    }

    /// Returns whether more than 90 % of the limit is in use.
    pub fn is_nearly_full(&self) -> bool {
        self.limit.is_some_and(|limit| self.used as f64 > limit as f64 * 0.9)
    }

    /// Returns the bytes left below the limit; `None` if there is none.
    pub fn left(&self) -> Option<u64> {
        self.limit.map(|limit| limit.saturating_sub(self.used))
    }
}

/// Returns the part of a value that an error shows.
fn cut(value: &str) -> &str {
    value.char_indices().nth(255).map_or(value, |(at, _)| &value[..at])
}

/// Returns the value of a field of `INFO`, unless it is missing or empty.
pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.map(str::trim).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Replication;
    use crate::fuzz::fuzz;

    #[test]
    fn versions_are_read() {
        fn check(text: &str, expected: Option<(u32, u32, u32)>) {
            assert_eq!(Version::parse(text).map(|v| (v.major, v.minor, v.patch)), expected, "{text}");
        }
        check("7.0.15", Some((7, 0, 15)));
        check("6.2.0", Some((6, 2, 0)));
        check("8.2", Some((8, 2, 0)));
        check("7.4.0-rc1", Some((7, 4, 0)));
        check("255.255.255", Some((255, 255, 255)));
        check(" 7.2.4\r", Some((7, 2, 4)));
        check("7", None);
        check("unstable", None);
        check("", None);
    }

    fn info(version: &str, role: &str) -> String {
        format!(
            "# Server\r\nredis_version:{version}\r\n# Replication\r\nrole:{role}\r\nmaster_host:10.0.0.1\r\n\
             master_port:6379\r\n# Memory\r\nmaxmemory:1048576\r\nmaxmemory_human:1M\r\nmaxmemory_policy:allkeys-lru\r\n"
        )
    }

    #[test]
    fn a_master_of_a_supported_version_is_accepted() {
        let info = ServerInfo::parse(&info("6.2.0", "master")).unwrap();
        assert_eq!((info.maxmemory, info.maxmemory_policy.as_str()), (1_048_576, "allkeys-lru"));
        assert!(info.evicts());
    }

    #[test]
    fn what_cannot_be_worked_with_is_refused_with_a_reason() {
        fn check(text: &str, kind: ConnectErrorKind, words: &str) {
            let (got, message) = ServerInfo::parse(text).unwrap_err();
            assert_eq!(got, kind, "{message}");
            assert!(message.contains(words), "{message}");
        }
        check(&info("6.0.16", "master"), ConnectErrorKind::TooOld, "Redis 6.0.16, 6.2 or newer is needed");
        check(&info("5.0.14", "slave"), ConnectErrorKind::TooOld, "upgrade");
        check(&info("7.0.15", "slave"), ConnectErrorKind::Replica, "replica of 10.0.0.1:6379");
        check(&info("7.0.15", "sentinel"), ConnectErrorKind::Server, "sentinel");
        check("", ConnectErrorKind::Server, "redis_version");
        let dragonfly = info("7.4.0", "master").replace("# Repl", "dragonfly_version:df-v1.36.0\r\n# Repl");
        check(&dragonfly, ConnectErrorKind::Unsupported, "Dragonfly, which is not supported: the clock of its scripts");
        check(&info("6.3.4", "active-replica"), ConnectErrorKind::Unsupported, "KeyDB with active replicas");
        let both = info("6.3.4", "master") + "multi-master:1\r\n";
        check(&both, ConnectErrorKind::Unsupported, "two servers that both accept writes");
        // KeyDB without these settings is accepted.
        ServerInfo::parse(&(info("6.3.4", "master") + "active-replica:0\r\nmulti-master:no\r\n")).unwrap();
    }

    #[test]
    fn memory_is_compared_with_its_limit() {
        fn check(used: u64, limit: u64, nearly_full: bool, left: Option<u64>) {
            let text = format!("# Memory\r\nused_memory:{used}\r\nused_memory_rss:7\r\nmaxmemory:{limit}\r\n");
            let memory = Memory::parse(&text);
            assert_eq!((memory.is_nearly_full(), memory.left()), (nearly_full, left), "{used} of {limit}");
        }
        check(90, 100, false, Some(10));
        check(91, 100, true, Some(9));
        check(101, 100, true, Some(0));
        check(101, 0, false, None);
        assert_eq!(Memory::parse("# Server\r\n"), Memory { used: 0, limit: None });
    }

    #[test]
    fn fuzz_info() {
        let seeds =
            [info("7.0.15", "master"), info("6.2.0", "slave"), info("8.2", "master") + "server_time_usec:-1\r\n"];
        let seeds: Vec<_> = seeds.iter().map(String::as_str).collect();
        fuzz("INFO", &seeds, |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let memory = Memory::parse(&text);
            assert!(memory.limit != Some(0) && memory.left().is_none_or(|left| Some(left) <= memory.limit));
            let _ = Replication::parse(&text);
            match ServerInfo::parse(&text) {
                Ok(info) => {
                    assert!(
                        info.role == Role::Master
                            && info.version >= OLDEST
                            && info.maxmemory_policy.len() <= text.len()
                    );
                    Some(())
                }
                // A reason is one line, however long the reply is.
                Err((_, reason)) => {
                    assert!(reason.len() < 1_000, "{} bytes of a reason", reason.len());
                    None
                }
            }
        });
    }

    #[test]
    fn only_noeviction_keeps_everything() {
        for (policy, evicts) in [("noeviction", false), ("allkeys-lfu", true), ("volatile-ttl", true)] {
            let text = info("7.0.15", "master").replace("allkeys-lru", policy);
            assert_eq!(ServerInfo::parse(&text).unwrap().evicts(), evicts, "{policy}");
        }
    }
}
