//! The keys of a Redis, for the queues' Redis and for a sink's own.

use std::sync::Arc;

use super::endpoint::RedisEndpoint;
use super::target::RedisTarget;
use super::url::RedisUrl;
use delaybridge_settings::keys::{Group, Key};
use delaybridge_settings::reader::{Scalar, Section};
use delaybridge_settings::{Secret, Settings};

mod beside;
pub mod cluster;
pub mod durability;
pub mod sentinel;

use self::beside::{Beside, connection};
pub use self::cluster::CLUSTER;
pub use self::sentinel::SENTINEL;

/// The keys that locate a Redis; exactly one is used.
pub const PLACES: &[Key] = &[redis::URL, SENTINEL, CLUSTER];
/// The keys for login, certificates and time-outs.
pub const CONNECTION: &[Key] = connection::OWN;

/// The Redis of the queues: `url`, `sentinel` or `cluster`.
#[derive(Settings)]
#[settings(redis, at = "redis", offered = BESIDE_URL, hidden)]
pub struct UrlKey {
    /// `redis://[user[:password]@]host[:port][/database]`, `rediss://` for TLS, or `unix:///path[?db=database]`. IPv6
    /// addresses are in brackets, special characters percent-encoded.
    #[key(Kind::Secret)]
    url: Option<Scalar>,
}

/// The keys behind `url`.
static BESIDE_URL: &[Group] = &[Group { of: None, keys: &[SENTINEL, CLUSTER] }, Group { of: None, keys: CONNECTION }];

/// Reads every Redis under the key with its name: one, or several that the user has named. `only` is the name of a
/// single one.
pub fn all(top: &Section<'_>, key: &Key, only: &str) -> Vec<(Arc<str>, RedisTarget)> {
    if top.is_named(key) {
        let named = top.named(key).into_iter();
        return named.filter_map(|(name, section)| Some((name.into(), required(&section, true)?))).collect();
    }
    required(&top.section(key), top.has(key)).map(|target| (only.into(), target)).into_iter().collect()
}

/// Reads the Redis of a section that must locate one.
fn required(section: &Section<'_>, written: bool) -> Option<RedisTarget> {
    // A value that is not a map is reported as such.
    let is_map = section.empty || !section.written().is_empty();
    if written && is_map && !PLACES.iter().any(|place| section.has(place)) {
        let help = "write `url: redis://host:6379/0`, `sentinel` with the name of the master and the sentinels, or `cluster` with some nodes";
        section.cx.report.problem(&section.spot, "`url` is missing", help);
    }
    target(section)
}

/// Reads the Redis of a section; `None` if it locates none, or if it is invalid.
pub fn target(section: &Section<'_>) -> Option<RedisTarget> {
    let beside = Beside::of(section);
    let written: Vec<_> = PLACES.iter().filter(|place| section.has(place)).collect();
    if let [first, second, ..] = written[..] {
        let message = format!("there is both `{}` and `{}`", first.name, second.name);
        section.cx.report.problem(&section.spot(second), message, "keep one of them");
    }
    if let Some(nodes) = section.opt_section(&SENTINEL) {
        return sentinel::read(&nodes, beside.servers(section));
    }
    if section.has(&CLUSTER) {
        return cluster::read(section, beside.servers(section));
    }
    Some(RedisTarget::Fixed(Arc::new(endpoint(section, beside)?)))
}

/// Reads the server of `url`; `None` if the key is missing or invalid.
fn endpoint(section: &Section<'_>, beside: Beside) -> Option<RedisEndpoint> {
    let report = &section.cx.report;
    let url_spot = section.spot(&redis::URL);
    let Beside { database, key_prefix, username, password, tls, connect_timeout, command_timeout } = beside;

    let url = UrlKey::of(section).url?;
    let parsed = match RedisUrl::parse(&url.value) {
        Ok(parsed) => parsed,
        Err(problem) => {
            report.problem(&url_spot, problem, RedisUrl::help(&url.value));
            return None;
        }
    };
    // Only a literal value is in the file itself, not the value of a variable.
    let in_file = |part: &str| !url.written.is_empty() && url.written == url.value && !part.is_empty();
    if parsed.password.is_some() && in_file("password") {
        let help = "put it into a file of its own with `password_file`, or write `${REDIS_PASSWORD}`";
        report.warning(&url_spot, "the URL holds a password in plain text", help);
    }
    if parsed.password.is_some() && password.is_some() {
        let help = "keep one of them";
        report.problem(&url_spot, "the password is in the URL and in a separate key", help);
    }
    if parsed.username.is_some() && username.is_some() {
        report.problem(&url_spot, "the user is in the URL and in `username`", "keep one of them");
    }
    if database.is_some() {
        let help = match parsed.socket {
            Some(_) => "write it behind the path: `unix:///run/redis/redis.sock?db=3`",
            None => "write it behind the host: `redis://host:6379/3`",
        };
        report.problem(&section.spot(&connection::DATABASE), "the database is a part of the URL", help);
    }
    if tls.is_some() && !parsed.tls {
        let (message, help) = match parsed.socket {
            Some(_) => ("`tls` has no effect on a Unix socket", "remove `tls`"),
            None => ("`tls` has no effect, because the URL is redis://", "write `rediss://`, or remove `tls`"),
        };
        report.problem(&section.spot(&connection::TLS), message, help);
    }
    let username = parsed.username.or(username);
    let password = parsed.password.map(Secret::Literal).or(password);
    if username.is_some() && password.is_none() {
        let help = "Redis logs a user in by name and password";
        report.problem(&url_spot, "there is a user, but no password", help);
    }
    Some(RedisEndpoint {
        host: parsed.host,
        port: parsed.port,
        socket: parsed.socket,
        tls: parsed.tls.then(|| tls.unwrap_or_default()),
        database: parsed.database,
        key_prefix,
        username,
        password,
        connect_timeout,
        command_timeout,
    })
}
