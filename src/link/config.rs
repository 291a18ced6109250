//! The keys of a Redis server: of the one with the queues, or of a sink's own. Both have the same.

use std::sync::Arc;

use super::endpoint::RedisEndpoint;
use super::url::RedisUrl;
use crate::settings::keys::{Group, Key, Kind, duration, key, tables};
use crate::settings::reader::Section;
use crate::settings::{Secret, secrets, tls};

/// The keys beside `url`; they mean nothing without one.
pub(crate) const CONNECTION: &[Key] =
    &[USERNAME, secrets::PASSWORD, secrets::PASSWORD_FILE, TLS, CONNECT_TIMEOUT, COMMAND_TIMEOUT];

const USERNAME: Key = key("username", Kind::Text, "ACL user, instead of one in the URL.");
const TLS: Key = key("tls", Kind::Section(&tls::TABLE), "Certificates, for `rediss://`.");
const CONNECT_TIMEOUT: Key = key("connect_timeout", duration(1), "For TCP, TLS and login together.").default("5s");
const COMMAND_TIMEOUT: Key = key("command_timeout", duration(1), "For one command or script.").default("5s");

tables! {
    mod redis at "redis", "Address and login of the Redis with the queues." {
        URL = key("url", Kind::Secret, "`redis://[user[:password]@]host[:port][/database]`, or `rediss://` for TLS. Write IPv6 addresses in brackets, and percent-encode special characters.").required();
        CLUSTER = planned("cluster", "Nodes of a Redis Cluster.");
        SENTINEL = planned("sentinel", "Sentinels that know the master.");
    } + &[Group { of: None, keys: CONNECTION }]
}

/// The server under `section`; `None` when `url` is left out or wrong.
pub(crate) fn endpoint(section: &Section<'_>) -> Option<Arc<RedisEndpoint>> {
    let report = &section.cx.report;
    let url_spot = section.spot(&redis::URL);
    let username = section.text(&USERNAME).map(|name| name.value);
    let password = secrets::password(section, "REDIS_PASSWORD");
    let tls = section.opt_section(&TLS).map(|section| tls::files(&section));
    let connect_timeout = section.duration(&CONNECT_TIMEOUT);
    let command_timeout = section.duration(&COMMAND_TIMEOUT);

    let url = section.text(&redis::URL)?;
    let parsed = match RedisUrl::parse(&url.value) {
        Ok(parsed) => parsed,
        Err(problem) => {
            report.problem(&url_spot, problem, RedisUrl::help(&url.value));
            return None;
        }
    };
    // Only a literal value is in the file itself; a variable keeps it out.
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
    if tls.is_some() && !parsed.tls {
        let help = "write `rediss://`, or remove `tls`";
        report.problem(&section.spot(&TLS), "`tls` has no effect, because the URL is redis://", help);
    }
    let username = parsed.username.or(username);
    let password = parsed.password.map(Secret::Literal).or(password);
    if username.is_some() && password.is_none() {
        let help = "Redis logs a user in by name and password";
        report.problem(&url_spot, "there is a user, but no password", help);
    }
    Some(Arc::new(RedisEndpoint {
        host: parsed.host,
        port: parsed.port,
        tls: parsed.tls.then(|| tls.unwrap_or_default()),
        database: parsed.database,
        username,
        password,
        connect_timeout,
        command_timeout,
    }))
}
