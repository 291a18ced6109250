//! What a server says of itself, read from `INFO`. Pure: text in, facts or a reason out.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

use super::error::ConnectErrorKind;

/// The oldest server that is supported: `ZMSCORE`, `LPOS` with `RANK` and `COUNT`, `ACL` categories as we use them.
const OLDEST: Version = Version { major: 6, minor: 2, patch: 0 };

/// Version of a server. Valkey reports the version of Redis that it is compatible with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// Third number, zero if absent.
    pub patch: u32,
}

impl Version {
    /// Reads `7.0.15`; a suffix after the third number is ignored (`7.4.0-rc1`).
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

/// What a server is in its replication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Takes writes.
    Master,
    /// Follows another server and takes none.
    Replica,
}

/// What a server says of itself at connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// The server's version.
    pub version: Version,
    /// Always [`Role::Master`] once a link is up.
    pub role: Role,
    /// Memory limit in bytes; 0 is none.
    pub maxmemory: u64,
    /// What the server does when the limit is reached.
    pub maxmemory_policy: String,
    /// What its clock said, in ms since the epoch.
    pub now_ms: Option<i64>,
    /// Which history of the data it has; `None` if it does not say.
    pub history: Option<History>,
}

/// The history of the data behind a connection. Two connections with the same one reach a server that has forgotten nothing in
/// between: a restart has another run id, and a replica that takes over another replication id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct History(u64);

impl History {
    /// The history of a server with this run id and this replication id.
    fn of_server(run: &str, replication: &str) -> History {
        History(xxh3_64(format!("{run} {replication}").as_bytes()))
    }

    /// A history of its own for one connection, where the server does not say which one it has.
    pub fn of_connection(node: usize, epoch: u64) -> History {
        History(xxh3_64(format!("connection {node} {epoch}").as_bytes()))
    }
}

impl ServerInfo {
    /// Reads the replies to `INFO server`, `INFO replication` and `INFO memory`, in any order, one after the other.
    ///
    /// The policy comes from `INFO` and not from `CONFIG GET`: `INFO` has it since 4.0, and managed services refuse
    /// `CONFIG`.
    ///
    /// # Errors
    ///
    /// What is missing or cannot be worked with, and what to do about it.
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

    /// True if the server may throw keys away when it is full: elements could be lost then.
    pub fn evicts(&self) -> bool {
        self.maxmemory_policy != "noeviction" && self.maxmemory_policy != "unknown"
    }
}

/// Why a server that speaks Redis's protocol loses elements or delivers them twice, whatever version it reports.
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

/// What a server says of its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Bytes in use.
    pub used: u64,
    /// Bytes that it may use (`maxmemory`); `None` where it has no limit.
    pub limit: Option<u64>,
}

impl Memory {
    /// Reads the reply to `INFO memory`, alone or among others. What is not there counts as 0.
    pub fn parse(text: &str) -> Memory {
        let number = |name: &str| field(text, name).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
        Memory { used: number("used_memory"), limit: Some(number("maxmemory")).filter(|limit| *limit > 0) }
    }

    /// Whether more than 90 % of the limit is in use.
    pub fn is_nearly_full(&self) -> bool {
        self.limit.is_some_and(|limit| self.used as f64 > limit as f64 * 0.9)
    }

    /// Bytes that the server may still take; `None` where it has no limit.
    pub fn left(&self) -> Option<u64> {
        self.limit.map(|limit| limit.saturating_sub(self.used))
    }
}

/// As much of a value as an error shows.
fn cut(value: &str) -> &str {
    value.char_indices().nth(255).map_or(value, |(at, _)| &value[..at])
}

/// The value of a field of `INFO`, unless it is missing or empty.
pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.map(str::trim).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Replication;
    use crate::link::fuzz::fuzz;

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
        // KeyDB without them is a Redis.
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
                // A reason is a line, however long the reply.
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
