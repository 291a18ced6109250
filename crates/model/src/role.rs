//! What a person or the owner of a token may do, and with which queues. Pure.

use std::fmt;
use std::sync::Arc;

use delaybridge_settings::words::{Serialize, Serializer, words};

/// A role; each has the rights of those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessRole {
    /// Looks at everything but payloads.
    Viewer,
    /// Looks at payloads too.
    Reader,
    /// Pauses, resumes, moves elements and brings dead letters back.
    Operator,
    /// Removes for good, and reloads the configuration.
    Admin,
}

impl AccessRole {
    /// Every role, the weakest first.
    pub const ALL: [AccessRole; 4] = [AccessRole::Viewer, AccessRole::Reader, AccessRole::Operator, AccessRole::Admin];

    /// Returns the word in a file of tokens.
    pub const fn as_str(self) -> &'static str {
        match self {
            AccessRole::Viewer => "viewer",
            AccessRole::Reader => "reader",
            AccessRole::Operator => "operator",
            AccessRole::Admin => "admin",
        }
    }

    /// Finds the role of this name.
    pub fn of(word: &str) -> Option<AccessRole> {
        AccessRole::ALL.into_iter().find(|role| role.as_str() == word)
    }
}

words! {
    /// The words of the roles.
    pub list AccessRoles of AccessRole {
        AccessRole::Viewer.as_str() => AccessRole::Viewer,
        AccessRole::Reader.as_str() => AccessRole::Reader,
        AccessRole::Operator.as_str() => AccessRole::Operator,
        AccessRole::Admin.as_str() => AccessRole::Admin,
    }
}

/// Names of queues and topics: patterns separated by commas, in which `*` stands for any text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern(Arc<str>);

impl NamePattern {
    /// Returns every name.
    pub fn all() -> NamePattern {
        NamePattern("*".into())
    }

    /// Reads patterns.
    ///
    /// # Errors
    /// One of them is empty.
    pub fn read(text: &str) -> Result<NamePattern, &'static str> {
        if text.split(',').any(str::is_empty) {
            Err("a pattern is a name in which `*` stands for any text; several are separated by commas")
        } else {
            Ok(NamePattern(text.into()))
        }
    }

    /// Returns whether a name fits.
    pub fn fits(&self, name: &str) -> bool {
        self.0.split(',').any(|pattern| matches(pattern, name))
    }

    /// Returns whether every name fits.
    pub fn fits_all(&self) -> bool {
        self.0.split(',').any(|pattern| !pattern.is_empty() && pattern.bytes().all(|byte| byte == b'*'))
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns whether a name fits one pattern: its parts between the stars are found in their order.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    name.ends_with(last)
}

impl Serialize for NamePattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A role for some queues and topics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessGrant {
    /// The role.
    pub role: AccessRole,
    /// The queues and topics.
    pub queues: NamePattern,
}

impl fmt::Display for AccessGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the role `{}` for `{}`", self.role.as_str(), self.queues)
    }
}

/// A person, or the owner of a token, with all roles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grantee {
    /// The name of the token or of the person.
    pub name: Arc<str>,
    /// The roles. One is enough for what it allows.
    pub grants: Arc<[AccessGrant]>,
}

impl Grantee {
    /// Creates a grantee with these roles.
    pub fn new(name: &str, grants: impl Into<Arc<[AccessGrant]>>) -> Grantee {
        Grantee { name: name.into(), grants: grants.into() }
    }

    /// Creates a grantee that may do everything.
    pub fn admin(name: &str) -> Grantee {
        Grantee::new(name, [AccessGrant { role: AccessRole::Admin, queues: NamePattern::all() }])
    }

    /// Returns whether this may be done with a queue or topic; with `None` what concerns all of them.
    pub fn may(&self, role: AccessRole, queue: Option<&str>) -> bool {
        let fits = |queues: &NamePattern| queue.map_or_else(|| queues.fits_all(), |queue| queues.fits(queue));
        self.grants.iter().any(|grant| grant.role >= role && fits(&grant.queues))
    }

    /// Returns all roles, in words.
    pub fn roles(&self) -> String {
        if self.grants.is_empty() {
            "no role".to_owned()
        } else {
            self.grants.iter().map(AccessGrant::to_string).collect::<Vec<_>>().join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_stands_for_the_names_that_it_says() {
        for (pattern, name, fits) in [
            ("*", "", true),
            ("*", "orders", true),
            ("orders", "orders", true),
            ("orders", "orders_eu", false),
            ("orders*", "orders_eu", true),
            ("*_eu", "orders_eu", true),
            ("*_eu", "orders_eu_2", false),
            ("o*s*u", "orders_eu", true),
            ("o*s*s", "orders", false),
            ("a*a", "a", false),
            ("mails,orders*", "orders_eu", true),
            ("mails,orders*", "mails_eu", false),
        ] {
            assert_eq!(NamePattern::read(pattern).unwrap().fits(name), fits, "{pattern} {name}");
        }
        for (pattern, all) in [("*", true), ("**", true), ("a,*", true), ("a*", false), ("a", false)] {
            assert_eq!(NamePattern::read(pattern).unwrap().fits_all(), all, "{pattern}");
        }
        assert!(NamePattern::read("").is_err() && NamePattern::read("a,,b").is_err());
    }

    #[test]
    fn a_role_has_the_rights_of_those_before_it_for_its_queues_alone() {
        let grant = |role, queues| AccessGrant { role, queues: NamePattern::read(queues).unwrap() };
        let ann = Grantee::new("ann", [grant(AccessRole::Operator, "orders*")]);
        for (role, queue, may) in [
            (AccessRole::Viewer, Some("orders"), true),
            (AccessRole::Operator, Some("orders_eu"), true),
            (AccessRole::Admin, Some("orders"), false),
            (AccessRole::Viewer, Some("mails"), false),
            (AccessRole::Reader, None, false),
        ] {
            assert_eq!(ann.may(role, queue), may, "{role:?} {queue:?}");
        }
        assert!(
            Grantee::admin("x").may(AccessRole::Admin, None) && AccessRole::of("reader") == Some(AccessRole::Reader)
        );
        assert_eq!(AccessRole::of("root"), None);
        // A role for other queues adds to it, and lends nothing to its own.
        let bob = Grantee::new("bob", [grant(AccessRole::Viewer, "*"), grant(AccessRole::Operator, "orders*")]);
        for (role, queue, may) in [
            (AccessRole::Operator, Some("orders"), true),
            (AccessRole::Viewer, Some("mails"), true),
            (AccessRole::Operator, Some("mails"), false),
            (AccessRole::Viewer, None, true),
            (AccessRole::Operator, None, false),
        ] {
            assert_eq!(bob.may(role, queue), may, "{role:?} {queue:?}");
        }
        assert_eq!(bob.roles(), "the role `viewer` for `*`, the role `operator` for `orders*`");
        let nobody = Grantee::new("eve", []);
        assert!(!nobody.may(AccessRole::Viewer, Some("orders")) && nobody.roles() == "no role");
    }
}
