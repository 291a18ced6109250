//! JSON from untrusted clients, parsed lazily: each value is a span of the text.
//!
//! A tree of values takes about a hundred times the memory of its text. So a text is validated once as a whole
//! ([`Json::read`]) and then split only on demand: the members of one object, the items of one list. Unused parts cost
//! nothing, and values are passed on byte for byte.

use bytes::Bytes;
use serde::de::IgnoredAny;

/// The deepest nesting that is accepted.
const DEEPEST: usize = 128;

/// A valid JSON value, as a span of the bytes that were sent. Clones share the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Json(Bytes);

/// The reason why a text is not one JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotJson {
    /// A syntax error at this position.
    #[error("it is not valid JSON, at line {line}, column {column}")]
    Invalid {
        /// The line, starting at 1.
        line: usize,
        /// The byte in the line, starting at 1.
        column: usize,
    },
    /// Lists and objects are nested too deep.
    #[error("it is nested deeper than {DEEPEST} levels")]
    Deep,
}

/// The reason why a value has no members or items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoParts {
    /// The value is of another kind.
    Kind,
    /// The value has this number of parts, which is more than allowed.
    Many(usize),
}

impl Json {
    /// Validates a text that is one JSON value.
    ///
    /// # Errors
    /// Returns the reason if it is not.
    pub fn read(text: Bytes) -> Result<Json, NotJson> {
        // The parser below does not validate the strings that it skips.
        let checked = std::str::from_utf8(&text).map_err(|error| position(&text[..error.valid_up_to()]))?;
        if is_deep(&text) {
            return Err(NotJson::Deep);
        }
        let valid = serde_json::from_str::<IgnoredAny>(checked);
        valid.map_err(|error| NotJson::Invalid { line: error.line(), column: error.column() })?;
        let trimmed = text.slice_ref(text.trim_ascii());
        Ok(Json(trimmed))
    }

    /// Returns the bytes of the value, without surrounding white space.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// Returns the kind of the value, worded for messages.
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

    /// Returns whether the value is `null`.
    pub fn is_null(&self) -> bool {
        *self.0 == *b"null"
    }

    /// Returns the characters of a string. A string without escapes shares the bytes that were sent.
    pub fn text(&self) -> Option<Bytes> {
        let inner = self.0.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        if !inner.contains(&b'\\') {
            return Some(self.0.slice_ref(inner));
        }
        // An unpaired surrogate is valid JSON, but not a character.
        serde_json::from_slice::<String>(&self.0).ok().map(Bytes::from)
    }

    /// Returns the value of a non-negative integer.
    pub fn number(&self) -> Option<u64> {
        std::str::from_utf8(&self.0).ok()?.parse().ok()
    }

    /// Returns whether the value is a number of any kind.
    pub fn is_number(&self) -> bool {
        matches!(self.0.first(), Some(b'-' | b'0'..=b'9'))
    }

    /// Returns the value of `true` or `false`.
    pub fn flag(&self) -> Option<bool> {
        match &*self.0 {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }

    /// Reads the members of an object, at most `most`. If a name is repeated, the last value counts.
    ///
    /// # Errors
    /// Returns an error if the value is not an object, or has more members.
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

    /// Reads the items of a list, at most `most`.
    ///
    /// # Errors
    /// Returns an error if the value is not a list, or has more items.
    pub fn items(&self, most: usize) -> Result<Vec<Json>, NoParts> {
        self.parts(b'[', most)
    }

    /// Splits the text between the brackets at the commas and colons of the outermost level.
    fn parts(&self, bracket: u8, most: usize) -> Result<Vec<Json>, NoParts> {
        if self.0.first() != Some(&bracket) {
            return Err(NoParts::Kind);
        }
        let mut parts = Vec::new();
        let mut count = 0;
        let mut start = 1;
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
            // An object has two parts for each member.
            return Err(NoParts::Many(if bracket == b'{' { count / 2 } else { count }));
        }
        Ok(parts)
    }
}

/// Returns the brackets, commas and colons outside of strings, each with its offset, the depth after it, and the byte.
fn structure(text: &[u8]) -> impl Iterator<Item = (usize, usize, u8)> {
    let mut depth = 0_usize;
    let mut quoted = false;
    let mut escaped = false;
    text.iter().enumerate().filter_map(move |(at, byte)| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'{' => {
                depth += 1;
                // The outermost bracket is not a separator.
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

/// Returns the position after these bytes.
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

    /// Accepts exactly what serde_json accepts, with the same parts.
    #[test]
    fn random_texts_are_judged_as_by_a_parser_that_makes_values() {
        let mut random = fastrand::Rng::with_seed(29);
        let words =
            ["[", "]", "{", "}", ",", ":", "\"a\"", "\"\\\"[\"", "1", "-0.5e3", "null", "true", " ", "\"", "\\", "x"];
        let mut valid = 0;
        for _ in 0..200_000 {
            let text: String = (0..random.usize(1..9)).map(|_| words[random.usize(..words.len())]).collect();
            let value = serde_json::from_str::<Value>(&text).ok();
            let json = Json::read(text.clone().into()).ok();
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
