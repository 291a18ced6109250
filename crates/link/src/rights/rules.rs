//! Grants as rules for `ACL SETUSER`. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::command::{Access, Command, SPUBLISH};
use super::grant::{Grant, On, Pattern, sorted};

/// The syntax of rules that a server understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Redis 6.2: every command on every key.
    Flat,
    /// Redis 7.0 and newer: selectors, which tie commands to keys, and read-only or write-only keys.
    Selectors,
}

/// The smallest set of rules that allows the grants, and nothing else as far as the dialect can express it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Commands without keys, and channels.
    root: Vec<String>,
    /// One selector for each group of keys.
    selectors: Vec<String>,
}

impl Rules {
    /// Creates the rules for these grants.
    pub fn of(grants: &[Grant], dialect: Dialect) -> Rules {
        let mut commands = Vec::new();
        let mut channels = Vec::new();
        let mut keys = Vec::new();
        for grant in grants {
            match &grant.on {
                On::Keys(_) => keys.push(grant),
                On::Channels(on) => {
                    commands.extend(&grant.commands);
                    channels.extend(on.iter().map(|channel| format!("&{}", channel.glob())));
                }
                On::Nothing => commands.extend(&grant.commands),
            }
        }
        let mut root = sorted(channels);
        match dialect {
            Dialect::Selectors => {
                root.extend(plus(&sorted(commands)));
                let groups = grouped(&keys);
                let selectors = groups.iter().map(|(commands, keys)| format!("({})", group(keys, commands))).collect();
                Rules { root, selectors }
            }
            Dialect::Flat => {
                let names = keys.iter().flat_map(|grant| names(grant)).map(|key| format!("~{}", key.glob()));
                let mut all = sorted(names);
                if all.iter().any(|name| name == "~*") {
                    all = vec!["~*".to_owned()];
                }
                all.append(&mut root);
                commands.extend(keys.iter().flat_map(|grant| &grant.commands));
                // Shard channels came with Redis 7.0.
                commands.retain(|command| *command != SPUBLISH);
                all.extend(plus(&sorted(commands)));
                Rules { root: all, selectors: Vec::new() }
            }
        }
    }

    /// Returns the rules; selectors are in parentheses.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.root.iter().chain(&self.selectors).map(String::as_str)
    }
}

fn names(grant: &Grant) -> &[Pattern] {
    if let On::Keys(keys) = &grant.on { keys } else { &[] }
}

fn plus<'a>(commands: &'a [Command]) -> impl Iterator<Item = String> + 'a {
    commands.iter().map(|command| format!("+{}", command.name))
}

/// Groups keys and commands: commands on the same keys are merged, and so are keys with the same commands. With maps,
/// because there may be thousands of queues.
fn grouped(grants: &[&Grant]) -> BTreeMap<Vec<Command>, BTreeSet<Pattern>> {
    let mut by_keys: BTreeMap<&[Pattern], BTreeSet<Command>> = BTreeMap::new();
    for grant in grants {
        by_keys.entry(names(grant)).or_default().extend(&grant.commands);
    }
    let mut groups: BTreeMap<Vec<Command>, BTreeSet<Pattern>> = BTreeMap::new();
    for (keys, commands) in by_keys {
        groups.entry(commands.into_iter().collect()).or_default().extend(keys.iter().cloned());
    }
    groups
}

/// The beginning of the names of our own keys.
const OWN: &str = "delaybridge:";
/// The number of our own keys of one kind up to which each is named. Redis compares each key of a command with each pattern:
/// with five patterns for each of 2,000 queues, a script takes milliseconds before it starts.
const NAMED: usize = 200;

/// The patterns of some keys. Many of our own are allowed by their kind, `delaybridge:leases:{*`, and come first.
fn patterns(keys: &BTreeSet<Pattern>) -> Vec<String> {
    let kind = |key: &Pattern| Some(key.glob().split_once('{').filter(|(kind, _)| kind.starts_with(OWN))?.0.to_owned());
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    keys.iter().filter_map(kind).for_each(|kind| *kinds.entry(kind).or_default() += 1);
    kinds.retain(|_, number| *number > NAMED);
    let named = keys.iter().filter(|key| kind(key).is_none_or(|kind| !kinds.contains_key(&kind)));
    let named: Vec<_> = named.map(|key| key.glob().to_owned()).collect();
    kinds.keys().map(|kind| format!("{kind}{{*")).chain(named).collect()
}

