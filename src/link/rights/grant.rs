//! Commands, and the keys or channels that they may be run on.

use bytes::Bytes;

use super::command::{Access, Command};

/// Some commands on some keys, each on each; on some channels; or on none, where the commands take neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Sorted, each once.
    pub(super) commands: Vec<Command>,
    pub(super) on: On,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum On {
    Nothing,
    Keys(Vec<Pattern>),
    Channels(Vec<Pattern>),
}

/// Names of keys or channels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern {
    /// As Redis matches it.
    glob: String,
    /// A name that it matches and that a user must be allowed; none if the names are not known.
    name: Option<Bytes>,
}

impl Pattern {
    /// This name alone.
    pub fn exact(name: impl Into<Bytes>) -> Pattern {
        let name = name.into();
        Pattern { glob: escaped(&name), name: Some(name) }
    }

    /// Texts that are known, with anything between them.
    pub fn around(texts: impl IntoIterator<Item = Option<String>>) -> Pattern {
        let glob = texts.into_iter().map(|text| text.map_or("*".to_owned(), |text| escaped(text.as_bytes())));
        Pattern { glob: glob.collect(), name: None }
    }

    /// The same, with one of the names: a user that may use every one of them may use this one.
    pub fn with_example(self, name: impl Into<Bytes>) -> Pattern {
        Pattern { name: Some(name.into()), ..self }
    }

    /// As Redis matches it.
    pub fn glob(&self) -> &str {
        &self.glob
    }
}

/// A name as a pattern that matches it. What a rule cannot hold (blanks, bytes that are no text) or what would end it
/// (a parenthesis, a quote on the way through a command line) may be any one byte.
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
    /// Commands that take neither keys nor channels, or take any channel.
    pub fn plain(commands: impl IntoIterator<Item = Command>) -> Grant {
        Grant::new(commands, On::Nothing)
    }

    /// Commands on keys.
    pub fn on(keys: impl IntoIterator<Item = Pattern>, commands: impl IntoIterator<Item = Command>) -> Grant {
        Grant::new(commands, On::Keys(sorted(keys)))
    }

    /// Commands on channels.
    pub fn channels(channels: impl IntoIterator<Item = Pattern>, commands: impl IntoIterator<Item = Command>) -> Grant {
        Grant::new(commands, On::Channels(sorted(channels)))
    }

    fn new(commands: impl IntoIterator<Item = Command>, on: On) -> Grant {
        Grant { commands: sorted(commands), on }
    }

    /// What its keys must be allowed.
    pub(super) fn access(&self) -> Access {
        let none = Access { reads: false, writes: false };
        self.commands.iter().fold(none, |access, command| access.and(command.access))
    }

    /// The same without one of its commands.
    #[cfg(test)]
    pub(crate) fn without(&self, command: Command) -> Grant {
        Grant::new(self.commands.iter().copied().filter(|other| *other != command), self.on.clone())
    }

    /// The commands.
    pub fn commands(&self) -> impl Iterator<Item = &Command> {
        self.commands.iter()
    }

    /// Keys that elements choose: not one of their names is known.
    pub fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        let (On::Keys(all) | On::Channels(all)) = &self.on else { return [].iter().filter(chosen) };
        all.iter().filter(chosen)
    }

    /// Each command on what it takes at once, as the server can be asked about it, and what would allow it.
    pub fn single(&self) -> Vec<(Vec<Bytes>, Grant)> {
        let mut all = Vec::new();
        for &command in &self.commands {
            let (On::Keys(names) | On::Channels(names)) = &self.on else {
                all.extend(command.samples(&[]).into_iter().map(|words| (words, Grant::plain([command]))));
                continue;
            };
            let mut known: Vec<_> = names.iter().filter(|name| name.name.is_some()).cloned().collect();
            // A script takes any number of keys, others a certain one.
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
