//! The kinds of sinks, wherever all of them are listed by hand.

use super::read;

/// The key of each kind, and the name by which pages call its servers.
const NAMES: [(&str, &str); 10] = [
    ("redis", "redis"),
    ("stdout", "standard output"),
    ("kafka", "kafka"),
    ("amqp", "rabbitmq"),
    ("amqp1", "amqp 1.0"),
    ("http", "webhook"),
    ("nats", "nats"),
    ("rocketmq", "rocketmq"),
    ("sqs", "sqs"),
    ("sns", "sns"),
];
/// Where each kind is named. Standard output is for a person, and has no server.
const PLACES: [&str; 8] = [
    "README.md",
    "ARCHITECTURE.md",
    "docs/installing.md",
    "docs/security.md",
    "docs/threat-model.md",
    "deploy/debian/control",
    "deploy/rpm/delaybridge.spec",
    "deploy/helm/delaybridge/Chart.yaml",
];

/// Every kind by its key, in the order of the reference, which is made of the list of the kinds.
fn kinds() -> Vec<String> {
    let reference = read("docs/configuration.md");
    let keys =
        reference.lines().filter_map(|line| line.strip_prefix("### ")?.trim_matches('`').strip_prefix("sinks.NAME."));
    let kinds: Vec<String> = keys.filter(|key| !key.contains('.')).map(str::to_owned).collect();
    assert!(kinds.len() > 5, "{kinds:?}");
    kinds
}

#[test]
fn every_kind_of_sink_is_named_wherever_all_are_listed() {
    for kind in kinds() {
        let Some((_, name)) = NAMES.iter().find(|(key, _)| *key == kind) else { panic!("say how pages call {kind}") };
        for place in PLACES.iter().filter(|place| kind != "stdout" || place.ends_with("installing.md")) {
            let text = read(place)
                .to_lowercase()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .replace("amqp-1.0", "amqp 1.0");
            assert!(text.contains(name), "{place} does not name {name}");
        }
        let fuzzed = format!("{}{}", read("tests/it/fuzz/files.rs"), read("config.example.yaml"));
        // Below a name: `redis` is also a section of its own.
        let below = |line: &str| line.starts_with("    ") && line.trim_start().starts_with(&format!("{kind}:"));
        assert!(
            fuzzed.contains(&format!("{{ {kind}: ")) || fuzzed.lines().any(below),
            "no file with {kind} is damaged"
        );
    }
}
