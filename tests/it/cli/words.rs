//! Help, refusals and misspelt names: messages before any connection.

use super::{ask, yaml};
use harness::daemon::ConfigFile;

fn unconnected() -> ConfigFile {
    ConfigFile::new(&yaml("redis://127.0.0.1:1/0"))
}

#[test]
fn help_teaches_and_the_schema_is_printed() {
    let config = unconnected();
    let help = ask(&config, "--help").well();
    for words in ["claim -> decode -> route -> deliver", "Examples:", "Exit codes:", "  3  stopped"] {
        assert!(help.contains(words), "{words} in\n{help}");
    }
    assert!(!help.contains("\n  man "), "it is for packages: {help}");
    assert!(ask(&config, "offer --help").well().contains("printf hello | delaybridge offer reminders --delay 10m -"));
    assert!(ask(&config, "--version").well().starts_with("delaybridge "));
    assert_eq!(ask(&config, "schema").json()["title"], "delaybridge");
}

#[test]
fn a_misspelt_queue_finds_its_like() {
    let config = unconnected();
    ask(&config, "peek text").failed(2, &["find queue `text`", "did you mean `texts`?"]);
    ask(&config, "peek app:docs").failed(2, &["the name in Redis of the queue `docs`"]);
    ask(&config, "cancel nothing 0123456789abcdef").failed(2, &["it has: texts, docs, bytes"]);
    ask(&config, "cancel texts 0123").failed(2, &["16 hexadecimal digits"]);
}

#[test]
fn a_missing_file_says_which_and_how_to_make_one() {
    let config = unconnected();
    ask(&config, "queues --config /nowhere/d.yaml").failed(2, &["/nowhere/d.yaml", "config.example.yaml", "--config"]);
}
