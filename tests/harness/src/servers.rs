//! The supported server versions: Debian's, and those that `make setup` unpacks from Python's registry.

use super::ServerOptions;

/// A server version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// The name, as in `docs/redis.md`.
    pub name: &'static str,
    /// The name in the cache; `None` for the one of the path.
    cached: Option<&'static str>,
}

/// All versions, the oldest first. Their names in the cache are in scripts/setup.sh too.
pub const ALL: [Version; 5] = [
    Version { name: "Redis 6.2", cached: Some("redis-6.2.5") },
    Version { name: "Redis 7.0", cached: None },
    Version { name: "Redis 8.2", cached: Some("redis-8.2.3") },
    Version { name: "Valkey 8.1", cached: Some("valkey-8.1.8") },
    Version { name: "Valkey 9.1", cached: Some("valkey-9.1.2") },
];

impl Version {
    /// The program.
    pub fn program(self) -> String {
        match self.cached {
            None => "redis-server".to_owned(),
            Some(name) => brokers::redis_server(name)
                .unwrap_or_else(|e| panic!("{e}"))
                .to_str()
                .expect("a path of text")
                .to_owned(),
        }
    }

    /// The options of a server of this version, without limits.
    pub fn options(self) -> ServerOptions {
        ServerOptions::default().program(&self.program())
    }

    /// Whether the version has rights on single keys.
    pub fn has_selectors(self) -> bool {
        self.options().major() >= 7
    }
}
