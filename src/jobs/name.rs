//! Names: of topics, of jobs, and of reservations. Valid by construction, safe in a URL, a key, a log line and a label.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Why a text is no name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {rule}")]
pub struct InvalidName {
    /// What was to be read.
    pub what: &'static str,
    /// What it has to look like.
    pub rule: &'static str,
}

const TOPIC: InvalidName =
    InvalidName { what: "invalid topic", rule: "use 1 to 255 letters, digits, `_`, `.`, `:` or `-`" };
const LOCAL: InvalidName =
    InvalidName { what: "invalid id", rule: "use 1 to 128 letters, digits, `_`, `.`, `:`, `~` or `-`" };
const JOB: InvalidName = InvalidName { what: "invalid job id", rule: "it is TOPIC~ID, as the answer to `add` has it" };
const TOKEN: InvalidName =
    InvalidName { what: "invalid token", rule: "it is what `pop` answered: 16 letters, digits, `_` or `-`" };

/// The name of a topic. No braces: it is the hash tag of the topic's keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Topic(Arc<str>);

impl Topic {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Topic {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-');
        match (1..=255).contains(&text.len()) && text.bytes().all(allowed) {
            true => Ok(Topic(text.into())),
            false => Err(TOPIC),
        }
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of a job within its topic: the client's own, or one that the daemon made.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocalId(Box<str>);

impl LocalId {
    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id for an answer that shows any bytes: what no id may have is shown as `~` and its hexadecimal digits.
    pub(super) fn shown(bytes: &[u8]) -> LocalId {
        if let Some(id) = std::str::from_utf8(bytes).ok().and_then(|id| id.parse().ok()) {
            return id;
        }
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-');
        let one = |byte: &u8| if allowed(*byte) { char::from(*byte).to_string() } else { format!("~{byte:02x}") };
        let text: String = bytes.iter().take(40).map(one).collect();
        LocalId(if text.is_empty() { "~" } else { &*text }.into())
    }

    /// A ULID: 26 characters that sort by the time `ms`, and then by `random`.
    pub fn ulid(ms: i64, random: u128) -> LocalId {
        const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
        let number = (u128::from(ms.unsigned_abs()) << 80) | (random & ((1 << 80) - 1));
        let digit = |place: u32| char::from(DIGITS[(number >> (5 * place)) as usize % 32]);
        LocalId((0..26).rev().map(digit).collect::<String>().into())
    }
}

impl FromStr for LocalId {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'~' | b'-');
        match (1..=128).contains(&text.len()) && text.bytes().all(allowed) {
            true => Ok(LocalId(text.into())),
            false => Err(LOCAL),
        }
    }
}

impl fmt::Display for LocalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A job: its topic and its id there, written `TOPIC~ID`. A topic has no `~`, so the first one ends it; and `~` needs no
/// escape in a URL.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId {
    /// The topic.
    pub topic: Topic,
    /// The id there.
    pub local: LocalId,
}

impl FromStr for JobId {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let (topic, local) = text.split_once('~').ok_or(JOB)?;
        Ok(JobId { topic: topic.parse().map_err(|_| JOB)?, local: local.parse().map_err(|_| JOB)? })
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}~{}", self.topic, self.local)
    }
}

/// A reservation. The jobs of one `pop` have the same token; no other `pop` ever has it, so no job ever has one twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token([u8; 16]);

const DIGITS_64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl Token {
    /// A new one, of 96 random bits.
    ///
    /// # Panics
    /// Where the system has no random numbers: a token that can be guessed is none.
    pub fn random() -> Token {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the system has random numbers");
        Token(bytes.map(|byte| DIGITS_64[usize::from(byte % 64)]))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl FromStr for Token {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let bytes: [u8; 16] = text.as_bytes().try_into().map_err(|_| TOKEN)?;
        match bytes.iter().all(|byte| DIGITS_64.contains(byte)) {
            true => Ok(Token(bytes)),
            false => Err(TOKEN),
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_id_names_its_topic() {
        let check = |text: &str, parts: Option<(&str, &str)>| {
            let id = text.parse::<JobId>().ok();
            assert_eq!(id.as_ref().map(|id| (id.topic.as_str(), id.local.as_str())), parts, "{text}");
            assert!(id.is_none_or(|id| id.to_string() == text));
        };
        check("orders~01J", Some(("orders", "01J")));
        check("a.b:c-d_e~x.y~z", Some(("a.b:c-d_e", "x.y~z")));
        check("orders", None);
        check("~1", None);
        check("orders~", None);
        check("or{d}ers~1", None);
        check("orders~a/b", None);
        check(&format!("{}~1", "t".repeat(255)), Some((&"t".repeat(255), "1")));
        check(&format!("{}~1", "t".repeat(256)), None);
    }

    #[test]
    fn ulids_sort_by_time_and_have_26_characters() {
        let ids: Vec<_> = [(1, 9), (1, 10), (2, 0), (1 << 40, 0)].map(|(ms, random)| LocalId::ulid(ms, random)).into();
        assert!(ids.is_sorted());
        assert_eq!(LocalId::ulid(1_469_918_176_385, 0).as_str(), "01ARYZ6S410000000000000000");
        assert!(ids.iter().all(|id| id.as_str().len() == 26 && id.as_str().parse::<LocalId>().is_ok()));
    }

    #[test]
    fn tokens_are_read_as_they_are_written_and_differ() {
        let (one, other) = (Token::random(), Token::random());
        assert_eq!(one.to_string().parse(), Ok(one));
        assert_ne!(one, other);
        assert!("short".parse::<Token>().is_err() && "0123456789abcde/".parse::<Token>().is_err());
    }
}
