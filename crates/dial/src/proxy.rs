//! Connections through an HTTP proxy (`CONNECT`).

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret, SecretString};
use tokio::io::AsyncReadExt;

use delaybridge_settings::url::{decoded, host_and_port};

use crate::{Address, DialError, DialStream, Phase};

/// Longest head of a proxy's answer.
const HEAD: usize = 8 << 10;
/// The port of a proxy whose URL has none.
const PORT: u16 = 3128;

/// An HTTP proxy.
pub struct Proxy {
    to: Address,
    /// The value of `Proxy-Authorization`.
    login: Option<SecretString>,
}

/// Never shows the login.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({})", self.to)
    }
}

/// The address, without the login.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to.fmt(f)
    }
}

impl Proxy {
    /// Parses `http://[user[:password]@]host[:port]`; the scheme may be left out. The error quotes nothing.
    ///
    /// # Errors
    ///
    /// What is wrong.
    pub fn parse(url: &str) -> Result<Proxy, &'static str> {
        let rest = match url.split_once("://") {
            None => url,
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some(_) => {
                return Err(
                    "the URL of a proxy begins with `http://`; what goes through it is encrypted as without it",
                );
            }
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#']) {
            return Err(
                "the URL of a proxy has a host and a port, and no path; in a password, percent-encode special characters",
            );
        }
        let (login, address) = rest.rsplit_once('@').map_or(("", rest), |(login, address)| (login, address));
        let (host, port) = host_and_port(address, PORT)?;
        let login = match login {
            "" => None,
            login => {
                let (user, password) = login.split_once(':').unwrap_or((login, ""));
                let login = format!("{}:{}", decoded(user)?, decoded(password)?);
                Some(SecretString::from(format!("Basic {}", STANDARD.encode(login))))
            }
        };
        Ok(Proxy { to: Address::tcp(host, port), login })
    }

    /// Returns whether its URL has a login.
    pub fn has_login(&self) -> bool {
        self.login.is_some()
    }

    /// Returns the address at which it listens.
    pub(crate) fn address(&self) -> &Address {
        &self.to
    }

    /// Asks the proxy for a connection to a server.
    pub(crate) async fn tunnel(&self, mut stream: DialStream, to: &Address) -> Result<DialStream, DialError> {
        let login = self.login.as_ref().map(|login| format!("Proxy-Authorization: {}\r\n", login.expose_secret()));
        let login = login.unwrap_or_default();
        let request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{login}\r\n");
        stream.ask(request.as_bytes()).await.map_err(|error| self.broken(&error))?;
        let mut head = Vec::new();
        // What follows the head is the server's, so no byte more is read.
        while !head.ends_with(b"\r\n\r\n") && !head.ends_with(b"\n\n") {
            if head.len() == HEAD {
                return Err(self.refused("its answer does not end: check that it is an HTTP proxy"));
            }
            head.push(stream.read_u8().await.map_err(|error| self.broken(&error))?);
        }
        match status(&head) {
            Some(200..=299) => Ok(stream),
            Some(407) => Err(self.refused("it asks for a login (407): write user and password in its URL")),
            Some(code @ (401 | 403 | 405)) => {
                Err(self.refused(&format!("it does not connect to {to} ({code}): allow that there")))
            }
            Some(code) => Err(DialError::passing(
                Phase::Connect,
                format!(
                    "connect through proxy {self}: it cannot connect to {to} ({code}): check that the server can be reached from it"
                ),
            )),
            None => Err(self.refused("its answer is not HTTP: check that it is an HTTP proxy")),
        }
    }

    fn refused(&self, why: &str) -> DialError {
        DialError::permanent(Phase::Connect, format!("connect through proxy {self}: {why}"))
    }

    fn broken(&self, error: &std::io::Error) -> DialError {
        let text =
            format!("connect through proxy {self}: no answer ({error}): check that it is an HTTP proxy, and its log");
        DialError::passing(Phase::Connect, text)
    }
}

fn status(head: &[u8]) -> Option<u16> {
    let line = head.split(|&byte| byte == b'\n').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    words.next()?.strip_prefix("HTTP/1.")?;
    words.next().filter(|code| code.len() == 3)?.parse().ok()
}

/// The rule for connections that go through a proxy.
#[derive(Debug, Clone, Default)]
pub enum ProxyChoice {
    /// The variables `HTTPS_PROXY` and `NO_PROXY`, for connections with TLS.
    #[default]
    Environment,
    /// None.
    Direct,
    /// A named proxy.
    Through(Arc<Proxy>),
}

