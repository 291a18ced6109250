//! Parses `redis://[user[:password]@]host[:port][/database]`, `rediss://`, and `unix:///path[?db=database]`.
//!
//! Messages never quote a part of the URL, because any part may be a misplaced password.

use std::path::PathBuf;

use secrecy::SecretString;

use delaybridge_settings::url::{decoded, host_and_port};

/// The parts of a URL.
#[derive(Debug)]
pub(super) struct RedisUrl {
    pub(super) tls: bool,
    pub(super) username: Option<String>,
    pub(super) password: Option<SecretString>,
    pub(super) host: String,
    pub(super) port: u16,
    /// The path of a Unix socket; host and port are without meaning then.
    pub(super) socket: Option<PathBuf>,
    pub(super) database: u32,
}

/// Longest path of a socket, in bytes: the kernel has room for one more, which ends it.
const LONGEST_PATH: usize = 107;

impl RedisUrl {
    /// Returns a suggestion for a text that cannot be parsed.
    pub(super) fn help(text: &str) -> &'static str {
        let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
        match scheme {
            "sentinel" | "redis-sentinel" | "rediss-sentinel" | "redis+sentinel" | "rediss+sentinel" => {
                "Sentinel is written `sentinel: { master: NAME, nodes: [host:26379] }` in place of `url`; logins have keys of their own"
            }
            "redis-cluster" | "rediss-cluster" | "redis+cluster" => {
                "a cluster is written `cluster: [host:6379]` in place of `url`"
            }
            "unix" | "redis+unix" | "redis-socket" => {
                "write `unix:///run/redis/redis.sock`, with `?db=3` for a database; the login has keys of its own"
            }
            _ => "write `redis://host:6379/0`, `rediss://` for TLS, or `unix:///run/redis/redis.sock`",
        }
    }

    /// Parses a URL; the error says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<RedisUrl, &'static str> {
        // The other spelling is that of several clients.
        if let Some(rest) = text.strip_prefix("unix://").or_else(|| text.strip_prefix("redis+unix://")) {
            return RedisUrl::of_socket(rest);
        }
        let (tls, rest) = if let Some(rest) = text.strip_prefix("redis://") {
            (false, rest)
        } else if let Some(rest) = text.strip_prefix("rediss://") {
            (true, rest)
        } else {
            return Err("the URL does not begin with redis://, rediss:// or unix://");
        };
        if rest.contains(['?', '#']) {
            return Err(
                "the URL has a `?` or `#`: parameters have keys of their own; in a password, percent-encode them",
            );
        }
        if rest.split_once('/').is_some_and(|(_, path)| path.contains('@')) {
            return Err("there is a `/` before the `@`; in a user or password it is written `%2F`");
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, address) = authority.rsplit_once('@').map_or(("", authority), |(login, address)| (login, address));
        let (username, password) =
            login.split_once(':').map_or((login, ""), |(username, password)| (username, password));
        let (host, port) = host_and_port(address, 6379)?;
        let database = match path {
            "" => 0,
            path => path.parse().map_err(|_| "what follows the host is not a database number")?,
        };
        let password = Some(decoded(password)?).filter(|password| !password.is_empty()).map(SecretString::from);
        let username = Some(decoded(username)?).filter(|username| !username.is_empty());
        Ok(RedisUrl { tls, username, password, host, port, socket: None, database })
    }

    /// Parses what follows `unix://`.
    fn of_socket(rest: &str) -> Result<RedisUrl, &'static str> {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !path.starts_with('/') {
            return Err("the path of a socket begins with `/`, after `unix://`");
        }
        let path = decoded(path)?;
        if path.len() > LONGEST_PATH {
            return Err("the path of a socket has at most 107 bytes");
        }
        let database = match query.strip_prefix("db=") {
            Some(number) => number.parse().map_err(|_| "what follows `db=` is not a database number")?,
            None if query.is_empty() => 0,
            None => return Err("behind `?` only `db=` is possible"),
        };
        let host = "localhost".to_owned();
        let username = None;
        let password = None;
        let socket = Some(PathBuf::from(path));
        Ok(RedisUrl { tls: false, username, password, host, port: 0, socket, database })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret as _;

    #[test]
    fn a_socket_is_read() {
        fn check(text: &str, expected: &str) {
            let got = RedisUrl::parse(text).map(|url| format!("{} {}", url.socket.unwrap().display(), url.database));
            assert_eq!(got.unwrap_or_else(str::to_owned), expected, "{text}");
        }
        check("unix:///run/redis/redis.sock", "/run/redis/redis.sock 0");
        check("redis+unix:///run/redis%20of%20us.sock?db=3", "/run/redis of us.sock 3");
        check("unix://run/redis.sock", "the path of a socket begins with `/`, after `unix://`");
        check("unix://user:secret@/run/redis.sock", "the path of a socket begins with `/`, after `unix://`");
        check("unix:///run/redis.sock?db=x", "what follows `db=` is not a database number");
        check("unix:///run/redis.sock?password=x", "behind `?` only `db=` is possible");
        check(&format!("unix:///{}", "x".repeat(107)), "the path of a socket has at most 107 bytes");
        assert!(RedisUrl::parse(&format!("unix:///{}", "x".repeat(106))).is_ok());
    }

    #[test]
    fn a_url_is_read() {
        fn check(text: &str, expected: &str) {
            let got = RedisUrl::parse(text).map(|url| {
                let password = url.password.as_ref().map(|password| password.expose_secret().to_owned());
                let tls = url.tls;
                let host = url.host;
                let port = url.port;
                let database = url.database;
                format!("{tls} {:?} {password:?} {host} {port} {database}", url.username)
            });
            assert_eq!(got.unwrap_or_else(str::to_owned), expected, "{text}");
        }
        check("redis://h", "false None None h 6379 0");
        check("redis://h/", "false None None h 6379 0");
        check("rediss://h:1/3", "true None None h 1 3");
        check("redis://u:p@h", r#"false Some("u") Some("p") h 6379 0"#);
        check("redis://:p%40%3a@h", r#"false None Some("p@:") h 6379 0"#);
        check("redis://u@h", r#"false Some("u") None h 6379 0"#);
        check("redis://a@b:c@h", r#"false Some("a@b") Some("c") h 6379 0"#);
        check("redis://[::1]:7/2", "false None None ::1 7 2");
        check("redis://[fe80::1]", "false None None fe80::1 6379 0");
        check("redis://::1", "an IPv6 address needs brackets, as in [::1]");
        check("redis://[::1", "the IPv6 address has no closing `]`");
        check("redis://[x]", "the text in brackets is not an IPv6 address");
        check("redis://[::1]x", "after `]` comes `:` and the port");
        check("http://h", "the URL does not begin with redis://, rediss:// or unix://");
        check("redis://", "no host is named");
        check("redis://h:0", "the port is not a number from 1 to 65535");
        check("redis://h:x", "the port is not a number from 1 to 65535");
        check("redis://:pa/ss@h", "there is a `/` before the `@`; in a user or password it is written `%2F`");
        check("redis://h/x", "what follows the host is not a database number");
        check("redis://u:50%@h", "there is a `%` that is not followed by two hexadecimal digits; write it `%25`");
    }
}
