//! Rights as `ACL SETUSER` takes them. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::command::{Access, Command};
use super::grant::{Grant, On, Pattern, sorted};

/// What a server understands of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// 6.2: every command on every key.
    Flat,
    /// 7.0 and newer: selectors, which tie commands to keys, and keys that may only be read or only be written.
    Selectors,
}

/// The fewest rules that allow what was granted, and nothing else where the dialect can say so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Commands without keys, and channels.
    root: Vec<String>,
    /// One for each group of keys.
    selectors: Vec<String>,
}

impl Rules {
    /// The rules for these grants.
    pub fn of(grants: &[Grant], dialect: Dialect) -> Rules {
        let (mut commands, mut channels, mut keys) = (Vec::new(), Vec::new(), Vec::new());
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
                all.extend(plus(&sorted(commands)));
                Rules { root: all, selectors: Vec::new() }
            }
        }
    }

    /// Each rule; selectors in their parentheses.
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

/// Keys and commands that belong together: what is granted on the same keys is one group, and so are keys on which the
/// same is granted. Maps, because there may be thousands of queues.
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

fn group(keys: &BTreeSet<Pattern>, commands: &[Command]) -> String {
    let access = Grant::on([], commands.iter().copied()).access();
    let sign = match access {
        Access { reads: true, writes: true } => "~",
        Access { reads: false, writes: true } => "%W~",
        // One that only asks for lengths needs the key to be named, whatever the sign.
        Access { writes: false, .. } => "%R~",
    };
    // Behind one for all keys the server takes no other.
    let all = keys.iter().find(|key| key.glob() == "*");
    let keys = keys.iter().filter(|key| all.is_none_or(|all| *key == all)).map(|key| format!("{sign}{}", key.glob()));
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
