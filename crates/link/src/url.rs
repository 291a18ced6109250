//! Parses `redis://[user[:password]@]host[:port][/database]` and `rediss://`.
//!
//! Messages never quote a part of the URL, because any part may be a misplaced password.

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
    pub(super) database: u32,
}

impl RedisUrl {
    /// A suggestion for a text that cannot be parsed.
    pub(super) fn help(text: &str) -> &'static str {
        let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
        match scheme {
            "sentinel" | "redis-sentinel" | "rediss-sentinel" | "redis+sentinel" | "rediss+sentinel" => {
                "Sentinel is written `sentinel: { master: NAME, nodes: [host:26379] }` in place of `url`; logins have keys of their own"
            }
            "redis-cluster" | "rediss-cluster" | "redis+cluster" => {
                "a cluster is written `cluster: [host:6379]` in place of `url`"
            }
            "unix" | "redis+unix" | "redis-socket" => "a Unix socket is not available; write `redis://host:6379/0`",
            _ => "write `redis://host:6379/0`, or `rediss://` for TLS",
        }
    }

    /// Parses a URL; the error says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<RedisUrl, &'static str> {
        let (tls, rest) = if let Some(rest) = text.strip_prefix("redis://") {
            (false, rest)
        } else if let Some(rest) = text.strip_prefix("rediss://") {
            (true, rest)
        } else {
            return Err("the URL does not begin with redis:// or rediss://");
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
        Ok(RedisUrl { tls, username, password, host, port, database })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret as _;

    #[test]
    fn a_url_is_read() {
        fn check(text: &str, expected: &str) {
            let got = RedisUrl::parse(text).map(|url| {
                let password = url.password.as_ref().map(|password| password.expose_secret().to_owned());
                let (tls, host, port, database) = (url.tls, url.host, url.port, url.database);
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
        check("http://h", "the URL does not begin with redis:// or rediss://");
        check("redis://", "no host is named");
        check("redis://h:0", "the port is not a number from 1 to 65535");
        check("redis://h:x", "the port is not a number from 1 to 65535");
        check("redis://:pa/ss@h", "there is a `/` before the `@`; in a user or password it is written `%2F`");
        check("redis://h/x", "what follows the host is not a database number");
        check("redis://u:50%@h", "there is a `%` that is not followed by two hexadecimal digits; write it `%25`");
    }
}
