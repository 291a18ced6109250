//! A token with its grants: rights on topics, which patterns name.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest;

use delaybridge_settings::Settings;
use delaybridge_settings::keys::Key;
use delaybridge_settings::reader::Section;
use delaybridge_settings::words::words;

words! {
    /// Something that a caller may do with a topic.
    pub enum Right {
        /// Add jobs.
        Add = "add",
        /// Pop jobs, and say what has become of them.
        Pop = "pop",
        /// Look at jobs, delete them, and work on dead letters, limits and pauses.
        Admin = "admin",
    }
}

/// Rights on topics.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
#[settings(grant, at = "tokens.NAME.grants[]", hidden)]
pub(super) struct TopicGrant {
    /// Names of topics; `*` stands for any characters.
    #[key(Kind::Texts, required, name = "topics", read = patterns)]
    pub(super) patterns: Vec<String>,
    /// `add`: add jobs. `pop`: pop, finish, release, touch and bury. `admin`: everything else, and these.
    #[key(words::<Right>(), required, read = rights)]
    pub(super) rights: Vec<Right>,
}

impl TopicGrant {
    /// Returns whether there is the right to do this with the topic.
    pub(super) fn allows(&self, right: Right, topic: &str) -> bool {
        let has = self.rights.contains(&right) || self.rights.contains(&Right::Admin);
        has && self.patterns.iter().any(|pattern| matches(pattern, topic))
    }
}

/// A token with its rights on topics.
#[derive(Clone)]
pub(super) struct TopicToken {
    pub(super) name: Arc<str>,
    pub(super) sha256: [u8; digest::SHA256_OUTPUT_LEN],
    pub(super) grants: Arc<[TopicGrant]>,
}

/// Not even the hash: a weak token could be guessed from it.
impl fmt::Debug for TopicToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("name", &self.name).field("grants", &self.grants).finish_non_exhaustive()
    }
}

fn patterns(section: &Section<'_>, key: &Key) -> Vec<String> {
    let texts = section.texts(key);
    for text in texts.iter().filter(|text| !is_pattern(&text.value)) {
        section.cx.report.problem(&text.spot, "no topic has such a name", PATTERN);
    }
    texts.into_iter().map(|text| text.value).collect()
}

fn rights(section: &Section<'_>, key: &Key) -> Vec<Right> {
    if section.has(key) { section.some_of::<Right>(key) } else { Vec::new() }
}

/// The rule for patterns.
pub(super) const PATTERN: &str = "names have letters, digits, `_`, `.`, `-` and `:`; `*` matches any of them";

/// Returns whether topics may have such names.
pub(super) fn is_pattern(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.-*:".contains(letter))
}

/// Returns whether `name` matches the pattern, in which `*` matches any characters. Takes linear time whatever the pattern.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_topics() {
        let check = |pattern: &str, name: &str, expected: bool| {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        };
        check("orders", "orders", true);
        check("orders", "orders2", false);
        check("*", "anything", true);
        check("billing.*", "billing.eu", true);
        check("billing.*", "billing", false);
        check("*.retry", "a.retry", true);
        check("a*b*c", "a-b-b-c", true);
        check("a*b*c", "a-c-b", false);
        check("ab*b", "ab", false);
        check("**", "", true);
    }
}
