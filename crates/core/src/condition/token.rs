//! The words and signs of a condition, each with its column.

use super::expression::Relation;

/// Maximum length of a condition, in bytes.
pub(super) const LONGEST: usize = 1_024;
/// Maximum depth of `not` and parentheses in a condition.
pub(super) const DEEPEST: usize = 16;

/// The first mistake in a condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {mistake}")]
pub struct ConditionError {
    /// The position in characters, starting at 1.
    pub column: usize,
    /// The mistake.
    pub mistake: Mistake,
}

/// The mistake at a place of a condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// Something else is needed there.
    #[error("{expected} is expected, not {found}")]
    Expected {
        /// Description of what is needed.
        expected: &'static str,
        /// The text there, or `the end`.
        found: String,
    },
    /// A spelling of another language.
    #[error("`{written}` is written `{meant}` here")]
    Foreign {
        /// The spelling.
        written: &'static str,
        /// The spelling that is meant.
        meant: &'static str,
    },
    /// A name that is no field.
    #[error("`{0}` is no field of an element: there are id, queue, due_ms, topic, payload, payload.NAME")]
    UnknownField(String),
    /// The number of the attempt.
    #[error("`attempt` changes from one attempt to the next, and the destinations of an element must not")]
    Attempt,
    /// A text without an end.
    #[error("the text has no closing `{0}`")]
    OpenText(char),
    /// A backslash before something else than a quote or a backslash.
    #[error("a backslash stands before a quote or a backslash only")]
    Escape,
    /// A character that begins nothing.
    #[error("`{0}` means nothing here")]
    Sign(char),
    /// A number that JSON does not have.
    #[error("`{0}` is no number")]
    Number(String),
    /// A comparison that has the same result for all elements.
    #[error("{0}")]
    Constant(&'static str),
    /// Too many parentheses in each other.
    #[error("more than {} levels of parentheses and `not`", DEEPEST)]
    Deep,
    /// Too long.
    #[error("the condition is longer than {} bytes", LONGEST)]
    Long,
}

/// A word or a sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lexeme {
    /// A name, or a word such as `and`.
    Word(String),
    Text(String),
    Number(String),
    Relation(Relation),
    Open,
    Close,
    OpenList,
    CloseList,
    Comma,
    End,
}

impl Lexeme {
    /// Describes the token in an error.
    pub(super) fn shown(&self) -> String {
        let sign = match self {
            Lexeme::Word(word) => word,
            Lexeme::Number(digits) => digits,
            Lexeme::Text(_) => return "a text".to_owned(),
            Lexeme::Relation(relation) => relation.sign(),
            Lexeme::Open => "(",
            Lexeme::Close => ")",
            Lexeme::OpenList => "[",
            Lexeme::CloseList => "]",
            Lexeme::Comma => ",",
            Lexeme::End => return "the end".to_owned(),
        };
        format!("`{sign}`")
    }
}

/// Spellings of other languages.
const FOREIGN: [(&str, &str); 5] =
    [("&&", "and"), ("||", "or"), ("=", "=="), ("!", "not"), ("${", "payload.NAME, without `${` and `}`")];

/// The words and signs of a text, one after the other.
pub(super) struct Lexemes<'a> {
    text: &'a str,
    /// The position behind the last token, in bytes.
    at: usize,
}

impl<'a> Lexemes<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Lexemes { text, at: 0 }
    }

    /// Builds the error for a mistake at this position in bytes.
    pub(super) fn error(&self, at: usize, mistake: Mistake) -> ConditionError {
        ConditionError { column: self.text[..at].chars().count() + 1, mistake }
    }

    /// Reads the next token, with its position in bytes.
    pub(super) fn next(&mut self) -> Result<(usize, Lexeme), ConditionError> {
        let rest = self.text[self.at..].trim_start();
        let at = self.text.len() - rest.len();
        let (token, length) = read(rest).map_err(|mistake| self.error(at, mistake))?;
        self.at = at + length;
        Ok((at, token))
    }
}

/// Reads the token at the beginning of a text, and its length in bytes.
fn read(rest: &str) -> Result<(Lexeme, usize), Mistake> {
    let Some(first) = rest.chars().next() else { return Ok((Lexeme::End, 0)) };
    if let Some((sign, relation)) = Relation::ALL.into_iter().find(|(sign, _)| rest.starts_with(sign)) {
        return Ok((Lexeme::Relation(relation), sign.len()));
    }
    if let Some((written, meant)) = FOREIGN.into_iter().find(|(written, _)| rest.starts_with(written)) {
        return Err(Mistake::Foreign { written, meant });
    }
    let length = |more: fn(char) -> bool| rest.find(|c| !more(c)).unwrap_or(rest.len());
    match first {
        '(' => Ok((Lexeme::Open, 1)),
        ')' => Ok((Lexeme::Close, 1)),
        '[' => Ok((Lexeme::OpenList, 1)),
        ']' => Ok((Lexeme::CloseList, 1)),
        ',' => Ok((Lexeme::Comma, 1)),
        '"' | '\'' => text(rest, first),
        '0'..='9' | '-' => {
            let length = length(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.'));
            let digits = &rest[..length];
            // JSON has the numbers that payloads have.
            match serde_json::from_str::<serde_json::Number>(digits) {
                Ok(_) => Ok((Lexeme::Number(digits.to_owned()), length)),
                Err(_) => Err(Mistake::Number(digits.to_owned())),
            }
        }
        _ if first.is_alphabetic() || first == '_' => {
            let length = length(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '@' | '$'));
            Ok((Lexeme::Word(rest[..length].to_owned()), length))
        }
        other => Err(Mistake::Sign(other)),
    }
}

/// Reads a quoted text. `\` escapes a quote or a backslash.
fn text(rest: &str, quote: char) -> Result<(Lexeme, usize), Mistake> {
    let mut text = String::new();
    let mut escaped = false;
    for (at, letter) in rest.char_indices().skip(1) {
        match letter {
            '"' | '\'' | '\\' if escaped => {}
            _ if escaped => return Err(Mistake::Escape),
            '\\' => {
                escaped = true;
                continue;
            }
            _ if letter == quote => return Ok((Lexeme::Text(text), at + 1)),
            _ => {}
        }
        escaped = false;
        text.push(letter);
    }
    Err(Mistake::OpenText(quote))
}
