//! The redirection in a node's error reply. Pure.

use crate::address::Address;
use crate::error::LinkError;

/// A redirection to the node that serves a slot. The command was not executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Redirect {
    /// The slot has moved for good.
    Moved(u16, Address),
    /// The slot is migrating, and these keys have moved already: valid for this command only.
    Ask(Address),
}

impl Redirect {
    /// Reads the redirection in an error reply of the node `asked`; `None` for any other error.
    pub(super) fn of(error: &LinkError, asked: &str) -> Option<Redirect> {
        let LinkError::Server { code, message } = error else { return None };
        if !matches!(*code, "MOVED" | "ASK") {
            return None;
        }
        let mut words = message.split(' ');
        let slot = words.next()?.parse().ok()?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        let host = match host {
            // The node does not know its own name: the name that it was asked under.
            "" => asked,
            "?" => return None,
            host => host,
        };
        let to = Address::new(host, port.parse().ok().filter(|port| *port != 0)?);
        Some(if *code == "MOVED" { Redirect::Moved(slot, to) } else { Redirect::Ask(to) })
    }

    /// Returns the target of the redirection.
    pub(super) fn to(&self) -> &Address {
        let (Redirect::Moved(_, to) | Redirect::Ask(to)) = self;
        to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_is_read_from_the_error() {
        fn check(code: &'static str, message: &str, expected: Option<Redirect>) {
            let error = LinkError::Server { code, message: message.to_owned() };
            assert_eq!(Redirect::of(&error, "asked"), expected, "{code} {message}");
        }
        let moved = |host: &str| Some(Redirect::Moved(3999, Address::new(host, 6381)));
        check("MOVED", "3999 127.0.0.1:6381", moved("127.0.0.1"));
        check("MOVED", "3999 ::1:6381", moved("::1"));
        check("MOVED", "3999 :6381", moved("asked"));
        check("MOVED", "3999 ?:6381", None);
        check("MOVED", "3999", None);
        check("MOVED", "99999 h:6381", None);
        check("ASK", "3999 h:6381", Some(Redirect::Ask(Address::new("h", 6381))));
        check("ASK", "3999 h:0", None);
        check("TRYAGAIN", "Multiple keys request during rehashing of slot", None);
    }
}
