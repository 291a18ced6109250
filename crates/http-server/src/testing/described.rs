//! Whether an OpenAPI document has all endpoints of a table, and all that it refers to.

use hyper::Method;
use serde_json::Value;

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
