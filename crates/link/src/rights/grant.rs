//! Grants of commands on keys or channels.

use bytes::Bytes;

use super::command::{Access, Command};

/// A grant of all these commands on all these keys; on channels; or without either, for commands that take none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Sorted and distinct.
    pub(super) commands: Vec<Command>,
    pub(super) on: On,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum On {
    Nothing,
    Keys(Vec<Pattern>),
    Channels(Vec<Pattern>),
}

/// A pattern of keys or channels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern {
    /// The glob pattern of Redis.
    glob: String,
    /// A matching name that the user must be allowed; `None` if the names are unknown.
    name: Option<Bytes>,
}

impl Pattern {
    /// Returns a pattern for this name only.
    pub fn exact(name: impl Into<Bytes>) -> Pattern {
        let name = name.into();
        Pattern { glob: escaped(&name), name: Some(name) }
    }

    /// Returns a pattern of known texts with anything between them.
    pub fn around(texts: impl IntoIterator<Item = Option<String>>) -> Pattern {
        let glob = texts.into_iter().map(|text| text.map_or("*".to_owned(), |text| escaped(text.as_bytes())));
        Pattern { glob: glob.collect(), name: None }
    }

    /// Adds an example: a user with the right to every matching name has the right to this one.
    pub fn with_example(self, name: impl Into<Bytes>) -> Pattern {
        Pattern { name: Some(name.into()), ..self }
    }

    /// Returns the glob pattern of Redis.
    pub fn glob(&self) -> &str {
        &self.glob
    }
}

/// Escapes a name as a pattern that matches it. Bytes that a rule cannot contain (blanks, bytes that are not text) or
/// that would end it (a parenthesis, a quote in a command line) become `?`.
fn escaped(name: &[u8]) -> String {
    let mut glob = String::with_capacity(name.len());
    for &byte in name {
        match byte {
            b'*' | b'?' | b'[' | b']' => glob.extend(['\\', char::from(byte)]),
            b'!' | b'#'..=b'&' | b'+'..=b'~' if byte != b'\\' => glob.push(char::from(byte)),
            _ => glob.push('?'),
        }
    }
    glob
}

impl Grant {
    /// Returns a grant of commands that take neither keys nor channels, or take any channel.
    pub fn plain(commands: impl IntoIterator<Item = Command>) -> Grant {
        Grant::new(commands, On::Nothing)
    }

    /// Returns a grant of commands on keys.
    pub fn on(keys: impl IntoIterator<Item = Pattern>, commands: impl IntoIterator<Item = Command>) -> Grant {
        Grant::new(commands, On::Keys(sorted(keys)))
    }

    /// Returns a grant of commands on channels.
    pub fn channels(channels: impl IntoIterator<Item = Pattern>, commands: impl IntoIterator<Item = Command>) -> Grant {
        Grant::new(commands, On::Channels(sorted(channels)))
    }

    fn new(commands: impl IntoIterator<Item = Command>, on: On) -> Grant {
        Grant { commands: sorted(commands), on }
    }

    /// Returns the access to its keys.
    pub(super) fn access(&self) -> Access {
        let none = Access { reads: false, writes: false };
        self.commands.iter().fold(none, |access, command| access.and(command.access))
    }

    /// Returns the grant without one of its commands.
    #[cfg(any(test, feature = "testing"))]
    pub fn without(&self, command: Command) -> Grant {
        Grant::new(self.commands.iter().copied().filter(|other| *other != command), self.on.clone())
    }

    /// Returns the granted commands.
    pub fn commands(&self) -> impl Iterator<Item = &Command> {
        self.commands.iter()
    }

    /// Returns the patterns without a known name, because elements choose the keys.
    pub fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        let (On::Keys(all) | On::Channels(all)) = &self.on else { return [].iter().filter(chosen) };
        all.iter().filter(chosen)
    }

    /// Lists single checks: each command with the keys that it takes at once, in words for the server, and the grant
    /// that allows it.
    pub fn single(&self) -> Vec<(Vec<Bytes>, Grant)> {
        let mut all = Vec::new();
        for &command in &self.commands {
            let (On::Keys(names) | On::Channels(names)) = &self.on else {
                all.extend(command.samples(&[]).into_iter().map(|words| (words, Grant::plain([command]))));
                continue;
            };
            let mut known: Vec<_> = names.iter().filter(|name| name.name.is_some()).cloned().collect();
            // A script takes any number of keys, others a fixed number.
            if known.is_empty() || known.len() < names.len() && command.needs_all_keys() {
                continue;
            }
            // A command for two keys of one pattern.
            if known.len() == 1 && command.needs_all_keys() {
                known.push(known[0].clone());
            }
            let bytes: Vec<_> = known.iter().filter_map(|name| name.name.clone()).collect();
            let samples = command.samples(&bytes);
            let share = known.len() / samples.len();
            for (words, names) in samples.into_iter().zip(known.chunks(share)) {
                let on = match self.on {
                    On::Channels(_) => On::Channels(names.to_vec()),
                    _ => On::Keys(sorted(names.to_vec())),
                };
                all.push((words, Grant::new([command], on)));
            }
        }
        all
    }
}

fn chosen(pattern: &&Pattern) -> bool {
    pattern.name.is_none()
}

pub(super) fn sorted<T: Ord>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = all.into_iter().collect();
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_pattern_that_matches_it() {
        let check = |name: &[u8], glob: &str| assert_eq!(escaped(name), glob);
        check(b"delaybridge:dead:{app:orders}", "delaybridge:dead:{app:orders}");
        check(b"a*b?c[d]e", r"a\*b\?c\[d\]e");
        check(b"two words", "two?words");
        check("f\u{fc}r".as_bytes(), "f??r");
        check(b"a)b\"c'd\\e", "a?b?c?d?e");
        assert_eq!(Pattern::around([Some("a[".to_owned()), None, Some(":z".to_owned())]).glob(), r"a\[*:z");
    }
}
