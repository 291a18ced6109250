//! The verdict of several sentinels. Pure.

use crate::address::Address;

/// A change of the master, as a sentinel announces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Switch {
    pub(super) old: Address,
    pub(super) new: Address,
}

impl Switch {
    /// Parses a message of `+switch-master`, `NAME OLD-HOST OLD-PORT NEW-HOST NEW-PORT`, or one about the promoted
    /// replica, `slave REPLICA HOST PORT @ NAME OLD-HOST OLD-PORT`; `None` if it is about another master or invalid.
    pub(super) fn read(message: &[u8], master: &str) -> Option<Switch> {
        let words: Vec<_> = std::str::from_utf8(message).ok()?.split(' ').collect();
        let (name, old_host, old_port, new_host, new_port) = match words[..] {
            [name, old_host, old_port, new_host, new_port] => (name, old_host, old_port, new_host, new_port),
            [_, _, new_host, new_port, "@", name, old_host, old_port] => (name, old_host, old_port, new_host, new_port),
            _ => return None,
        };
        let address = |host: &str, port: &str| Some(Address::new(host, port.parse().ok()?));
        let switch = Switch { old: address(old_host, old_port)?, new: address(new_host, new_port)? };
        (name == master).then_some(switch)
    }
}

/// The verdict of the sentinels.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Most of the replies name this one. No other is tried, because it could be a master that was cut off.
    Agreed(Address),
    /// There is no majority; ordered by votes, the most first.
    Doubt(Vec<Address>),
}

impl Verdict {
    /// Judges the replies; `None` if there is none. After an announcement, replies that name the former master do not
    /// count, because their sentinels do not know the change yet.
    pub(super) fn of(answers: Vec<Address>, announced: Option<&Switch>) -> Option<Verdict> {
        let stale = |address: &Address| announced.is_some_and(|switch| *address == switch.old);
        let announcement = announced.map(|switch| switch.new.clone());
        let votes: Vec<_> =
            announcement.into_iter().chain(answers.into_iter().filter(|answer| !stale(answer))).collect();
        let mut counted: Vec<(Address, usize)> = Vec::new();
        for vote in &votes {
            match counted.iter_mut().find(|(address, _)| address == vote) {
                Some((_, count)) => *count += 1,
                None => counted.push((vote.clone(), 1)),
            }
        }
        // Stable: among equals the announced one first, then the quickest reply.
        counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        match counted.first() {
            None => None,
            Some((address, count)) if count * 2 > votes.len() => Some(Verdict::Agreed(address.clone())),
            Some(_) => Some(Verdict::Doubt(counted.into_iter().map(|(address, _)| address).collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(letter: char) -> Address {
        Address::new(letter.to_string(), 6379)
    }

    fn switch(letters: &str) -> Option<Switch> {
        let mut letters = letters.chars().map(at);
        Some(Switch { old: letters.next()?, new: letters.next()? })
    }

    #[test]
    fn the_majority_of_those_that_answered_decides() {
        let check = |answers: &str, announced: &str, expected: &str| {
            let verdict = Verdict::of(answers.chars().map(at).collect(), switch(announced).as_ref());
            let hosts = |all: &[Address]| all.iter().map(|address| &*address.host).collect::<String>();
            let got = match verdict {
                None => String::new(),
                Some(Verdict::Agreed(address)) => format!("={}", address.host),
                Some(Verdict::Doubt(addresses)) => format!("?{}", hosts(&addresses)),
            };
            assert_eq!(got, expected, "{answers} announced {announced}");
        };
        check("aaa", "", "=a");
        check("aab", "", "=a");
        check("a", "", "=a");
        check("ab", "", "?ab");
        check("abbac", "", "?abc");
        check("", "", "");
        // A sentinel that still names the former master is behind.
        check("aaa", "ab", "=b");
        check("aab", "ab", "=b");
        check("", "ab", "=b");
        // But others may know of a further change.
        check("cc", "ab", "=c");
        check("cab", "ab", "=b");
        check("c", "ab", "?bc");
        // Back to the former master.
        check("aab", "ba", "=a");
    }

    #[test]
    fn an_announcement_is_read() {
        let check = |message: &str, expected: Option<Switch>| {
            assert_eq!(Switch::read(message.as_bytes(), "orders"), expected, "{message}");
        };
        check("orders a 6379 b 6379", switch("ab"));
        check("slave b:6379 b 6379 @ orders a 6379", switch("ab"));
        check("slave b:6379 b 6379 @ other a 6379", None);
        check("slave b:6379 b 6379 - orders a 6379", None);
        check("other a 6379 b 6379", None);
        check("orders a 6379 b", None);
        check("orders a 6379 b 99999", None);
        check("orders a 6379 b 6379 c", None);
        check("", None);
        assert_eq!(Switch::read(b"orders \xff 1 b 1", "orders"), None);
    }
}
