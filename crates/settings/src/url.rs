//! Parts that all URLs have.
//!
//! Messages never repeat a part of the URL: any part may be the password in the wrong place.

/// Reads `host[:port]`; IPv6 addresses are in brackets.
pub fn host_and_port(address: &str, default_port: u16) -> Result<(String, u16), &'static str> {
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("the IPv6 address has no closing `]`")?;
            if host.parse::<std::net::Ipv6Addr>().is_err() {
                return Err("the text in brackets is not an IPv6 address");
            }
            match port {
                "" => (host, None),
                _ => (host, Some(port.strip_prefix(':').ok_or("after `]` comes `:` and the port")?)),
            }
        }
        None if address.matches(':').count() > 1 => return Err("an IPv6 address needs brackets, as in [::1]"),
        None => address.split_once(':').map_or((address, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err("no host is named");
    }
    if host.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("the host has a space in it");
    }
    let port = match port {
        None => default_port,
        Some(port) => port.parse().ok().filter(|&port| port != 0).ok_or("the port is not a number from 1 to 65535")?,
    };
    Ok((host.to_owned(), port))
}

/// Returns `host:port`, with brackets around IPv6 addresses.
pub fn host_with_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Undoes percent-encoding.
pub fn decoded(text: &str) -> Result<String, &'static str> {
    const BAD: &str = "there is a `%` that is not followed by two hexadecimal digits; write it `%25`";
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = tail;
            continue;
        }
        let digits = tail.get(..2).ok_or(BAD)?;
        let mut decoded = [0];
        hex::decode_to_slice(digits, &mut decoded).map_err(|_| BAD)?;
        bytes.push(decoded[0]);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).map_err(|_| "a part of the URL is not UTF-8 after percent-decoding")
}
