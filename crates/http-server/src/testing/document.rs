//! Checks of an OpenAPI document: that its file is current, that it has all endpoints, and that answers are what it says.

use std::path::Path;

use hyper::Method;
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

use super::client::Answer;

/// Fails the test if the file does not have this document, and rewrites it.
pub fn assert_current(folder: &str, file: &str, document: &Value) {
    let path = Path::new(folder).join(file);
    let written = lines(document);
    if std::fs::read_to_string(&path).unwrap_or_default() != written {
        std::fs::write(&path, written).unwrap();
        panic!("{} was out of date and is rewritten: look at it, commit it and build again", path.display());
    }
}

/// Returns every value on a line of its own, so that differences can be read; without indents, because the file is
/// inside of the binary.
fn lines(document: &Value) -> String {
    let mut text = Vec::new();
    document.serialize(&mut Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b""))).unwrap();
    text.push(b'\n');
    String::from_utf8(text).unwrap()
}

/// Fails the test if the document does not have these endpoints (method, path and name) and no others, each with a summary, or if a
/// reference leads nowhere.
pub fn assert_describes<'a>(document: &Value, routes: impl Iterator<Item = (&'a Method, &'a str, &'a str)>) {
    let mut described = 0;
    for (method, path, name) in routes {
        let operation = &document["paths"][path][method.as_str().to_lowercase()];
        assert_eq!(operation["operationId"], name);
        assert_ne!(operation["summary"], "", "{name}");
        described += 1;
    }
    let paths = document["paths"].as_object().unwrap().values();
    let listed: usize = paths.map(|path| path.as_object().unwrap().len()).sum();
    assert_eq!(listed, described);
    let text = document.to_string();
    for (at, _) in text.match_indices("#/components/schemas/") {
        let name = text[at + 21..].split('"').next().unwrap();
        assert!(document["components"]["schemas"].get(name).is_some(), "{name}");
    }
    assert!(!text.contains("\"description\":\"\""), "a parameter or an answer has no description");
}

/// Fails the test if the document has no such answer, or describes it otherwise.
pub fn check(document: &Value, method: &str, path: &str, answer: &Answer) {
    let path = path.split('?').next().unwrap();
    let fits = |pattern: &str| {
        let pattern = pattern.split('/');
        let path = path.split('/');
        pattern.clone().count() == path.clone().count() && pattern.zip(path).all(|(a, b)| a == b || a.starts_with('{'))
    };
    let described = document["paths"].as_object().unwrap().iter().filter(|(pattern, _)| fits(pattern));
    // A path without names comes first, as in the router.
    let mut described: Vec<_> = described.collect();
    described.sort_by_key(|(pattern, _)| pattern.contains('{'));
    let Some(operation) = described.first().and_then(|(_, path)| path.get(method.to_lowercase())) else { return };
    let described = &operation["responses"][answer.status.to_string()];
    assert!(described.is_object(), "{method} {path}: the document has no answer {}: {}", answer.status, answer.text());
    let media_type = answer.headers.get("content-type").map(String::as_str).unwrap_or_default();
    match &described["content"] {
        Value::Null => assert!(answer.body.is_empty(), "{method} {path}: {}", answer.text()),
        content => {
            let schema = &content[media_type]["schema"];
            assert!(schema.is_object(), "{method} {path}: the document does not know {media_type}");
            matches(document, schema, &answer.json(), path);
        }
    }
}

fn matches(document: &Value, schema: &Value, value: &Value, place: &str) {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        return matches(document, &document["components"]["schemas"][name], value, place);
    }
    // A type, or null in its place.
    let mut types = schema["type"].as_array().into_iter().flatten();
    if value.is_null() && types.any(|name| name == "null") {
        return;
    }
    match schema["type"].as_str().or_else(|| schema["type"][0].as_str()) {
        Some("object") => {
            let fields = value.as_object().unwrap_or_else(|| panic!("{place}: {value}"));
            for name in schema["required"].as_array().into_iter().flatten() {
                assert!(fields.contains_key(name.as_str().unwrap()), "{place}: {name} is missing in {value}");
            }
            for (name, value) in fields {
                match schema["properties"].get(name) {
                    Some(schema) => matches(document, schema, value, &format!("{place}.{name}")),
                    None => assert_ne!(schema["additionalProperties"], false, "{place}: {name} is not described"),
                }
            }
        }
        Some("array") => {
            for item in value.as_array().unwrap_or_else(|| panic!("{place}: {value}")) {
                matches(document, &schema["items"], item, place);
            }
        }
        Some("string") => {
            let text = value.as_str().unwrap_or_else(|| panic!("{place}: {value}"));
            let words = schema["enum"].as_array();
            assert!(words.is_none_or(|words| words.contains(&text.into())), "{place}: {text}");
        }
        Some("integer") => assert!(value.is_i64() || value.is_u64(), "{place}: {value}"),
        Some("boolean") => assert!(value.is_boolean(), "{place}: {value}"),
        _ => {}
    }
}
