//! Reads `amqp://[user[:password]@]host[:port][/vhost]` and `amqps://`, as RabbitMQ's URI specification says.
//!
//! Messages never repeat a part of the URL: any part may be the password in the wrong place.

use secrecy::{ExposeSecret as _, SecretString};

use delaybridge_settings::url::{decoded, host_and_port};

#[derive(Debug)]
pub(super) struct AmqpUrl {
    pub(super) tls: bool,
    pub(super) username: Option<String>,
    pub(super) password: Option<SecretString>,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) vhost: String,
}

impl AmqpUrl {
    /// Reads `text`; the error says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<AmqpUrl, &'static str> {
        let (tls, rest) = if let Some(rest) = text.strip_prefix("amqp://") {
            (false, rest)
        } else if let Some(rest) = text.strip_prefix("amqps://") {
            (true, rest)
        } else {
            return Err("the URL does not begin with amqp:// or amqps://");
        };
        if rest.contains(['?', '#']) {
            return Err(
                "the URL has a `?` or `#`: parameters have keys of their own; in a password, percent-encode them",
            );
        }
        let (authority, path) = rest.split_once('/').map_or((rest, None), |(authority, path)| (authority, Some(path)));
        if path.is_some_and(|path| path.contains('@')) {
            return Err("there is a `/` before the `@`; in a user or password it is written `%2F`");
        }
        let (login, address) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (username, password) = login.split_once(':').unwrap_or((login, ""));
        let (host, port) = host_and_port(address, if tls { 5671 } else { 5672 })?;
        let vhost = match path {
            None => "/".to_owned(),
            // The specification makes it the vhost without a name, which does not exist in practice; most users mean `/`.
            Some("") => return Err("the `/` at the end names a vhost without a name: remove it for the vhost `/`"),
            Some(path) if path.contains('/') => return Err("a `/` within the vhost's name is written `%2F`"),
            Some(path) => decoded(path)?,
        };
        let password = Some(decoded(password)?).filter(|password| !password.is_empty()).map(SecretString::from);
        let username = Some(decoded(username)?).filter(|username| !username.is_empty());
        Ok(AmqpUrl { tls, username, password, host, port, vhost })
    }

    /// Returns in what another node of the cluster differs that must be the same.
    pub(super) fn differs(&self, other: &AmqpUrl) -> Option<&'static str> {
        let password = |url: &AmqpUrl| url.password.as_ref().map(|password| password.expose_secret().to_owned());
        match () {
            () if self.tls != other.tls => Some("scheme"),
            () if self.vhost != other.vhost => Some("vhost"),
            () if self.username != other.username => Some("user"),
            () if password(self) != password(other) => Some("password"),
            () => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read() {
        fn check(text: &str, expected: &str) {
            let got = AmqpUrl::parse(text).map(|url| {
                let password = url.password.as_ref().map(|password| password.expose_secret().to_owned());
                let tls = url.tls;
                let host = url.host;
                let port = url.port;
                let vhost = url.vhost;
                format!("{tls} {:?} {password:?} {host} {port} {vhost}", url.username)
            });
            assert_eq!(got.unwrap_or_else(str::to_owned), expected, "{text}");
        }
        check("amqp://h", "false None None h 5672 /");
        check("amqps://h", "true None None h 5671 /");
        check("amqps://h:1/shop", "true None None h 1 shop");
        check("amqp://h/%2F", "false None None h 5672 /");
        check("amqp://h/%2Fa%20b", "false None None h 5672 /a b");
        check("amqp://u:p%40%3a@h/v", r#"false Some("u") Some("p@:") h 5672 v"#);
        check("amqp://a@b:c@h", r#"false Some("a@b") Some("c") h 5672 /"#);
        check("amqp://[::1]:7/v", "false None None ::1 7 v");
        check("amqp://h/", "the `/` at the end names a vhost without a name: remove it for the vhost `/`");
        check("amqp://h/a/b", "a `/` within the vhost's name is written `%2F`");
        check("amqp://:pa/ss@h", "there is a `/` before the `@`; in a user or password it is written `%2F`");
        check(
            "amqp://h/v?heartbeat=5",
            "the URL has a `?` or `#`: parameters have keys of their own; in a password, percent-encode them",
        );
        check("http://h", "the URL does not begin with amqp:// or amqps://");
        check("amqp://", "no host is named");
        check("amqp://h:0", "the port is not a number from 1 to 65535");
        check("amqp://h/%zz", "there is a `%` that is not followed by two hexadecimal digits; write it `%25`");
    }
}
