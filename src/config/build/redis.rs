//! A Redis server: the one with the queues, or a sink's own. Both have the same keys.

use std::sync::Arc;

use super::redis_url::RedisUrl;
use super::{secrets, tls};
use crate::config::keys::redis;
use crate::config::model::{RedisEndpoint, Secret};
use crate::config::reader::Section;

/// The server that holds the queues.
pub(super) fn source(section: &Section<'_>) -> Option<Arc<RedisEndpoint>> {
    endpoint(section)
}

/// The server under `section`; `None` when `url` is left out or wrong.
pub(super) fn endpoint(section: &Section<'_>) -> Option<Arc<RedisEndpoint>> {
    let report = &section.cx.report;
    let url_spot = section.spot(&redis::URL);
    let username = section.text(&redis::USERNAME).map(|name| name.value);
    let password = secrets::password(section, "REDIS_PASSWORD");
    let tls = section.opt_section(&redis::TLS).map(|section| tls::files(&section));
    let connect_timeout = section.duration(&redis::CONNECT_TIMEOUT);
    let command_timeout = section.duration(&redis::COMMAND_TIMEOUT);

    let url = section.text(&redis::URL)?;
    let parsed = match RedisUrl::parse(&url.value) {
        Ok(parsed) => parsed,
        Err(problem) => {
            report.problem(&url_spot, problem, "write `redis://host:6379/0`, or `rediss://` for TLS");
            return None;
        }
    };
    // Written out is what stands in the file itself; a variable keeps it out of there.
    let in_file = |part: &str| !url.written.is_empty() && url.written == url.value && !part.is_empty();
    if parsed.password.is_some() && in_file("password") {
        let help = "put it into a file of its own with `password_file`, or write `${REDIS_PASSWORD}`";
        report.warning(&url_spot, "the URL holds a password in plain text", help);
    }
    if parsed.password.is_some() && password.is_some() {
        let help = "keep one of them";
        report.problem(&url_spot, "the password stands in the URL and in a key of its own", help);
    }
    if parsed.username.is_some() && username.is_some() {
        report.problem(&url_spot, "the user stands in the URL and in `username`", "keep one of them");
    }
    if tls.is_some() && !parsed.tls {
        let help = "write `rediss://`, or remove `tls`";
        report.problem(&section.spot(&redis::TLS), "`tls` has no effect, because the URL is redis://", help);
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
