//! Addresses of hosts, as their `toString` returns them, without the slash before an address that has no name.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Number, Value};

use super::super::value::Item;
use super::part::{Part, number, text};

/// Formats an `InetAddress`: `shop.example/127.0.0.1`.
pub(super) fn address(part: &Part) -> Option<String> {
    let bits = number(part, "address").and_then(Number::as_i64).and_then(|bits| i32::try_from(bits).ok())?;
    let address = Ipv4Addr::from(bits.cast_unsigned());
    Some(named(text(part, "hostName"), &address.to_string()))
}

/// Formats an `Inet6Address`: `2001:db8:0:0:0:0:0:1`, with its scope.
pub(super) fn address_6(part: &Part, name: Option<&str>) -> Option<String> {
    let bytes = part.fields.iter().find_map(|(field, item)| match item {
        Item::Bytes(bytes) if field == "ipaddress" => <[u8; 16]>::try_from(bytes.as_slice()).ok(),
        _ => None,
    })?;
    let groups = Ipv6Addr::from(bytes).segments().map(|group| format!("{group:x}"));
    let mut address = groups.join(":");
    let is_set = |flag: &str| {
        part.fields.iter().any(|(field, item)| field == flag && matches!(item, Item::Json(Value::Bool(true))))
    };
    if let Some(interface) = text(part, "ifname").filter(|_| is_set("scope_ifname_set")) {
        address.push('%');
        address.push_str(interface);
    } else if let Some(scope) = number(part, "scope_id").filter(|_| is_set("scope_id_set")) {
        address.push_str(&format!("%{scope}"));
    }
    Some(named(name, &address))
}

fn named(name: Option<&str>, address: &str) -> String {
    match name {
        Some(name) if !name.is_empty() => format!("{name}/{address}"),
        _ => address.to_owned(),
    }
}

/// Formats an `InetSocketAddress`: `shop.example/127.0.0.1:6379`, `[0:0:0:0:0:0:0:1]:80`. One that is not resolved has a
/// name only.
pub(super) fn socket(part: &Part) -> Option<String> {
    let port = number(part, "port")?;
    let Some(host) = text(part, "addr") else { return Some(format!("{}:{port}", text(part, "hostname")?)) };
    let (name, address) = host.rsplit_once('/').map_or(("", host), |(name, address)| (name, address));
    let slash = if name.is_empty() { "" } else { "/" };
    let address = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    Some(format!("{name}{slash}{address}:{port}"))
}
