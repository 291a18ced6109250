//! JSON that a stranger sent, read without making values of it: each value is a span of the text.
//!
//! A tree of values takes a hundred times the memory of its text. So a text is checked as a whole once ([`Json::read`]), and after
//! that only taken apart: the members of one object, the items of one list. What is not asked for costs nothing, and what is passed
//! on has the bytes that were sent.

use bytes::Bytes;
use serde::de::IgnoredAny;

/// The deepest nesting that is read.
const DEEPEST: usize = 128;

/// A valid JSON value, as the bytes that were sent. Clones share them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Json(Bytes);

/// Why a text is not one JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotJson {
    /// It breaks the grammar here.
    #[error("it is not valid JSON, at line {line}, column {column}")]
    Invalid {
        /// The line, from 1 on.
        line: usize,
        /// The byte in the line, from 1 on.
        column: usize,
    },
    /// Lists and objects are inside one another too often.
    #[error("it is nested deeper than {DEEPEST} levels")]
    Deep,
}

/// Why a value has no members or items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoParts {
    /// It is of another kind.
    Kind,
    /// It has so many, which are more than asked for.
    Many(usize),
}

impl Json {
    /// Reads a text that is one value.
    ///
    /// # Errors
    /// Where it is none.
    pub fn read(text: Bytes) -> Result<Json, NotJson> {
        // The parser below does not look into the strings that it ignores.
        let checked = std::str::from_utf8(&text).map_err(|error| position(&text[..error.valid_up_to()]))?;
        if is_deep(&text) {
            return Err(NotJson::Deep);
        }
        let valid = serde_json::from_str::<IgnoredAny>(checked);
        valid.map_err(|error| NotJson::Invalid { line: error.line(), column: error.column() })?;
        let trimmed = text.slice_ref(text.trim_ascii());
        Ok(Json(trimmed))
    }

    /// The bytes that were sent, without the space around the value.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// The kind of the value, in words for messages.
    pub fn kind(&self) -> &'static str {
        match self.0.first() {
            Some(b'n') | None => "null",
            Some(b't' | b'f') => "true or false",
            Some(b'"') if self.text().is_none() => "a text that is not Unicode",
            Some(b'"') => "a text",
            Some(b'[') => "a list",
            Some(b'{') => "an object",
            Some(_) => "another number",
        }
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        *self.0 == *b"null"
    }

    /// The characters of a text. A text without escapes shares the bytes that were sent.
    pub fn text(&self) -> Option<Bytes> {
        let inner = self.0.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        if !inner.contains(&b'\\') {
            return Some(self.0.slice_ref(inner));
        }
        // Half of a surrogate pair is valid JSON, and no character.
        serde_json::from_slice::<String>(&self.0).ok().map(Bytes::from)
    }

    /// A whole number that is not negative.
    pub fn number(&self) -> Option<u64> {
        std::str::from_utf8(&self.0).ok()?.parse().ok()
    }

    /// Whether it is a number of any kind.
    pub fn is_number(&self) -> bool {
        matches!(self.0.first(), Some(b'-' | b'0'..=b'9'))
    }

    /// A truth value.
    pub fn flag(&self) -> Option<bool> {
        match &*self.0 {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }

    /// The members of an object, if there are at most `most`. Of several with one name the last counts.
    ///
    /// # Errors
    /// It is no object, or has more.
    pub fn members(&self, most: usize) -> Result<Vec<(String, Json)>, NoParts> {
        let mut parts = self.parts(b'{', most.saturating_mul(2))?.into_iter();
        let mut members: Vec<(String, Json)> = Vec::new();
        while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
            let text = name.text().unwrap_or_else(|| name.0.clone());
            let name = String::from_utf8_lossy(&text).into_owned();
            match members.iter_mut().find(|(known, _)| *known == name) {
                Some(member) => member.1 = value,
                None => members.push((name, value)),
            }
        }
        Ok(members)
    }

    /// The items of a list, if there are at most `most`.
    ///
    /// # Errors
    /// It is no list, or has more.
    pub fn items(&self, most: usize) -> Result<Vec<Json>, NoParts> {
        self.parts(b'[', most)
    }

    /// What is between the brackets, taken apart at the commas and colons of the outermost level.
    fn parts(&self, bracket: u8, most: usize) -> Result<Vec<Json>, NoParts> {
        if self.0.first() != Some(&bracket) {
            return Err(NoParts::Kind);
        }
        let (mut parts, mut count, mut start) = (Vec::new(), 0, 1);
        let mut end = |at: usize, start: usize| {
            let part = self.0[start..at].trim_ascii();
            // `[]` has no part, and `[1]` has one.
            if !part.is_empty() {
                count += 1;
                if count <= most {
                    parts.push(Json(self.0.slice_ref(part)));
                }
            }
        };
        for (at, depth, byte) in structure(&self.0) {
            if depth == 1 && matches!(byte, b',' | b':') || depth == 0 {
                end(at, start);
                start = at + 1;
            }
        }
        if count > most {
            // Those of an object are pairs.
            return Err(NoParts::Many(if bracket == b'{' { count / 2 } else { count }));
        }
        Ok(parts)
    }
}

