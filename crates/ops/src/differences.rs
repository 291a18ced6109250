//! What two configurations in effect have in different ways, key by key. Pure.

use serde::Serialize;
use serde_json::Value;

/// Differences that are listed; the rest is counted.
pub const MOST: usize = 200;

/// A key whose value differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Differing {
    /// The path: `queues.orders.lease`.
    pub path: String,
    /// The value that runs; none where the key is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<Value>,
    /// The value in the file; none where the key is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<Value>,
}

/// Returns the keys that differ, in the order of their names.
pub fn differences(running: &Value, file: &Value) -> Vec<Differing> {
    let mut all = Vec::new();
    compare(String::new(), Some(running), Some(file), &mut all);
    all
}

fn compare(path: String, running: Option<&Value>, file: Option<&Value>, all: &mut Vec<Differing>) {
    if running == file {
        return;
    }
    // Keys of an object are compared one by one. Lists have an order, so that an entry has no name of its own.
    if let (Some(Value::Object(before)), Some(Value::Object(after))) = (running, file) {
        let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
        names.sort();
        names.dedup();
        for name in names {
            let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            compare(below, before.get(name), after.get(name), all);
        }
        return;
    }
    all.push(Differing { path, running: running.cloned(), file: file.cloned() });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_key_that_differs_is_named() {
        let running = json!({ "a": { "lease": "30s", "to": [{ "sink": "x" }] }, "gone": { "x": 1 }, "same": [1] });
        let file = json!({ "a": { "lease": "40s", "to": [{ "sink": "y" }] }, "new": 2, "same": [1] });
        let found = differences(&running, &file);
        let paths: Vec<_> = found.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, ["a.lease", "a.to", "gone", "new"]);
        assert_eq!((&found[0].running, &found[0].file), (&Some(json!("30s")), &Some(json!("40s"))));
        assert_eq!((&found[2].file, &found[3].running), (&None, &None));
        assert!(differences(&file, &file).is_empty());
    }
}
