//! The JSON Schema of the YAML, from the table of keys. For editors: what it lets pass is checked again at load.

use serde_json::{Map, Value, json};

use super::tables::top;
use delaybridge_settings::keys::{Key, Kind, Table, Word};

/// Returns the JSON Schema (2020-12) of the configuration file, with the keys of this version.
pub fn schema() -> Value {
    let mut schema = section(&top::TABLE);
    let mut root = Map::new();
    root.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    root.insert("title".to_owned(), json!("delaybridge"));
    if let Some(fields) = schema.as_object_mut() {
        root.append(fields);
    }
    Value::Object(root)
}

fn section(table: &Table) -> Value {
    let available = || table.keys();
    let mut properties: Map<String, Value> = available().map(|key| (key.name.to_owned(), property(key))).collect();
    // Left out on a route, it is what the sink says.
    for key in table.offered.iter().filter(|group| group.of.is_some()).flat_map(|group| group.keys) {
        if let Some(fields) = properties.get_mut(key.name).and_then(Value::as_object_mut) {
            fields.shift_remove("default");
        }
    }
    let required: Vec<_> = available().filter(|key| key.required).map(|key| key.name).collect();
    // A map without required keys may be left empty.
    let kind = if required.is_empty() { json!(["object", "null"]) } else { json!("object") };
    let mut schema = json!({
        "type": kind,
        "description": table.help,
        "properties": properties,
        "additionalProperties": false,
    });
    if let (Some(schema), false) = (schema.as_object_mut(), required.is_empty()) {
        schema.insert("required".to_owned(), json!(required));
    }
    schema
}

fn property(key: &Key) -> Value {
    let mut schema = value(key.kind);
    if let Some(fields) = schema.as_object_mut() {
        fields.insert("description".to_owned(), json!(key.help));
        if let Some(default) = key.default {
            fields.insert("default".to_owned(), shown_default(key.kind, default));
        }
    }
    schema
}

/// Returns the default in the type that it has in YAML.
fn shown_default(kind: Kind, text: &str) -> Value {
    match kind {
        Kind::Words(words) => words.iter().map(|word| word.text).collect(),
        Kind::Count { .. } | Kind::Factor { .. } | Kind::Flag => {
            serde_json::from_str(text).unwrap_or_else(|_| json!(text))
        }
        _ => json!(text),
    }
}

/// Returns the schema of a scalar that is no text, or a variable in its place.
fn or_variable(schema: Value) -> Value {
    json!({ "anyOf": [schema, { "type": "string", "pattern": r"\$\{[A-Z_]" }] })
}

fn pattern(pattern: &str) -> Value {
    or_variable(json!({ "type": "string", "pattern": pattern }))
}

fn value(kind: Kind) -> Value {
    match kind {
        Kind::Duration { .. } => pattern("^([0-9]+(ms|s|m|h|d))+$"),
        Kind::DurationOrAuto { .. } => pattern("^(auto|([0-9]+(ms|s|m|h|d))+)$"),
        Kind::DurationOrNone => pattern("^(none|([0-9]+(ms|s|m|h|d))+)$"),
        Kind::DurationOrNever => pattern("^(never|([0-9]+(ms|s|m|h|d))+)$"),
        Kind::Size => pattern(r"^[0-9]+(\.[0-9]+)?(B|KiB|MiB|GiB|kB|MB|GB)$"),
        Kind::Rate => pattern(r"^(none|[0-9]+(\.[0-9]+)?/(s|m|h))$"),
        Kind::Count { min, max, word } => {
            let mut number = json!({ "type": "integer", "minimum": min });
            if let (Some(number), true) = (number.as_object_mut(), max < u64::MAX) {
                number.insert("maximum".to_owned(), json!(max));
            }
            match word {
                None => or_variable(number),
                Some(word) => or_variable(json!({ "anyOf": [number, { "const": word }] })),
            }
        }
        Kind::Factor { min, max } => or_variable(json!({ "type": "number", "minimum": min, "maximum": max })),
        Kind::Flag => or_variable(json!({ "type": "boolean" })),
        Kind::Text | Kind::Secret | Kind::File | Kind::Address | Kind::Listen | Kind::Template => {
            json!({ "type": "string", "minLength": 1 })
        }
        Kind::TextOrEmpty | Kind::TemplateOrEmpty => json!({ "type": "string" }),
        Kind::NumberTemplate => {
            json!({ "anyOf": [{ "type": "string", "minLength": 1 }, { "type": "integer", "minimum": 0 }] })
        }
        Kind::Texts => json!({ "type": "array", "minItems": 1, "items": { "type": "string", "minLength": 1 } }),
        Kind::TextsOrCount { max } => or_variable(json!({ "anyOf": [
            { "type": "array", "minItems": 1, "items": { "type": "string", "minLength": 1 } },
            { "type": "integer", "minimum": 1, "maximum": max },
        ] })),
        Kind::Scalars => json!({
            "type": "object",
            "additionalProperties": { "type": ["string", "number", "boolean"] },
        }),
        Kind::Headers => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        Kind::Name { all, .. } => or_variable(json!({ "enum": all() })),
        Kind::Word(words) => or_variable(json!({ "enum": available(words) })),
        Kind::Words(words) => {
            json!({ "type": "array", "minItems": 1, "items": or_variable(json!({ "enum": available(words) })) })
        }
        Kind::Section(table) => section(table),
        Kind::SectionOrNone(table) => json!({ "anyOf": [section(table), { "const": "none" }] }),
        Kind::SectionOrNamed(table) => json!({ "anyOf": [section(table), {
            "type": "object",
            "propertyNames": { "pattern": "^[A-Za-z0-9_.-]{1,64}$" },
            "additionalProperties": section(table),
        }] }),
        Kind::Named(table) => json!({
            "type": "object",
            "propertyNames": { "pattern": "^[A-Za-z0-9_.-]{1,64}$" },
            "additionalProperties": section(table),
        }),
        Kind::Classes(table) => json!({ "type": "object", "additionalProperties": section(table) }),
        Kind::List(table) => json!({ "type": "array", "minItems": 1, "items": section(table) }),
    }
}

fn available(words: &[Word]) -> Vec<&'static str> {
    words.iter().filter(|word| word.available).map(|word| word.text).collect()
}
