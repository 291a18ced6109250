//! A Redis server: the one with the queues, or a sink's own. Both have the same keys.

use std::path::PathBuf;
use std::sync::Arc;

use secrecy::SecretString;

use super::redis_url::RedisUrl;
use crate::config::keys::{redis, tls};
use crate::config::model::{RedisEndpoint, Secret, TlsFiles};
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
    let password = password(section);
    let tls = section.opt_section(&redis::TLS).map(|section| self::tls(&section));
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

fn password(section: &Section<'_>) -> Option<Secret> {
    let report = &section.cx.report;
    let literal = section.text(&redis::PASSWORD);
    let file = section.file(&redis::PASSWORD_FILE);
    if section.has(&redis::PASSWORD) && section.has(&redis::PASSWORD_FILE) {
        let spot = section.spot(&redis::PASSWORD);
        report.problem(&spot, "there is both `password` and `password_file`", "keep one of them");
    }
    if let Some((path, content)) = file {
        let first_line = content.split(|&byte| byte == b'\n').next().unwrap_or_default();
        if first_line.trim_ascii().is_empty() {
            let spot = section.spot(&redis::PASSWORD_FILE);
            report.problem(&spot, "the first line of the file is empty", "it is the password");
        } else if std::str::from_utf8(first_line).is_err() {
            let spot = section.spot(&redis::PASSWORD_FILE);
            report.problem(&spot, "the first line of the file is not UTF-8 text", "it is the password");
        }
        return Some(Secret::File(path));
    }
    let literal = literal?;
    if literal.written == literal.value {
        let help = "put it into a file of its own with `password_file`, or write `${REDIS_PASSWORD}`";
        report.warning(&literal.spot, "the password stands in the file in plain text", help);
    }
    Some(Secret::Literal(SecretString::from(literal.value)))
}

fn tls(section: &Section<'_>) -> TlsFiles {
    let pem = |key, what: &str| -> Option<PathBuf> {
        let (path, content) = section.file(key)?;
        let begin = content.windows(11).any(|window| window == b"-----BEGIN ");
        let fits = String::from_utf8_lossy(&content)
            .lines()
            .any(|line| line.starts_with("-----BEGIN ") && line.contains(what));
        if !fits {
            let found = if begin { "PEM, but" } else { "no PEM, so" };
            let message = format!("the file is {found} no {} is in it", what.to_lowercase());
            section.cx.report.problem(&section.spot(key), message, "the file begins with `-----BEGIN ...`");
        }
        Some(path)
    };
    let ca_file = pem(&tls::CA_FILE, "CERTIFICATE");
    let certificate = pem(&tls::CERT_FILE, "CERTIFICATE");
    let key = pem(&tls::KEY_FILE, "PRIVATE KEY");
    for (one, other) in [(&tls::CERT_FILE, &tls::KEY_FILE), (&tls::KEY_FILE, &tls::CERT_FILE)] {
        if section.has(one) && !section.has(other) {
            let message = format!("there is `{}`, but no `{}`", one.name, other.name);
            section.cx.report.problem(&section.spot(one), message, "a client certificate needs both");
        }
    }
    TlsFiles { ca_file, client: certificate.zip(key) }
}
