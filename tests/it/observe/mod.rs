//! Monitoring: the rules, the dashboard and the operations page in `deploy/` and `docs/`, tested with Debian's
//! Prometheus.

mod dashboard;
mod live;
mod panels;
mod rules;
mod runbook;
mod scrape;

use std::path::{Path, PathBuf};

fn project_file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The text of a file of the project.
fn read(path: &str) -> String {
    std::fs::read_to_string(project_file(path)).unwrap_or_else(|e| panic!("read {path}: {e}"))
}

/// Checks that the file contains this text; otherwise rewrites it and panics.
fn assert_current(path: &str, text: &str) {
    if std::fs::read_to_string(project_file(path)).ok().as_deref() != Some(text) {
        std::fs::write(project_file(path), text).unwrap_or_else(|e| panic!("write {path}: {e}"));
        panic!("{path} was out of date and has been rewritten: look at it and commit it");
    }
}

/// The definitions of all metrics of a daemon.
fn catalogue() -> Vec<delaybridge_telemetry::catalogue::Definition> {
    delaybridge_telemetry::catalogue::all(&delaybridge_source::metric_names())
}

#[test]
fn the_reference_page_of_metrics_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");
    let page = delaybridge_telemetry::catalogue::reference(&delaybridge_source::metric_names());
    if std::fs::read_to_string(path).ok().as_deref() != Some(page.as_str()) {
        std::fs::write(path, page).unwrap();
        panic!("docs/metrics.md was out of date and has been rewritten: look at it and commit it");
    }
}
