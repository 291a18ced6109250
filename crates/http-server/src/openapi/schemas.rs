//! The schemas of a document, made of the types that are sent and answered, in the words that OpenAPI 3.0 and 3.1 share.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// Returns a generator of schemas that refer to each other inside of a document.
pub fn generator() -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.with(|settings| settings.definitions_path = "/components/schemas".into()).into_generator()
}

/// Creates a generator of schemas for what is only read.
pub fn reader() -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    settings.with(|settings| settings.definitions_path = "/components/schemas".into()).into_generator()
}

/// Returns the schemas that were asked for, by name, and that of a problem.
pub fn components(mut generator: SchemaGenerator) -> Value {
    let mut schemas = Map::from_iter([("Problem".to_owned(), problem())]);
    schemas.extend(generator.take_definitions(false));
    schemas.values_mut().skip(1).for_each(simplify);
    Value::Object(schemas)
}

fn problem() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    json!({
        "type": "object",
        "description": "RFC 9457",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": text("The kind, as the address of its description; the last word behind # is stable"),
            "title": text("The kind in words"),
            "status": { "type": "integer", "description": "The status of the answer" },
            "detail": text("What was attempted, what happened, what to do"),
        },
    })
}

/// Makes a schema as generators of clients read it best: one width of integers, no null where a field may be left out, and
/// objects that have no further fields unless they say so.
pub fn simplify(schema: &mut Value) {
    let Value::Object(parts) = schema else {
        // `true`: anything.
        *schema = json!({});
        return;
    };
    if parts.contains_key("$ref") {
        // Beside a reference OpenAPI 3.0 has nothing.
        parts.retain(|name, _| name == "$ref");
        return;
    }
    if parts.get("type").is_some_and(|of| of == "integer" || of[0] == "integer") {
        parts.insert("format".to_owned(), json!("int64"));
        if parts.get("minimum") == Some(&json!(0)) {
            parts.remove("minimum");
        }
    }
    let required = parts.get("required").cloned().unwrap_or_default();
    if required.as_array().is_some_and(Vec::is_empty) {
        parts.remove("required");
    }
    if let Some(Value::Object(properties)) = parts.get_mut("properties") {
        for (name, property) in properties.iter_mut() {
            if !required.as_array().is_some_and(|names| names.contains(&json!(name))) {
                not_null(property);
            }
            simplify(property);
        }
        parts.entry("additionalProperties").or_insert(json!(false));
    }
    if let Some(items) = parts.get_mut("items") {
        simplify(items);
    }
    for of in ["anyOf", "oneOf"] {
        parts.get_mut(of).and_then(Value::as_array_mut).into_iter().flatten().for_each(simplify);
    }
}

/// Removes `null` from the types of a schema.
fn not_null(schema: &mut Value) {
    if let Some(types) = schema.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|of| of != "null");
        if let [of] = &types[..] {
            schema["type"] = of.clone();
        }
    }
    if let Some(of) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        of.retain(|of| of["type"] != "null");
        if let [of] = &of[..] {
            *schema = of.clone();
        }
    }
}