impl ProxyChoice {
    /// Finds the proxy for a server.
    ///
    /// # Errors
    ///
    /// The variable cannot be read.
    pub fn of(&self, to: &Address, encrypted: bool) -> Result<Option<Arc<Proxy>>, DialError> {
        static VARIABLES: LazyLock<Variables> = LazyLock::new(|| Variables::of(|name| std::env::var(name).ok()));
        match self {
            ProxyChoice::Environment => VARIABLES.proxy(to, encrypted),
            ProxyChoice::Direct => Ok(None),
            ProxyChoice::Through(proxy) => Ok(Some(proxy.clone())),
        }
    }
}

/// The variables of the environment, by the rules that curl has for them.
struct Variables {
    https: Option<Result<Arc<Proxy>, &'static str>>,
    /// Servers that are reached without a proxy.
    except: Vec<String>,
}

impl Variables {
    fn of(variable: impl Fn(&str) -> Option<String>) -> Variables {
        let either =
            |lower: &str, upper: &str| variable(lower).or_else(|| variable(upper)).filter(|text| !text.is_empty());
        let https = either("https_proxy", "HTTPS_PROXY").map(|url| Proxy::parse(&url).map(Arc::new));
        let except = either("no_proxy", "NO_PROXY").unwrap_or_default();
        let except = except.split([',', ' ']).map(str::trim).filter(|name| !name.is_empty());
        Variables { https, except: except.map(str::to_ascii_lowercase).collect() }
    }

    fn proxy(&self, to: &Address, encrypted: bool) -> Result<Option<Arc<Proxy>>, DialError> {
        let (Address::Tcp { host, port }, Some(https), true) = (to, &self.https, encrypted) else { return Ok(None) };
        let host = host.to_ascii_lowercase();
        let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        if is_here || self.except.iter().any(|except| is_excepted(except, &host, *port)) {
            return Ok(None);
        }
        let unusable =
            |why: &&str| DialError::permanent(Phase::Connect, format!("read the variable HTTPS_PROXY: {why}"));
        https.as_ref().map(|proxy| Some(proxy.clone())).map_err(unusable)
    }
}

/// Returns whether an entry of `NO_PROXY` means this host: `*`, a name with all names below it, an address, a network;
/// all but the first may have a port.
fn is_excepted(except: &str, host: &str, port: u16) -> bool {
    if except == "*" {
        return true;
    }
    let (name, wanted) = match except.rsplit_once(':') {
        Some((name, text)) if !name.contains(':') || name.ends_with(']') => match text.parse::<u16>() {
            Ok(wanted) => (name, Some(wanted)),
            Err(_) => (except, None),
        },
        _ => (except, None),
    };
    if wanted.is_some_and(|wanted| wanted != port) {
        return false;
    }
    let name = name.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = host.parse::<IpAddr>() {
        return match name.split_once('/') {
            None => name.parse() == Ok(address),
            Some((network, bits)) => is_in(address, network, bits).unwrap_or(false),
        };
    }
    let name = name.trim_start_matches("*.").trim_start_matches('.');
    host.strip_suffix(name).is_some_and(|rest| !name.is_empty() && (rest.is_empty() || rest.ends_with('.')))
}

