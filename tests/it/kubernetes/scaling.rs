//! `deploy/scaling`: valid, and what a real daemon answers is what the scalers read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::schemas::Schemas;
use harness::daemon::{Daemon, cli};
use harness::ports::free_port;
use harness::{RedisServer, http};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/scaling").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(file(name)).unwrap_or_else(|error| panic!("read {name}: {error}"))
}

/// The first object of a file.
fn first(name: &str) -> String {
    text(name).split("\n---\n").next().unwrap_or_default().to_owned()
}

/// The value at a path, as gjson finds it: names and places, separated by dots.
fn at<'a>(answer: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(answer, |value, step| match step.parse::<usize>() {
        Ok(place) => &value[place],
        Err(_) => &value[step],
    })
}

#[test]
fn the_objects_of_the_scaling_recipes_are_valid() {
    let schemas = Schemas::close();
    for name in ["keda.yaml", "hpa.yaml"] {
        schemas.judge("scaling", &first(name)).unwrap_or_else(|said| panic!("{name}: {said}"));
    }
    let wrong = first("keda.yaml").replace("pollingInterval", "polingInterval");
    assert!(schemas.judge("scaling", &wrong).is_err(), "the schema is closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scaler_reads_a_number_of_the_daemon_with_the_token_of_a_viewer() {
    let redis = RedisServer::start().await;
    let dir = TempDir::with_prefix("delaybridge-tokens-").expect("a directory");
    let tokens = dir.path().join("tokens");
    fs::write(&tokens, "keda 0123456789abcdef viewer\n").expect("write the tokens");
    let yaml = format!(
        "redis: {{ url: \"{}\" }}\nsinks: {{ out: {{ redis: {{ list: done }} }} }}\nqueues:\n  \
         orders: {{ source: {{ redisson: {{ name: orders }} }}, to: [{{ sink: out }}] }}\n",
        redis.url()
    );
    let port = free_port();
    let keys = format!("listen: \"127.0.0.1:{port}\", tokens_file: \"{}\"", tokens.display());
    let daemon = Daemon::start_for_operators_with(&keys, &yaml).await;
    for delay in ["5m", "8m", "2h"] {
        let offered = cli(daemon.config(), &["offer", "orders", "--delay", delay, "--payload", delay]);
        assert!(offered.status.success(), "{offered:?}");
    }
    let object: Value = serde_yaml::from_str(&first("keda.yaml")).expect("YAML");
    let triggers = object["spec"]["triggers"].as_array().expect("triggers");
    let mut read = Vec::new();
    for trigger in triggers {
        let text = |key: &str| trigger["metadata"][key].as_str().unwrap_or_else(|| panic!("no {key} in {trigger}"));
        assert_eq!((trigger["type"].as_str(), text("authMode")), (Some("metrics-api"), "bearer"));
        let path = text("url").splitn(4, '/').nth(3).expect("a path");
        let token = [("host", "delaybridge-admin.shop:9465"), ("authorization", "Bearer 0123456789abcdef")];
        let answer = http::send(port, "GET", &format!("/{path}"), &token, b"", Duration::from_secs(20))
            .await
            .expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.body);
        let answer: Value = serde_json::from_str(&answer.body).expect("JSON");
        read.push(at(&answer, text("valueLocation")).as_u64().unwrap_or_else(|| panic!("no number in {answer}")));
        assert_eq!(at(&answer, "steps.0.due"), 2, "{answer}");
    }
    assert_eq!(read, [2, 0], "due within ten minutes, and due already");
}

#[test]
fn the_rules_of_the_adapter_are_queries_of_metrics_that_the_daemon_has() {
    let rules: Value = serde_yaml::from_str(&text("prometheus-adapter.yaml")).expect("YAML");
    let metrics =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md")).expect("docs/metrics.md");
    let hpa: Value = serde_yaml::from_str(&first("hpa.yaml")).expect("YAML");
    let asked = hpa["spec"]["metrics"].as_array().expect("metrics").iter();
    let asked: Vec<_> = asked.map(|metric| metric["external"]["metric"]["name"].as_str().expect("a name")).collect();
    let mut records = String::from("groups:\n- name: adapter\n  rules:\n");
    for rule in rules["externalRules"].as_array().expect("rules") {
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("no text in {rule}")).to_owned();
        let series = text(&rule["seriesQuery"]).split('"').nth(1).expect("a name").to_owned();
        assert!(metrics.contains(&format!("| `{series}` | gauge |")), "{series} is no gauge of the daemon");
        assert_eq!(text(&rule["name"]["matches"]), format!("^{series}$"));
        let name = text(&rule["name"]["as"]);
        assert!(asked.contains(&name.as_str()), "{name} is used by no HPA");
        let query = text(&rule["metricsQuery"])
            .replace("<<.Series>>", &series)
            .replace("<<.LabelMatchers>>", "queue=\"orders\"");
        records.push_str(&format!("  - record: {name}\n    expr: '{query}'\n"));
    }
    let dir = TempDir::with_prefix("delaybridge-rules-").expect("a directory");
    let path = dir.path().join("rules.yaml");
    fs::write(&path, records).expect("write the rules");
    let checked = Command::new("promtool").args(["check", "rules"]).arg(&path).output().expect("run promtool");
    assert!(checked.status.success(), "{checked:?}");
}
