//! What is generated from the table of keys, and the files that have to follow it.

use super::*;
use delaybridge_settings::keys::{Kind, Table};
use delaybridge_settings::units;
use std::path::Path;

#[test]
fn every_default_of_the_table_reads_back() {
    for key in tables::all().into_iter().flat_map(Table::keys) {
        let (Some(default), kind) = (key.default, key.kind) else { continue };
        let good = match kind {
            Kind::Duration { min_ms } => units::duration(default).is_ok_and(|value| value.as_millis() >= min_ms.into()),
            Kind::Size => units::size(default).is_ok_and(|value| value > 0),
            Kind::Count { min, max, word } => {
                word == Some(default) || default.parse::<u64>().is_ok_and(|value| (min..=max).contains(&value))
            }
            Kind::Factor { min, max } => default.parse().is_ok_and(|value: f64| (min..=max).contains(&value)),
            Kind::Word(words) => words.iter().any(|word| word.text == default && word.available),
            Kind::Name { all, .. } => all().contains(&default),
            Kind::Rate => default == "none",
            Kind::DurationOrNone => default == "none" || units::duration(default).is_ok_and(|value| !value.is_zero()),
            Kind::DurationOrNever => default == "never" || units::duration(default).is_ok(),
            Kind::DurationOrAuto { .. } => default == "auto",
            Kind::Address => default.parse::<std::net::SocketAddr>().is_ok(),
            Kind::Listen => delaybridge_settings::Listen::parse(default).is_some(),
            Kind::Flag => matches!(default, "true" | "false"),
            Kind::Words(_) => ["[delayed, ready]", "[delivered, skipped, dead, expired]"].contains(&default),
            Kind::Text => !default.is_empty(),
            Kind::Template => delaybridge_core::template::Template::compile(default).is_ok(),
            _ => false,
        };
        assert!(good, "{}: {default}", key.name);
    }
}

fn project(file: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)
}

#[cfg(all(feature = "kafka", feature = "amqp", feature = "amqp1", feature = "nats", feature = "aws"))]
#[test]
fn the_example_is_a_good_file() {
    let loaded = crate::load(&project("config.example.yaml"), &|_| None).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(lines(&loaded.warnings), [""; 0]);
    assert_eq!(loaded.config.queues.len(), 5);
}

#[test]
fn the_reference_is_current() {
    let path = project("docs/configuration.md");
    let current = std::fs::read_to_string(&path).unwrap_or_default();
    if current != reference() {
        std::fs::write(&path, reference()).unwrap();
        panic!("docs/configuration.md was out of date and is rewritten: look at it and commit it");
    }
}

#[test]
fn the_schema_has_every_key_that_can_be_written() {
    let schema = schema();
    let queue = &schema["properties"]["queues"]["additionalProperties"];
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["required"], serde_json::json!(["redis"]));
    assert_eq!(queue["properties"]["lease"]["default"], "30s");
    assert_eq!(queue["properties"]["to"]["items"]["additionalProperties"], false);
    let codecs = &queue["properties"]["codec"]["anyOf"][0]["enum"];
    assert!(codecs.as_array().is_some_and(|codecs| codecs.contains(&"zstd+jackson".into())), "{codecs}");
    assert_eq!(schema["properties"]["redis"]["anyOf"][0]["properties"]["cluster"]["type"], "array");
}
