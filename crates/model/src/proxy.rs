//! A proxy that logs people in: the addresses that it is believed at, and the roles of the people that it names. Pure.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::role::{AccessGrant, AccessRole, AccessRoles, NamePattern};
use delaybridge_settings::keys::{Key, Kind};
use delaybridge_settings::reader::Section;
use delaybridge_settings::words::{Serialize, Serializer};
use delaybridge_settings::{Settings, shown};

/// An [authenticating proxy](admin.md#people-by-a-proxy) such as oauth2-proxy. Its headers name the person; requests
/// with them from other addresses are refused. From its addresses changes and payloads need the header or a token:
/// `127.0.0.1` here takes that right from other clients on the machine.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
#[settings(admin_proxy, at = "http.admin.proxy")]
pub struct ProxySpec {
    /// Addresses of the proxy: `10.0.0.7`, or `10.0.0.0/24`. Any process there can name any user. A Unix socket counts
    /// as `127.0.0.1`.
    #[key(Kind::Texts, required, read = addresses, show = shown::value)]
    pub addresses: Vec<AddressRange>,
    /// Header with the person's name. The proxy must replace a client's.
    #[key(Kind::Text, default = "X-Forwarded-User", read = header)]
    pub user_header: String,
    /// Header with the person's groups, separated by commas. The proxy must replace a client's, or remove it without
    /// groups.
    #[key(Kind::Text, default = "X-Forwarded-Groups", read = header)]
    pub groups_header: String,
    /// Roles of people: the sum of all entries that fit; without one, a person may do nothing.
    #[key(Kind::List(&proxy_role::TABLE), required, read = roles, show = shown::value)]
    pub roles: Vec<RoleRule>,
}

/// A role for a person or a group, or without both for everybody whom the proxy names.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
#[settings(proxy_role, at = "http.admin.proxy.roles[]")]
pub struct RoleRule {
    /// The person, exactly as the proxy writes it.
    #[key(Kind::Text)]
    pub user: Option<String>,
    /// The group, exactly as the proxy writes it.
    #[key(Kind::Text)]
    pub group: Option<String>,
    /// The role, as in `tokens_file`.
    #[key(words = AccessRoles, required)]
    pub role: AccessRole,
    /// Patterns of queues and topics, separated by commas; `*` is any text.
    #[key(Kind::Text, default = "*", read = queues, show = shown::value)]
    pub queues: NamePattern,
}

impl ProxySpec {
    /// Returns whether the headers of a client at this address are believed.
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|range| range.has(address))
    }

    /// Returns the roles of a person in these groups.
    pub fn grants(&self, user: &str, groups: &[&str]) -> Vec<AccessGrant> {
        let fits = |rule: &&RoleRule| {
            rule.user.as_ref().is_none_or(|name| name == user)
                && rule.group.as_ref().is_none_or(|group| groups.contains(&group.as_str()))
        };
        let grant = |rule: &RoleRule| AccessGrant { role: rule.role, queues: rule.queues.clone() };
        self.roles.iter().filter(fits).map(grant).collect()
    }
}

/// An address, or all addresses with the same first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    first: IpAddr,
    bits: u8,
}

impl AddressRange {
    /// Returns whether the address is in the range. An IPv4 address is the same in the form of IPv6.
    pub fn has(&self, address: IpAddr) -> bool {
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                same_bits(first.to_bits().into(), address.to_bits().into(), 32 - self.bits)
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => same_bits(first.to_bits(), address.to_bits(), 128 - self.bits),
            _ => false,
        }
    }
}

/// Returns whether two numbers are the same but for their last bits.
fn same_bits(one: u128, other: u128, last: u8) -> bool {
    (one ^ other).checked_shr(last.into()).unwrap_or(0) == 0
}

impl FromStr for AddressRange {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<AddressRange, &'static str> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let Ok(first) = address.parse::<IpAddr>() else { return Err("it is no IP address") };
        if first.to_canonical() != first {
            return Err("it is an IPv4 address in the form of IPv6; write it as IPv4");
        }
        let all = if first.is_ipv4() { 32 } else { 128 };
        let bits = match bits.map(str::parse) {
            None => all,
            Some(Ok(0)) => return Err("it has every address, from which everybody could name any user"),
            Some(Ok(bits)) if bits <= all => bits,
            Some(_) => return Err("the number of bits behind `/` is out of range"),
        };
        let range = AddressRange { first, bits };
        let last = all - bits;
        let rest = match first {
            IpAddr::V4(first) => u128::from(first.to_bits()),
            IpAddr::V6(first) => first.to_bits(),
        };
        match rest & !(u128::MAX.checked_shl(last.into()).unwrap_or(0)) {
            0 => Ok(range),
            _ => Err("the address has bits behind those of the range"),
        }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = if self.first.is_ipv4() { 32 } else { 128 };
        if self.bits == all { self.first.fmt(f) } else { write!(f, "{}/{}", self.first, self.bits) }
    }
}