/// The brackets, commas and colons outside of strings: where each is, how deep what follows it is, and which it is.
fn structure(text: &[u8]) -> impl Iterator<Item = (usize, usize, u8)> {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    text.iter().enumerate().filter_map(move |(at, byte)| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'{' => {
                depth += 1;
                // The outermost bracket separates nothing.
                return (depth > 1).then_some((at, depth, *byte));
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                return Some((at, depth, *byte));
            }
            b',' | b':' => return Some((at, depth, *byte)),
            _ => {}
        }
        None
    })
}

fn is_deep(text: &[u8]) -> bool {
    structure(text).any(|(_, depth, _)| depth > DEEPEST)
}

/// The position behind these bytes.
fn position(before: &[u8]) -> NotJson {
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    let column = 1 + before.iter().rev().take_while(|byte| **byte != b'\n').count();
    NotJson::Invalid { line, column }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn read(text: &str) -> Json {
        Json::read(Bytes::copy_from_slice(text.as_bytes())).unwrap()
    }

    #[test]
    fn items_and_members_are_the_bytes_that_were_sent() {
        let check = |text: &str, expected: &[&str]| {
            let items = read(text).items(9).unwrap();
            let found: Vec<_> = items.iter().map(|item| std::str::from_utf8(item.bytes()).unwrap()).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("[]", &[]);
        check(" [ 1 , \"a,]\" ] ", &["1", "\"a,]\""]);
        check(
            r#"["\u003c\"[", {"a":[1,{"b":"}"}]}, [[],[2]], true]"#,
            &[r#""\u003c\"[""#, r#"{"a":[1,{"b":"}"}]}"#, "[[],[2]]", "true"],
        );
        check(r#"["\\",1.50]"#, &[r#""\\""#, "1.50"]);
        assert_eq!(read("[1,2,3]").items(2), Err(NoParts::Many(3)));
        assert_eq!(read("{}").items(2), Err(NoParts::Kind));

        let members = read(r#"{ "a" : {"b":":,"} , "\u0063" : [1] , "a": 2 }"#).members(3).unwrap();
        let shown: Vec<_> = members.iter().map(|(name, value)| (name.as_str(), &value.bytes()[..])).collect();
        assert_eq!(shown, [("a", &b"2"[..]), ("c", b"[1]")]);
        assert_eq!(read(r#"{"a":1,"b":2}"#).members(1), Err(NoParts::Many(2)));
        assert_eq!(read("{}").members(0), Ok(Vec::new()));
    }

    #[test]
    fn values_are_read_when_they_are_asked_for() {
        assert_eq!(read(r#""a\u00e4""#).text().unwrap(), "aä");
        assert_eq!((read("\"plain\"").text().unwrap(), read("7").text()), (Bytes::from_static(b"plain"), None));
        assert_eq!((read(r#""\ud800""#).text(), read(r#""\ud800""#).kind()), (None, "a text that is not Unicode"));
        for (text, number) in
            [("7", Some(7)), ("-1", None), ("7.0", None), ("18446744073709551616", None), ("\"7\"", None)]
        {
            assert_eq!(read(text).number(), number, "{text}");
        }
        assert_eq!((read("true").flag(), read("0").flag(), read(" null ").is_null()), (Some(true), None, true));
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_place() {
        let check = |text: &[u8], expected: &str| {
            let problem = Json::read(Bytes::copy_from_slice(text)).unwrap_err().to_string();
            assert!(problem.contains(expected), "{problem}");
        };
        check(b"{\"id\":", "line 1, column 6");
        check(b"[1,]", "line 1, column 4");
        check(b"1 2", "line 1, column 3");
        check(b"\n\"\xff\"", "line 2, column 2");
        check(&b"[".repeat(100_000), "deeper than 128");
        assert!(Json::read("[".repeat(DEEPEST).into()).is_err());
        let most = format!("{}{}", "[".repeat(DEEPEST), "]".repeat(DEEPEST));
        assert!(Json::read(most.into()).is_ok());
    }

    /// What serde_json reads is read, with the same parts; all else is refused.
    #[test]
    fn random_texts_are_judged_as_by_a_parser_that_makes_values() {
        let mut random = fastrand::Rng::with_seed(29);
        let words =
            ["[", "]", "{", "}", ",", ":", "\"a\"", "\"\\\"[\"", "1", "-0.5e3", "null", "true", " ", "\"", "\\", "x"];
        let mut valid = 0;
        for _ in 0..200_000 {
            let text: String = (0..random.usize(1..9)).map(|_| words[random.usize(..words.len())]).collect();
            let (value, json) = (serde_json::from_str::<Value>(&text).ok(), Json::read(text.clone().into()).ok());
            assert_eq!(value.is_some(), json.is_some(), "{text}");
            let (Some(value), Some(json)) = (value, json) else { continue };
            valid += 1;
            let again = |json: &Json| serde_json::from_slice::<Value>(json.bytes()).unwrap();
            assert_eq!(again(&json), value, "{text}");
            match value {
                Value::Array(items) => {
                    assert_eq!(json.items(9).unwrap().iter().map(again).collect::<Vec<_>>(), items, "{text}");
                }
                Value::Object(members) => {
                    let found = json.members(9).unwrap();
                    assert_eq!(found.len(), members.len(), "{text}");
                    assert!(found.iter().all(|(name, value)| members[name] == again(value)), "{text}");
                }
                _ => {}
            }
        }
        assert!(valid > 1_000, "{valid}");
    }
}
