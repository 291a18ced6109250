//! The settings that accompany the location: login, certificates, time-outs.

use std::time::Duration;

use super::super::endpoint::RedisEndpoint;
use super::super::key_space::KeyPrefix;
use delaybridge_settings::keys::Key;
use delaybridge_settings::reader::{Section, clip};
use delaybridge_settings::{Secret, Settings, TlsFiles, secrets, tls};

/// The settings that accompany the location: login, certificates, time-outs.
#[derive(Settings)]
#[settings(connection, at = "redis")]
pub(super) struct Beside {
    /// Database number; with `url`, write it in the URL.
    #[key(count(0, 1_000_000))]
    pub(super) database: Option<u32>,
    /// [Prefix](redis.md#prefix) of the daemon's keys and channels. Ends with `:`. Drain the queues before you change
    /// it.
    #[key(Kind::Text, default = "delaybridge:", read = key_prefix, hidden)]
    pub(super) key_prefix: KeyPrefix,
    /// ACL user, if the URL has none.
    #[key(Kind::Text)]
    pub(super) username: Option<String>,
    /// The password.
    #[settings(keys(secrets::PASSWORD, secrets::PASSWORD_FILE), read = password)]
    pub(super) password: Option<Secret>,
    /// Certificates for `rediss://`. With `sentinel` or `cluster` it enables TLS; `{}` trusts the system's authorities.
    #[key(Kind::Section(&tls::TABLE))]
    pub(super) tls: Option<TlsFiles>,
    /// Timeout for TCP, TLS and login together.
    #[key(duration(1), default = "5s")]
    pub(super) connect_timeout: Duration,
    /// Timeout for one command or script.
    #[key(duration(1), default = "5s")]
    pub(super) command_timeout: Duration,
}

fn password(section: &Section<'_>) -> Option<Secret> {
    secrets::password(section, "REDIS_PASSWORD")
}

fn key_prefix(section: &Section<'_>, key: &Key) -> KeyPrefix {
    let Some(written) = section.text(key) else { return KeyPrefix::default() };
    written.value.parse().unwrap_or_else(|error| {
        let message = format!("`{}` is no prefix of keys", clip(&written.written));
        section.cx.report.problem(&written.spot, message, format!("{error}, as in `team-a:`"));
        KeyPrefix::default()
    })
}

impl Beside {
    /// Returns the settings that all servers have in common, without host and port.
    pub(super) fn servers(self, section: &Section<'_>) -> RedisEndpoint {
        needs_password(section, &self.username, &self.password);
        RedisEndpoint {
            host: String::new(),
            port: 0,
            socket: None,
            tls: self.tls,
            database: self.database.unwrap_or(0),
            key_prefix: self.key_prefix,
            username: self.username,
            password: self.password,
            connect_timeout: self.connect_timeout,
            command_timeout: self.command_timeout,
        }
    }
}

/// Reports a user without a password.
pub(super) fn needs_password(section: &Section<'_>, username: &Option<String>, password: &Option<Secret>) {
    if username.is_some() && password.is_none() {
        let help = "Redis logs a user in by name and password";
        section.cx.report.problem(&section.spot(&connection::USERNAME), "there is a user, but no password", help);
    }
}
