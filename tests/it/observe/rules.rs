//! The rules in `deploy/prometheus/`: promtool accepts them, and each alert has its section in the runbook.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use super::catalogue;
use serde::Deserialize;

use super::{project_file, read};

/// The path of the rules.
pub const RULES: &str = "deploy/prometheus/rules.yaml";
const TESTS: [&str; 2] = ["deploy/prometheus/tests.yaml", "deploy/prometheus/tests-weeks.yaml"];
const RUNBOOK: &str = "docs/alerts.md";

#[derive(Deserialize)]
struct File {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    alert: Option<String>,
    record: Option<String>,
    expr: String,
    labels: Option<Labels>,
    annotations: Option<Annotations>,
}

#[derive(Deserialize)]
struct Labels {
    severity: String,
}

#[derive(Deserialize)]
struct Annotations {
    summary: String,
    description: String,
    runbook_url: String,
}

fn rules() -> Vec<Rule> {
    let file: File = serde_yaml::from_str(&read(RULES)).expect("the rules are YAML");
    file.groups.into_iter().flat_map(|group| group.rules).collect()
}

/// Runs promtool in the folder of the rules.
fn promtool(arguments: &[&str], stdin: &str) -> Output {
    let mut child = Command::new("promtool")
        .args(arguments)
        .current_dir(project_file("deploy/prometheus"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("run promtool (is it installed? `make setup`): {e}"));
    let written = child.stdin.take().expect("stdin is piped").write_all(stdin.as_bytes());
    let output = child.wait_with_output().expect("wait for promtool");
    written.expect("write to promtool");
    output
}

/// Checks that promtool has no complaint about these metrics.
pub fn assert_metrics_are_clean(scrape: &str) {
    let output = promtool(&["check", "metrics"], scrape);
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "promtool: {}", String::from_utf8_lossy(&said));
}

#[test]
fn every_alert_fires_when_it_must_and_not_when_it_must_not() {
    for arguments in
        [["check", "rules", "rules.yaml"], ["test", "rules", "tests.yaml"], ["test", "rules", "tests-weeks.yaml"]]
    {
        let output = promtool(&arguments, "");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "promtool {arguments:?}: {said}");
        println!("promtool {}: {}", arguments.join(" "), said.trim());
    }
    let tests = TESTS.map(read).concat();
    for alert in rules().iter().filter_map(|rule| rule.alert.as_deref()) {
        assert!(tests.contains(&format!("alertname=\"{alert}\"")), "{alert} fires in no test of {TESTS:?}");
    }
}

#[test]
fn every_alert_says_how_bad_it_is_and_where_to_read_on() {
    let page = read(RUNBOOK);
    let headings: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let rules = rules();
    let mut alerts: Vec<&str> = Vec::new();
    for rule in &rules {
        let Some(alert) = rule.alert.as_deref() else { continue };
        alerts.push(alert);
        let severity = rule.labels.as_ref().map(|labels| labels.severity.as_str());
        assert!(matches!(severity, Some("critical" | "warning")), "{alert}: severity {severity:?}");
        let told = rule.annotations.as_ref().unwrap_or_else(|| panic!("{alert} has no annotations"));
        assert!(!told.summary.is_empty() && told.description.ends_with('.'), "{alert}");
        let (at, anchor) = told.runbook_url.split_once('#').expect("an anchor");
        assert!(at.ends_with(RUNBOOK), "{alert}: {at}");
        // GitHub makes the anchor of a one-word heading by lower-casing it.
        assert_eq!(anchor, alert.to_lowercase(), "{alert}");
        assert!(headings.contains(&alert), "{alert} has no section in {RUNBOOK}");
    }
    let stray: Vec<_> =
        headings.iter().filter(|name| name.starts_with("Delaybridge") && !alerts.contains(name)).collect();
    assert!(stray.is_empty(), "sections of alerts that are no more: {stray:?}");
}

#[test]
fn the_rules_use_metrics_that_exist() {
    let rules = rules();
    let records: Vec<&str> = rules.iter().filter_map(|rule| rule.record.as_deref()).collect();
    for rule in &rules {
        let name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        for word in rule.expr.split(|c| !name(c)).filter(|word| word.contains("delaybridge_")) {
            let metric = word.trim_end_matches("_bucket").trim_end_matches("_count");
            let known = records.contains(&word) || catalogue().iter().any(|known| known.name == metric);
            assert!(known, "{word} is neither in the catalogue nor recorded");
        }
    }
}