impl Serialize for AddressRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn addresses(section: &Section<'_>, key: &Key) -> Vec<AddressRange> {
    let read = |text: delaybridge_settings::reader::Scalar| {
        let range = text.value.parse();
        let help = "write an address as `10.0.0.7`, or a range as `10.0.0.0/24`";
        range.map_err(|problem: &str| section.cx.report.problem(&text.spot, problem, help)).ok()
    };
    section.texts(key).into_iter().filter_map(read).collect()
}

fn header(section: &Section<'_>, key: &Key) -> String {
    let Some(text) = section.text(key) else { return String::new() };
    let plain = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'-';
    // Proxies and languages disagree about `_`, which a client could write in its place.
    if !text.value.bytes().all(plain) || text.value.len() > 64 {
        let help = "a name of a header has letters, digits and `-`, at most 64";
        section.cx.report.problem(&text.spot, "this is no name of a header that proxies agree about", help);
    }
    text.value
}

fn roles(section: &Section<'_>, key: &Key) -> Vec<RoleRule> {
    section.list(key).iter().map(RoleRule::of).collect()
}

fn queues(section: &Section<'_>, key: &Key) -> NamePattern {
    let Some(text) = section.text(key) else { return NamePattern::all() };
    NamePattern::read(&text.value).unwrap_or_else(|help| {
        section.cx.report.problem(&text.spot, "this is no pattern of names", help);
        NamePattern::all()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_the_addresses_with_its_first_bits() {
        for (range, address, has) in [
            ("10.0.0.7", "10.0.0.7", true),
            ("10.0.0.7", "10.0.0.8", false),
            ("10.0.0.7", "::ffff:10.0.0.7", true),
            ("10.0.0.0/24", "10.0.0.255", true),
            ("10.0.0.0/24", "10.0.1.0", false),
            ("128.0.0.0/1", "255.255.255.255", true),
            ("128.0.0.0/1", "127.255.255.255", false),
            ("::1", "::1", true),
            ("::1", "127.0.0.1", false),
            ("fd00::/8", "fdff::1", true),
            ("fd00::/8", "fe00::1", false),
            ("8000::/1", "7fff::", false),
        ] {
            let read: AddressRange = range.parse().unwrap();
            assert_eq!(read.has(address.parse().unwrap()), has, "{range} {address}");
            assert_eq!(read.to_string(), range);
        }
        for (text, expected) in [
            ("proxy", "no IP address"),
            ("10.0.0.0/33", "out of range"),
            ("10.0.0.0/x", "out of range"),
            ("10.0.0.0/-1", "out of range"),
            ("0.0.0.0/0", "every address"),
            ("::/0", "every address"),
            ("10.0.0.1/24", "bits behind"),
            ("fd00::1/8", "bits behind"),
            ("::ffff:10.0.0.7", "write it as IPv4"),
            ("", "no IP address"),
        ] {
            let problem = text.parse::<AddressRange>().unwrap_err();
            assert!(problem.contains(expected), "{text}: {problem}");
        }
    }

    #[test]
    fn each_rule_that_fits_adds_its_role() {
        let rule = |user: &str, group: &str, role, queues: &str| RoleRule {
            user: Some(user.to_owned()).filter(|text| !text.is_empty()),
            group: Some(group.to_owned()).filter(|text| !text.is_empty()),
            role,
            queues: NamePattern::read(queues).unwrap(),
        };
        let spec = ProxySpec {
            addresses: vec!["10.0.0.7".parse().unwrap()],
            user_header: "X-Forwarded-User".to_owned(),
            groups_header: "X-Forwarded-Groups".to_owned(),
            roles: vec![
                rule("", "sre", AccessRole::Admin, "*"),
                rule("", "shop", AccessRole::Operator, "orders*"),
                rule("ann", "", AccessRole::Reader, "mails"),
                rule("bob", "shop", AccessRole::Viewer, "*"),
            ],
        };
        let roles = |user: &str, groups: &[&str]| {
            let grants = spec.grants(user, groups);
            grants
                .iter()
                .map(|grant| format!("{} {}", grant.role.as_str(), grant.queues))
                .collect::<Vec<_>>()
                .join("; ")
        };
        assert_eq!(roles("ann", &[]), "reader mails");
        assert_eq!(roles("ann", &["shop", "x"]), "operator orders*; reader mails");
        assert_eq!(roles("bob", &["shop"]), "operator orders*; viewer *");
        assert_eq!(roles("bob", &["sre"]), "admin *");
        assert_eq!(roles("bob", &["SRE", "sre*", "*"]), "");
        assert_eq!(roles("sre", &[]), "", "a person is no group");
        assert!(spec.trusts("10.0.0.7".parse().unwrap()) && !spec.trusts("10.0.0.8".parse().unwrap()));
    }
}