fn is_in(address: IpAddr, network: &str, bits: &str) -> Option<bool> {
    let network = network.parse::<IpAddr>().ok()?;
    let bits = bits.parse::<u32>().ok()?;
    let (one, other, width) = match (address, network) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (u128::from(one.to_bits()), u128::from(other.to_bits()), 32),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits(), other.to_bits(), 128),
        _ => return None,
    };
    let behind = u32::checked_sub(width, bits)?;
    Some(one.checked_shr(behind).unwrap_or(0) == other.checked_shr(behind).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attempt, Options};
    use std::time::Duration;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    #[test]
    fn a_url_of_a_proxy_is_read_and_its_login_never_shown() {
        let of = |url: &str| Proxy::parse(url).map(|proxy| (proxy.to.to_string(), proxy.has_login()));
        let rows = [
            ("http://proxy:8080", Ok(("proxy:8080", false))),
            ("proxy", Ok(("proxy:3128", false))),
            ("HTTP://user:pa%40ss@[::1]:1/", Ok(("[::1]:1", true))),
            ("https://proxy", Err("begins with `http://`")),
            ("http://proxy/path", Err("no path")),
            ("http://", Err("no host")),
        ];
        for (url, expected) in rows {
            match (of(url), expected) {
                (Ok((to, login)), Ok(expected)) => assert_eq!((&*to, login), expected, "{url}"),
                (Err(why), Err(words)) => assert!(why.contains(words), "{url}: {why}"),
                other => panic!("{url}: {other:?}"),
            }
        }
        let proxy = Proxy::parse("http://user:geheim@proxy").unwrap();
        let encoded = STANDARD.encode("user:geheim");
        assert_eq!(proxy.login.as_ref().unwrap().expose_secret(), format!("Basic {encoded}"));
        for shown in [format!("{proxy:?}"), proxy.to_string(), proxy.refused("x").to_string()] {
            assert!(!shown.contains("geheim") && !shown.contains(&encoded), "{shown}");
        }
    }

    #[test]
    fn variables_say_which_servers_have_a_proxy() {
        let check = |no_proxy: &str, host: &str, port: u16, expected: bool| {
            let variables = Variables::of(|name| match name {
                "HTTPS_PROXY" => Some("http://proxy:8080".to_owned()),
                "no_proxy" => Some(no_proxy.to_owned()),
                _ => None,
            });
            let found = variables.proxy(&Address::tcp(host, port), true).unwrap().is_some();
            assert_eq!(found, expected, "{no_proxy} and {host}:{port}");
            assert!(variables.proxy(&Address::tcp(host, port), false).unwrap().is_none(), "only TLS");
        };
        check("", "hooks.example", 443, true);
        check("", "localhost", 443, false);
        check("", "127.0.0.2", 443, false);
        check("*", "hooks.example", 443, false);
        check("example", "hooks.Example", 443, false);
        check(".example, other", "hooks.example", 443, false);
        check("*.example", "example", 443, false);
        check("ample", "hooks.example", 443, true);
        check("hooks.example:8443", "hooks.example", 443, true);
        check("hooks.example:443", "hooks.example", 443, false);
        check("10.0.0.0/8", "10.9.8.7", 443, false);
        check("10.0.0.0/8", "11.9.8.7", 443, true);
        check("10.0.0.0/0", "11.9.8.7", 443, false);
        check("fd00::/8", "fd12::1", 443, false);
        check("fd00::/8", "fe80::1", 443, true);
        check("10.0.0.1", "10.0.0.1", 443, false);
        check("[fd12::1]:443", "fd12::1", 443, false);
        check("10.0.0.0/99", "10.0.0.1", 443, true);
        let wrong = Variables::of(|name| (name == "https_proxy").then(|| "socks5://user:geheim@p".to_owned()));
        let error = wrong.proxy(&Address::tcp("hooks.example", 443), true).unwrap_err();
        assert!(
            error.needs_a_person() && error.to_string().contains("HTTPS_PROXY: the URL of a proxy begins"),
            "{error}"
        );
        assert!(!error.to_string().contains("geheim"));
    }

    /// Connects through a proxy that answers this; what it was asked, and the outcome with the first byte of the server.
    async fn through(answer: &'static [u8]) -> (String, Result<u8, DialError>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let proxy = Proxy::parse(&format!("http://user:geheim@127.0.0.1:{port}")).unwrap();
        let options = Options { proxy: Some(Arc::new(proxy)), ..Options::default() };
        let attempt = Attempt::new(false, "");
        let client = async {
            // A name that only the proxy knows.
            let mut stream = attempt.open_with(&Address::tcp("server.invalid", 443), None, options).await?;
            Ok(stream.read_u8().await.unwrap())
        };
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                asked.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(answer).await.unwrap();
            stream.shutdown().await.unwrap();
            String::from_utf8(asked).unwrap()
        };
        let both = async { tokio::join!(client, server) };
        let (got, asked) = tokio::time::timeout(Duration::from_secs(30), both).await.unwrap();
        (asked, got)
    }

    #[tokio::test]
    async fn a_connection_goes_through_a_proxy_or_says_why_not() {
        let (asked, got) = through(b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n!").await;
        assert_eq!(got, Ok(b'!'), "not a byte of the server is lost");
        let login = STANDARD.encode("user:geheim");
        let expected = format!(
            "CONNECT server.invalid:443 HTTP/1.1\r\nHost: server.invalid:443\r\nProxy-Authorization: Basic {login}\r\n\r\n"
        );
        assert_eq!(asked, expected);
        let rows: [(&[u8], bool, &str); 5] = [
            (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", true, "asks for a login (407)"),
            (b"HTTP/1.0 403 Forbidden\r\n\r\n", true, "does not connect to server.invalid:443 (403)"),
            (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", false, "cannot connect to server.invalid:443 (502)"),
            (b"220 mail.example ESMTP\r\n\r\n", true, "is not HTTP"),
            (b"HTTP/1.1 200 OK\r\n", false, "no answer"),
        ];
        for (answer, needs_a_person, words) in rows {
            let error = through(answer).await.1.unwrap_err();
            assert_eq!((error.phase(), error.needs_a_person()), (Phase::Connect, needs_a_person), "{error}");
            assert!(error.to_string().contains(words) && error.to_string().contains("proxy 127.0.0.1:"), "{error}");
            assert!(!error.to_string().contains("geheim"), "{error}");
        }
    }
}