fn group(keys: &BTreeSet<Pattern>, commands: &[Command]) -> String {
    let access = Grant::on([], commands.iter().copied()).access();
    let sign = match access {
        Access { reads: true, writes: true } => "~",
        Access { reads: false, writes: true } => "%W~",
        // A command that only asks for lengths needs the key to be named, whatever the sign.
        Access { writes: false, .. } => "%R~",
    };
    // After a pattern for all keys the server accepts no other.
    let patterns = if keys.iter().any(|key| key.glob() == "*") { vec!["*".to_owned()] } else { patterns(keys) };
    let keys = patterns.into_iter().map(|pattern| format!("{sign}{pattern}"));
    keys.chain(plus(commands)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::command::{LLEN, PING, PUBLISH, RPUSH, SUBSCRIBE, TYPE, ZRANGE, ZREM};
    use super::*;

    fn grants() -> Vec<Grant> {
        let on = |key: &'static str, commands: &[Command]| Grant::on([Pattern::exact(key)], commands.iter().copied());
        vec![
            Grant::plain([PING]),
            Grant::channels([Pattern::exact("ch")], [SUBSCRIBE, PUBLISH]),
            on("a", &[TYPE, ZRANGE]),
            on("a", &[ZREM]),
            on("b", &[ZREM, ZRANGE, TYPE]),
            on("ready", &[LLEN]),
            Grant::on([Pattern::around([Some("out:".to_owned()), None])], [RPUSH]),
        ]
    }

    #[test]
    fn many_keys_of_our_own_are_allowed_by_their_kind() {
        let grant = |queues: usize| {
            let names = |queue: usize| {
                let name = format!("{{q{queue}}}");
                [format!("delaybridge:leases:{name}"), format!("aside:{name}")].map(Pattern::exact)
            };
            Rules::of(&[Grant::on((0..queues).flat_map(names), [ZREM])], Dialect::Selectors)
        };
        let few = grant(NAMED);
        assert!(few.selectors[0].contains("~delaybridge:leases:{q7} "), "{few:?}");
        let many = grant(NAMED + 1);
        assert!(many.selectors[0].starts_with("(%W~delaybridge:leases:{* %W~aside:{q0} "), "{many:?}");
        assert_eq!(many.selectors[0].matches('~').count(), NAMED + 2);
    }

    fn rules(dialect: Dialect) -> Vec<String> {
        Rules::of(&grants(), dialect).iter().map(str::to_owned).collect()
    }

    #[test]
    fn selectors_tie_commands_to_the_keys_that_need_them() {
        let expected = [
            "&ch",
            "+ping",
            "+publish",
            "+subscribe",
            "(%R~ready +llen)",
            "(%W~out:* +rpush)",
            "(~a ~b +type +zrange +zrem)",
        ];
        assert_eq!(rules(Dialect::Selectors), expected);
    }

    #[test]
    fn behind_one_for_all_keys_there_is_no_other() {
        let any = Pattern::around([None]);
        let grants = [Grant::on([Pattern::exact("a"), any, Pattern::exact("b")], [ZREM])];
        for (dialect, expected) in [(Dialect::Selectors, "(%W~* +zrem)"), (Dialect::Flat, "~* +zrem")] {
            assert_eq!(Rules::of(&grants, dialect).iter().collect::<Vec<_>>().join(" "), expected);
        }
    }

    #[test]
    fn a_server_without_selectors_gets_every_command_on_every_key() {
        let text = rules(Dialect::Flat).join(" ");
        assert_eq!(text, "~a ~b ~out:* ~ready &ch +llen +ping +publish +rpush +subscribe +type +zrange +zrem");
    }
}
