//! The half of a URL that is fixed: scheme, host and port.
//!
//! Messages never repeat a part of the URL: any part may be a secret.

use std::fmt;

use delaybridge_dial::Address;
use delaybridge_settings::url::host_and_port;

/// The remedy of a connection that needs no TLS.
pub const PLAIN: &str = "write `http://`";

/// The server of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpOrigin {
    /// `https`.
    pub tls: bool,
    /// Host name or address; an IPv6 address without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl HttpOrigin {
    /// Returns the address of the server.
    pub fn address(&self) -> Address {
        Address::tcp(&self.host, self.port)
    }

    /// Returns `host`, or `host:port` where the port is not the scheme's own.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == default_port(self.tls) { host } else { format!("{host}:{}", self.port) }
    }
}

impl fmt::Display for HttpOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.authority())
    }
}

/// Returns the port of a scheme.
pub fn default_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

/// Splits a URL into its server, and the template of its path and query, which begins with `/`.
///
/// # Errors
/// What is wrong, and what to write instead.
pub fn split(url: &str) -> Result<(HttpOrigin, String), (&'static str, &'static str)> {
    const FORM: &str = "write `https://host/path`";
    let (scheme, rest) = url.split_once("://").ok_or(("the URL has no scheme", FORM))?;
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "https" => true,
        "http" => false,
        _ => return Err(("the scheme is neither `https` nor `http`", FORM)),
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if authority.contains('$') {
        return Err(("only the path and the query can be templates", "write a sink for each server"));
    }
    if authority.contains('@') {
        let help = "use `bearer_token_file`, or `headers: { authorization: \"Basic ${BASIC_AUTH}\" }`";
        return Err(("the URL has a user or a password", help));
    }
    if !authority.is_ascii() {
        return Err(("the host has a letter outside of ASCII", "write it in its form for DNS, `xn--...`"));
    }
    let (host, port) = host_and_port(authority, default_port(tls)).map_err(|why| (why, FORM))?;
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Ok((HttpOrigin { tls, host, port }, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_split_behind_its_server() {
        let rows = [
            ("https://hooks/orders", "https://hooks", "/orders"),
            ("HTTP://Hooks:8080/a?b=${id}", "http://Hooks:8080", "/a?b=${id}"),
            ("https://hooks:443", "https://hooks", "/"),
            ("https://hooks:80?a", "https://hooks:80", "/?a"),
            ("http://[::1]:8080/x/", "http://[::1]:8080", "/x/"),
            ("http://10.0.0.1/${payload.a:-b/c}", "http://10.0.0.1", "/${payload.a:-b/c}"),
        ];
        for (url, origin, path) in rows {
            let (read, rest) = split(url).unwrap_or_else(|(why, _)| panic!("{url}: {why}"));
            assert_eq!((read.to_string().as_str(), rest.as_str()), (origin, path), "{url}");
        }
        let rows = [
            ("hooks/orders", "no scheme"),
            ("ftp://hooks/", "neither `https` nor `http`"),
            ("https://${id}.hooks/", "only the path and the query"),
            ("https://me:geheim@hooks/", "a user or a password"),
            ("https://höks/", "outside of ASCII"),
            ("https:///orders", "no host is named"),
            ("https://hooks:0/", "the port is not a number"),
        ];
        for (url, words) in rows {
            let (why, _) = split(url).unwrap_err();
            assert!(why.contains(words), "{url}: {why}");
            assert!(!why.contains("geheim"));
        }
    }
}
